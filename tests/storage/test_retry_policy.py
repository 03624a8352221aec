"""Waits between attempts double, are random, and end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from continuations_storage.retries import RetryPolicy


@dataclass
class RecordedDelays:
    """A clock that only `sleep` advances, and fixed random numbers."""

    dice: float = 1.0
    now: float = 0.0
    slept: list[float] = field(default_factory=list[float])

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def retry_policy(self, attempts: int = 8, seconds: float = 1000.0) -> RetryPolicy:
        return RetryPolicy(
            max_attempts=attempts,
            max_seconds=seconds,
            clock=lambda: self.now,
            sleep=self.sleep,
            random_fraction=lambda: self.dice,
        )


def count_attempts(retry_policy: RetryPolicy, retry_after: float = 0.0) -> int:
    async def scenario() -> int:
        tries = retry_policy.begin()
        made = 1
        while await tries.wait_for_retry(retry_after):
            made += 1
        return made

    return asyncio.run(scenario())


def test_delays_double_up_to_a_limit() -> None:
    ports = RecordedDelays()

    assert 8 == count_attempts(ports.retry_policy())
    assert [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0] == ports.slept


def test_delays_are_random_between_zero_and_the_limit() -> None:
    ports = RecordedDelays(dice=0.0)

    assert 3 == count_attempts(ports.retry_policy(attempts=3))
    assert [0.0, 0.0] == ports.slept


def test_retry_after_is_added_to_the_delay() -> None:
    ports = RecordedDelays(dice=0.5)

    assert 3 == count_attempts(ports.retry_policy(attempts=3), retry_after=2.0)
    assert [2.05, 2.1] == ports.slept


def test_no_attempt_begins_after_the_end() -> None:
    ports = RecordedDelays()

    assert 4 == count_attempts(ports.retry_policy(seconds=1.0))
    assert [0.1, 0.2, 0.4] == ports.slept


def test_one_attempt_has_no_delay() -> None:
    ports = RecordedDelays()

    assert 1 == count_attempts(ports.retry_policy(attempts=1))
    assert [] == ports.slept
