"""A process remembers some runs from one sweep to the next; nothing is stored.

Some runs are due, and this process cannot work on them: it does not have their agents,
their format is newer, or its clock is wrong. Another process can, so their markers stay
as they are. This process leaves them alone for a while, without any request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.ledger.claims import Clock
    from continuations.ledger.layout import Marker

_FIRST_PAUSE_SECONDS = 60.0
_MAX_PAUSE_SECONDS = 3600.0
_MAX_RUNS = 100_000
_SECONDS_BETWEEN_CHECKS_OF_DATES = 3600.0


@dataclass(frozen=True, slots=True)
class _LeftAlone:
    until: float
    pause: float
    marker_keys: frozenset[str]


class SweepMemory:
    """The runs that this process leaves alone, and when it last checked all dates.

    Times are of the clock that counts sleep, so a wrong wall clock does not matter.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left_alone: dict[str, _LeftAlone] = {}
        self._dates_checked_at: float | None = None

    def may_look_at(self, run_id: str, due_markers: list[Marker]) -> bool:
        """Return whether this process may look at a run now.

        It may as soon as a new marker shows that something arrived.
        """
        entry = self._left_alone.get(run_id)
        if entry is None or entry.until <= self._clock.elapsed():
            return True
        return any(marker.key not in entry.marker_keys for marker in due_markers)

    def leave_alone(self, run_id: str, due_markers: list[Marker]) -> bool:
        """Leave a run alone: a minute, then twice as long each time, up to an hour.

        Returns whether this is the first time.
        """
        entry = self._left_alone.pop(run_id, None)
        pause = (
            _FIRST_PAUSE_SECONDS
            if entry is None
            else min(entry.pause * 2, _MAX_PAUSE_SECONDS)
        )
        if len(self._left_alone) >= _MAX_RUNS:
            del self._left_alone[next(iter(self._left_alone))]
        self._left_alone[run_id] = _LeftAlone(
            until=self._clock.elapsed() + pause,
            pause=pause,
            marker_keys=frozenset(marker.key for marker in due_markers),
        )
        return entry is None

    def forget(self, run_id: str) -> None:
        """Look at a run again whenever it is due."""
        self._left_alone.pop(run_id, None)

    def should_check_dates(self) -> bool:
        """Return True at first, and then once an hour."""
        now, last = self._clock.elapsed(), self._dates_checked_at
        if last is not None and now < last + _SECONDS_BETWEEN_CHECKS_OF_DATES:
            return False
        self._dates_checked_at = now
        return True
