"""Waits grow, are drawn at random, and end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from continuations_storage.patience import Patience


@dataclass
class Ports:
    """A clock that only sleeping moves, and dice that show what they are told."""

    dice: float = 1.0
    now: float = 0.0
    slept: list[float] = field(default_factory=list[float])

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def patience(self, attempts: int = 8, seconds: float = 1000.0) -> Patience:
        return Patience(
            attempts=attempts,
            seconds=seconds,
            clock=lambda: self.now,
            sleep=self.sleep,
            dice=lambda: self.dice,
        )


def waits(patience: Patience, asked: float = 0.0) -> int:
    async def story() -> int:
        tries = patience.begin()
        made = 1
        while await tries.again(asked):
            made += 1
        return made

    return asyncio.run(story())


def test_waits_double_up_to_a_limit() -> None:
    ports = Ports()

    assert 8 == waits(ports.patience())
    assert [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0] == ports.slept


def test_waits_are_drawn_from_zero_up() -> None:
    ports = Ports(dice=0.0)

    assert 3 == waits(ports.patience(attempts=3))
    assert [0.0, 0.0] == ports.slept


def test_what_was_asked_for_comes_on_top() -> None:
    ports = Ports(dice=0.5)

    assert 3 == waits(ports.patience(attempts=3), asked=2.0)
    assert [2.05, 2.1] == ports.slept


def test_no_attempt_begins_after_the_end() -> None:
    ports = Ports()

    assert 4 == waits(ports.patience(seconds=1.0))
    assert [0.1, 0.2, 0.4] == ports.slept


def test_one_attempt_is_one_attempt() -> None:
    ports = Ports()

    assert 1 == waits(ports.patience(attempts=1))
    assert [] == ports.slept
