"""Waits between attempts double, are random, and end."""

from __future__ import annotations

import asyncio

from continuations_storage.retries import RetryPolicy
from tests.storage.outages import VirtualTime


def policy_of(
    time: VirtualTime, attempts: int = 8, seconds: float = 1000.0
) -> RetryPolicy:
    return time.retry_policy(max_attempts=attempts, max_seconds=seconds)


def count_attempts(retry_policy: RetryPolicy, retry_after: float = 0.0) -> int:
    async def scenario() -> int:
        tries = retry_policy.begin()
        made = 1
        while await tries.wait_for_retry(retry_after):
            made += 1
        return made

    return asyncio.run(scenario())


def test_delays_double_up_to_a_limit() -> None:
    ports = VirtualTime(dice=1.0)

    assert 8 == count_attempts(policy_of(ports))
    assert [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0] == ports.pauses


def test_delays_are_random_between_zero_and_the_limit() -> None:
    ports = VirtualTime(dice=0.0)

    assert 3 == count_attempts(policy_of(ports, attempts=3))
    assert [0.0, 0.0] == ports.pauses


def test_retry_after_is_added_to_the_delay() -> None:
    ports = VirtualTime(dice=0.5)

    assert 3 == count_attempts(policy_of(ports, attempts=3), retry_after=2.0)
    assert [2.05, 2.1] == ports.pauses


def test_no_attempt_begins_after_the_end() -> None:
    ports = VirtualTime(dice=1.0)

    assert 4 == count_attempts(policy_of(ports, seconds=1.0))
    assert [0.1, 0.2, 0.4] == ports.pauses


def test_one_attempt_has_no_delay() -> None:
    ports = VirtualTime(dice=1.0)

    assert 1 == count_attempts(policy_of(ports, attempts=1))
    assert [] == ports.pauses
