"""Two clocks that a test sets, and ids that count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from continuations.core import ulid
from continuations.wire.fields import to_milliseconds

MOMENT = datetime(2026, 11, 21, 9, 30, 0, 125_000, tzinfo=UTC)


def seconds_after_start(seconds: float) -> datetime:
    """Return the time that is some seconds after `MOMENT`."""
    return MOMENT + timedelta(seconds=seconds)


class FakeClock:
    """A wall clock and an elapsed clock; each can be frozen."""

    def __init__(self, wall: datetime = MOMENT) -> None:
        self.wall = wall
        self.seconds = 1000.0

    def now(self) -> datetime:
        """Return the wall clock's time."""
        return self.wall

    def elapsed(self) -> float:
        """Return the elapsed clock's seconds."""
        return self.seconds

    def advance(
        self, seconds: float, *, wall: bool = True, elapsed: bool = True
    ) -> None:
        """Advance the clocks that are not frozen."""
        if wall:
            self.wall += timedelta(seconds=seconds)
        if elapsed:
            self.seconds += seconds


def make_ulid(number: int, at: datetime = MOMENT) -> str:
    """Return the ULID of a time, with a number instead of randomness."""
    return ulid.encode_ulid(
        to_milliseconds(at), number.to_bytes(ulid.RANDOM_BYTES, "big")
    )
