"""The state of a row of a run in a few words, always with an icon and a tone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.core.calls import Proposed, Ready, Started
from continuations.serve.pages.time_words import length_text
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from continuations.core.state import RunState
    from continuations.core.waits import Wait
    from continuations.serve.pages.run_rows import RunRow
    from continuations.serve.pages.working_time import WorkingTime


@dataclass(frozen=True, slots=True)
class RowState:
    """A state in words.

    Attributes:
        icon: Name of an icon.
        tone: The class of its color: `ok`, `wt` (a person), `od` (unknown outcome),
            `dg` (refused, failed) or `id`.
        words: The state.
        waits: Whether the row, or a row below it, waits.
    """

    icon: str
    tone: str
    words: str
    waits: bool = False


# By the end of the call.
_REFUSALS = {
    "denied": "denied",
    "expired": "expired",
    "cancelled": "cancelled",
    "not_executed": "not run",
    "invalid": "failed",
    "error": "failed",
}
_WORKS = RowState("ring", "id", "works")
_ASLEEP = RowState("clock", "id", "asleep")
_RUNS = RowState("ring", "id", "runs")
_INTERRUPTED = RowState("warn", "od", "interrupted")
_CALL_STATES: dict[type[object], RowState] = {
    Proposed: RowState("ring", "id", "asked for"),
    Ready: RowState("ok", "id", "may run"),
}
# An agent shows the first of these tones that a row below it has.
_URGENCY = ("od", "wt", "id")


class RowStates:
    """Finds the states of rows.

    Args:
        state: The state of the run.
        time: Its time axis.
        decided: Ids of waits whose decision is recorded, but not yet applied.
        votes: By the id of a wait, how many votes it has: `1 of 2 votes`.
    """

    def __init__(
        self,
        state: RunState,
        time: WorkingTime,
        decided: Collection[str] = (),
        votes: Mapping[str, str] | None = None,
    ) -> None:
        self._state = state
        self._time = time
        self._decided = decided
        self._votes = votes or {}
        self._works = time.segments[-1].stretch.is_open

    def of_all(self, rows: list[RunRow]) -> dict[str, RowState]:
        """Return the state of each row by its key; an agent waits for those below."""
        found: dict[str, RowState] = {}
        for row in reversed(rows):
            own = self._own_state(row)
            if row.is_agent and row.ended is None and not own.waits:
                below = [found[child.key] for child in row.children]
                own = _most_urgent([each for each in below if each.waits]) or own
            found[row.key] = own
        return found

    def _own_state(self, row: RunRow) -> RowState:
        if row.ended is not None:
            return self._ended_state(row, row.ended)
        wait = row.wait
        if wait is not None and row.decided is None and wait.id in self._state.waits:
            return self._wait_state(wait)
        call = self._state.calls.get(row.call_id or "")
        if row.is_agent or call is None:
            return _WORKS if self._works else _ASLEEP
        if isinstance(call.state, Started):
            return _RUNS if self._works else _INTERRUPTED
        return _CALL_STATES.get(type(call.state), _ASLEEP)

    def _wait_state(self, wait: Wait) -> RowState:
        if wait.id in self._decided:
            return RowState("ok", "ok", "decided")
        known = wait.rules.words.state
        words = self._votes.get(wait.id, known.words)
        return RowState(known.icon, known.tone, words, waits=True)

    def _ended_state(self, row: RunRow, ended: datetime) -> RowState:
        began = any(span.kind in ("work", "frame") for span in row.spans)
        refused = _REFUSALS.get(row.end or "")
        if refused is not None and (not began or refused == "failed"):
            return RowState("warn", "dg", refused)
        decided = row.decided
        if decided is not None and decided.kind in ("answer", "deny", "expire", "fail"):
            return _decided_state(row)
        if row.parent is None and self._state.run.failure is not None:
            return RowState("warn", "dg", "failed")
        length = timedelta()
        for span in row.spans:
            if span.kind == ("frame" if row.is_agent else "work"):
                length += self._time.worked_between(span.begin, span.end or ended)
        return RowState("ok", "ok", length_text(length))


def _decided_state(row: RunRow) -> RowState:
    decided = row.decided
    by = decided.by if decided is not None else None
    match decided.kind if decided is not None else None:
        case "answer":
            words = f"answered by {by}" if by else "answered"
            return RowState("ok", "ok", words)
        case "expire":
            return RowState("warn", "dg", "expired")
        case "fail":
            return RowState("warn", "dg", "failed")
        case _:
            return RowState("warn", "dg", f"denied by {by}" if by else "denied")


def _most_urgent(states: list[RowState]) -> RowState | None:
    for tone in _URGENCY:
        for state in states:
            if state.tone == tone:
                words = "waits" if tone != "id" else state.words
                return RowState(state.icon, tone, words, waits=True)
    return None
