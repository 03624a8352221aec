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

__all__ = ["RetryPolicy", "RetryState"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """At most so many attempts, none begun later than `seconds` after the first."""

    max_attempts: int = 8
    max_seconds: float = 30.0
    first_delay: float = 0.1
    max_delay: float = 5.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random_fraction: Callable[[], float] = random.random

    def begin(self) -> RetryState:
        """Begin one operation: its first attempt is made now."""
        return RetryState(self)


class RetryState:
    """The attempts of one operation."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._made = 1
        self._until = policy.clock() + policy.max_seconds

    async def wait_for_retry(self, min_delay: float = 0.0) -> bool:
        """Wait for the next attempt, or say at once that there is to be none."""
        patience = self._policy
        if self._made >= patience.max_attempts:
            return False
        most = min(patience.max_delay, patience.first_delay * 2 ** (self._made - 1))
        wait = min_delay + patience.random_fraction() * most
        if patience.clock() + wait > self._until:
            return False
        self._made += 1
        await patience.sleep(wait)
        return True
