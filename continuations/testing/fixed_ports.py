"""Ports that a test controls: a clock, a store with its time, counted ids."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING

from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from continuations_storage import MemoryStore


_START = datetime(2026, 1, 5, 9, tzinfo=UTC)


class FrozenClock:
    """The clocks of a machine, which stand still until a test moves them.

    Pass it as `clock=` to a runner, together with a store of `memory_store`: a runner
    compares its clock with the time of the store.

    Args:
        start: The time at the beginning, with a time zone. Default: Monday, 5 January
            2026, 9:00 UTC.

    Raises:
        InvalidInput: `start` has no time zone.
    """

    def __init__(self, start: datetime = _START) -> None:
        if start.utcoffset() is None:
            raise InvalidInput(
                f"FrozenClock: start must have a time zone, got {start.isoformat()}. "
                "Pass a datetime with tzinfo=UTC."
            )
        self._start = start.astimezone(UTC)
        self._passed = timedelta()

    def __repr__(self) -> str:
        return f"<FrozenClock at {self.now().isoformat()}>"

    def now(self) -> datetime:
        """Return the time of the clock.

        Returns:
            The time in whole milliseconds, UTC.
        """
        now = self._start + self._passed
        return now - timedelta(microseconds=now.microsecond % 1000)

    def elapsed(self) -> float:
        """Return how far the clock was moved.

        Returns:
            The seconds since the beginning.
        """
        return self._passed.total_seconds()

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        """Move the clock forward.

        Timers and deadlines take effect when a runner sweeps. `AgentHarness.advance`
        moves the clock and sweeps.

        Args:
            days: Days to add.
            hours: Hours to add.
            minutes: Minutes to add.
            seconds: Seconds to add.

        Raises:
            InvalidInput: The sum is negative.
        """
        self._passed += period_of(
            days=days, hours=hours, minutes=minutes, seconds=seconds
        )

    def advance_to(self, moment: datetime) -> None:
        """Move the clock forward to a time; an earlier time does not move it.

        Args:
            moment: The time, with a time zone.
        """
        self._passed = max(self._passed, moment - self._start)

    async def sleep(self, seconds: float) -> None:
        """Move the clock instead of waiting, when a runner waits for its store.

        Args:
            seconds: The seconds to wait.
        """
        self._passed += timedelta(seconds=seconds)
        await asyncio.sleep(0)


def period_of(
    *, days: float, hours: float, minutes: float, seconds: float
) -> timedelta:
    """Return a period of time; raises `InvalidInput` if it is negative."""
    period = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    if period < timedelta():
        raise InvalidInput(
            "advance: the sum of days, hours, minutes and seconds must not be negative,"
            f" got {period.total_seconds():g} seconds. Make a new FrozenClock to begin "
            "earlier."
        )
    return period


def memory_store(clock: FrozenClock) -> MemoryStore:
    """Return a store in memory that tells the time of a clock.

    The time of the store is the time of record for claims and deadlines. So the store
    and the runner of a test need the same clock.

    Args:
        clock: The clock.

    Returns:
        An empty store.
    """
    from continuations_storage import MemoryStore  # noqa: PLC0415 - at first use

    return MemoryStore(clock.now)


_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH = 26
_NUMBER_BITS = 80


class NumberedIds:
    """A source of ids that are numbered 1, 2, 3 …: pass it as `ids=` to a runner.

    The ids are ULIDs of the clock's time. Their last part is the number. All
    runners that share a store must share the source, because an id must never repeat.
    Do not use it outside tests: anyone can guess the next id.
    """

    def __init__(self) -> None:
        self._numbers = count(1)

    def new_ulid(self, now: datetime) -> str:
        """Return the next id.

        Args:
            now: The time of the id, with a time zone.

        Returns:
            A ULID in lower case.
        """
        # `next` of a counter is atomic, so threads may share the source.
        milliseconds = round(now.timestamp() * 1000)
        value = milliseconds << _NUMBER_BITS | next(self._numbers)
        places = reversed(range(_LENGTH))
        return "".join(_ALPHABET[value >> 5 * place & 31] for place in places)
