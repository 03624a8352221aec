"""How often a store retries, and how long it waits between attempts.

A wait is a random part of a limit that doubles with each attempt ("full jitter"), so
that clients which failed together do not return together. A wait that the server asks
for is added. Clock, sleep and randomness are parameters, so that tests control them.
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
    """The limits of the attempts of one operation.

    Attributes:
        max_attempts: The most attempts, the first one included.
        max_seconds: No attempt begins later than this after the first one.
        first_delay: The upper limit of the first wait, in seconds.
        max_delay: The upper limit of every wait, in seconds.
        clock: Returns monotonic seconds.
        sleep: Waits for seconds.
        random_fraction: Returns a random number from 0 to 1.
    """

    max_attempts: int = 8
    max_seconds: float = 30.0
    first_delay: float = 0.1
    max_delay: float = 5.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random_fraction: Callable[[], float] = random.random

    def begin(self) -> RetryState:
        """Begin one operation, whose first attempt begins now.

        Returns:
            The state of the attempts of this operation.
        """
        return RetryState(self)


class RetryState:
    """The attempts of one operation so far."""

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._made = 1
        self._until = policy.clock() + policy.max_seconds

    async def wait_for_retry(self, min_delay: float = 0.0) -> bool:
        """Wait and return True, or return False at once if no attempt is left."""
        policy = self._policy
        if self._made >= policy.max_attempts:
            return False
        limit = min(policy.max_delay, policy.first_delay * 2 ** (self._made - 1))
        wait = min_delay + policy.random_fraction() * limit
        if policy.clock() + wait > self._until:
            return False
        self._made += 1
        await policy.sleep(wait)
        return True
