"""How often, and how long apart, a store asks again.

Waits grow and are drawn at random from zero up ("full jitter"), so that many clients
that failed together do not come back together; a wait that the server asked for comes
on top. Time, sleep and dice are ports, so that a test needs none of them.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Patience", "Tries"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """At most so many attempts, none begun later than `seconds` after the first."""

    attempts: int = 8
    seconds: float = 30.0
    first_wait: float = 0.1
    longest_wait: float = 5.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    dice: Callable[[], float] = random.random

    def begin(self) -> Tries:
        """Begin one operation: its first attempt is made now."""
        return Tries(self)


class Tries:
    """The attempts of one operation."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._made = 1
        self._until = patience.clock() + patience.seconds

    async def again(self, at_least: float = 0.0) -> bool:
        """Wait for the next attempt, or say at once that there is to be none."""
        patience = self._patience
        if self._made >= patience.attempts:
            return False
        most = min(patience.longest_wait, patience.first_wait * 2 ** (self._made - 1))
        wait = at_least + patience.dice() * most
        if patience.clock() + wait > self._until:
            return False
        self._made += 1
        await patience.sleep(wait)
        return True
