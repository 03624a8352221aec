"""Clocks that a test sets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from continuations.engine.ports import SystemClock


class ManualClock:
    """A wall clock and an elapsed clock that move only when `seconds` is set."""

    def __init__(self, seconds: float = 0.0) -> None:
        self._start = datetime(2026, 1, 1, tzinfo=UTC)
        self.seconds = seconds

    def now(self) -> datetime:
        """Return the wall clock's time."""
        return self._start + timedelta(seconds=self.seconds)

    def elapsed(self) -> float:
        """Return the elapsed clock's seconds."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Move the clock; no time passes outside."""
        self.seconds += seconds
        await asyncio.sleep(0)


class ShiftedClock:
    """The clock of a machine that is wrong by a fixed time, and counts rightly."""

    def __init__(self, right: ManualClock, offset: timedelta) -> None:
        self._right = right
        self._offset = offset
        self.elapsed, self.sleep = right.elapsed, right.sleep

    def now(self) -> datetime:
        """Return the wrong time."""
        return self._right.now() + self._offset


class OffsetClock(SystemClock):
    """The machine's clocks, `offset_seconds` ahead."""

    def __init__(self, offset_seconds: float = 0.0) -> None:
        self.offset_seconds = offset_seconds

    def now(self) -> datetime:
        """Return the wall clock's time plus the offset."""
        return super().now() + timedelta(seconds=self.offset_seconds)

    def elapsed(self) -> float:
        """Return the elapsed clock's seconds plus the offset."""
        return super().elapsed() + self.offset_seconds
