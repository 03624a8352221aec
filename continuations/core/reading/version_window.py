"""A part of a run's past: consecutive versions, with the events of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.reading.run_stream import StreamEvent
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionEvents:
    """One version of a run.

    Attributes:
        number: Number of the version.
        at: When the version was written.
        run: The row of the run, with the claim of its worker.
        events: The events of this version, in their order.
    """

    number: int
    at: datetime
    run: RunRow
    events: tuple[StreamEvent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionWindow:
    """Consecutive versions of a run, at least one.

    Attributes:
        before: The state before the first of them, `None` if it is the run's first.
        versions: The versions, the oldest first.
        state: The state of the last of them.
        newest_number: Number of the newest version of the run.
    """

    before: RunState | None
    versions: tuple[VersionEvents, ...]
    state: RunState
    newest_number: int

    @property
    def is_newest(self) -> bool:
        """Whether the last version is the newest one of the run."""
        return self.versions[-1].number == self.newest_number

    @property
    def first_number(self) -> int:
        """Number of the first version."""
        return self.versions[0].number

    @property
    def last_number(self) -> int:
        """Number of the last version."""
        return self.versions[-1].number
