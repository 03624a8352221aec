"""The rows of a run: one for each frame and call, from the events of its versions.

A call whose tool is an agent and the frame of this agent are one row. The tasks in
which a workflow makes its calls have rows too, with these calls below them.
"""

from __future__ import annotations

import dataclasses
import hashlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

from continuations.core.changes.tool_messages import CallEnd, end_of
from continuations.core.reading import run_stream
from continuations.core.rows.calls import (
    CLOSED_STATES,
    Proposed,
    Ready,
    Started,
    open_wait_id,
)
from continuations.core.rows.state import RunState, by_depth, by_frame, shown_arguments
from continuations.core.rows.wait_rules import WAIT_RULES
from continuations.present.times import length_text
from continuations.serve.pages.model_turns import ModelTurn, model_turns
from continuations.serve.pages.run_log import result_text, workflow_frames
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from continuations.core.reading.run_past import VersionWindow
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.waits import Wait
    from continuations.serve.pages.working_time import WorkingTime

_TASK_KEY_CHARS = 8
SpanKind: TypeAlias = Literal["frame", "work", "hold", "lost"]


@dataclasses.dataclass(slots=True, kw_only=True)
class Span:
    """A time in which something held for a row.

    Attributes:
        kind: `frame`: the agent was open. `work`: the tool ran. `hold`: it waited.
            `lost`: whether it ran is not known.
        begin: Its begin.
        end: Its end; `None`: it is still so.
        wait_id: The wait, for `hold` and `lost`.
    """

    kind: SpanKind
    begin: datetime
    end: datetime | None = None
    wait_id: str = ""


@dataclasses.dataclass(slots=True, kw_only=True, eq=False, repr=False)
class RunRow:
    """One frame or call of a run.

    Attributes:
        key: Names the row in addresses: the id of the call, or of the root frame.
        depth: Number of rows above it.
        parent: The row above it, or `None`.
        name: Name of the agent or tool.
        frame_id: Id of the frame, if the row is an agent that was stored.
        call_id: Id of the call; `None` for the root, and for a call that ended at once.
        is_agent: Whether the row is an agent.
        is_task: Whether the row is a task of the code of a workflow.
        began: When it began.
        ended: When it ended, or `None`.
        spans: Its times of work and of waiting.
        turns: The turns of its model, if it is an agent.
        arguments_json: The arguments of the call, with secret values masked.
        result: The text that the calling agent reads, or the output of the root.
        end: How the call ended, or `None`.
        wait: The last wait that it opened.
        decided: The end of its last wait, or `None`.
        children: The rows below it, in their order.
    """

    key: str
    depth: int
    parent: RunRow | None
    name: str
    began: datetime
    frame_id: str | None = None
    call_id: str | None = None
    is_agent: bool = False
    is_task: bool = False
    ended: datetime | None = None
    spans: list[Span] = dataclasses.field(default_factory=list[Span])
    turns: tuple[ModelTurn, ...] = ()
    arguments_json: str | None = None
    result: str | None = None
    end: CallEnd | None = None
    wait: Wait | None = None
    decided: run_stream.WaitDecided | None = None
    children: list[RunRow] = dataclasses.field(default_factory=lambda: list[RunRow]())  # noqa: PLW0108 - the class is not complete yet

    @property
    def is_group(self) -> bool:
        """Whether its calls have rows of their own: an agent, or a task."""
        return self.is_agent or self.is_task

    @property
    def agent(self) -> RunRow | None:
        """The row of the agent above it, or `None`."""
        above = self.parent
        while above is not None and above.is_task:
            above = above.parent
        return above

    @property
    def calls(self) -> Iterable[RunRow]:
        """The calls of an agent, those of its tasks too."""
        for child in self.children:
            if child.is_task:
                yield from child.calls
            else:
                yield child

    @property
    def open_spans(self) -> list[Span]:
        """The spans that did not end."""
        return [span for span in self.spans if span.end is None]


def rows_of(window: VersionWindow, time: WorkingTime) -> list[RunRow]:
    """Return the rows of some versions, each one before those below it.

    Rows that ended before these versions are left out.
    """
    workflows = workflow_frames(window)
    reader = _RowReader(time, workflows)
    first = window.versions[0]
    if window.before is not None:
        reader.begin_with(window.before, first.at)
    latest = first.at
    for version in window.versions:
        latest = max(latest, version.at)
        for event in version.events:
            reader.apply(event, latest)
    reader.add_missing(window.state, latest)
    rows = list(_flat(reader.roots))
    turns = model_turns(window, workflows)
    for row in reversed(rows):
        row.turns = turns.get(row.frame_id or row.call_id or "", ())
        if row.is_task:
            _time_task(row)
    return rows


def _time_task(row: RunRow) -> None:
    """Let the row of a task last from its first call to the end of all its calls."""
    ends = [child.ended for child in row.children]
    row.ended = max((end for end in ends if end), default=None)
    row.ended = None if None in ends else row.ended
    row.spans = [Span(kind="frame", begin=row.began, end=row.ended)]


def _flat(roots: list[RunRow]) -> Iterable[RunRow]:
    pending = roots[::-1]
    while pending:
        row = pending.pop()
        yield row
        pending.extend(reversed(row.children))


class _RowReader:
    """Applies events to rows, in their order."""

    def __init__(self, time: WorkingTime, workflows: frozenset[str]) -> None:
        self.roots: list[RunRow] = []
        self._time = time
        self._workflows = workflows
        self._by_frame: dict[str, RunRow] = {}
        self._by_call: dict[str, RunRow] = {}
        self._by_wait: dict[str, RunRow] = {}
        self._tasks: dict[str, RunRow] = {}
        # Calls without an id of ours, by frame and the provider's id.
        self._by_tool_call_id: dict[tuple[str | None, str], RunRow] = {}

    def begin_with(self, state: RunState, at: datetime) -> None:
        """Add the rows that are open before the first event."""
        calls = by_frame(state.calls.values())
        for frame in by_depth(state.frames.values()):
            call_id = frame.parent_call_id
            self._start_frame(frame.id, frame.agent, call_id, at)
            for call in calls.get(frame.id, ()):
                row = self._call_row(call.id, call.tool, call.frame_id, at, call.tasks)
                self._continue_call(row, call, state, at)
        for wait in state.suspending.values():
            self._open_wait(wait, wait.frame_id or None, wait.created_at)

    def _continue_call(
        self, row: RunRow, call: CallRow, state: RunState, at: datetime
    ) -> None:
        row.arguments_json = shown_arguments(call)
        if isinstance(call.state, CLOSED_STATES):
            self._end(row, at, call.state.content, end_of(call))
            return
        if isinstance(call.state, Started):
            row.spans.append(Span(kind="work", begin=at))
        wait_id = open_wait_id(call.state)
        if wait_id is not None and wait_id in state.waits:
            wait = state.waits[wait_id]
            self._open_wait(wait, call.frame_id, wait.created_at)

    def add_missing(self, state: RunState, at: datetime) -> None:
        """Add the rows of the newest state that have no event."""
        for frame in by_depth(state.frames.values()):
            if frame.id not in self._by_frame:
                self._start_frame(frame.id, frame.agent, frame.parent_call_id, at)
        for call in state.calls.values():
            row = self._call_row(call.id, call.tool, call.frame_id, at, call.tasks)
            row.arguments_json = row.arguments_json or shown_arguments(call)

    def apply(  # noqa: C901, PLR0912 - one case for each type
        self, event: run_stream.StreamEvent, at: datetime
    ) -> None:
        """Apply one event."""
        match event:
            case run_stream.RunRepaired() | run_stream.RunRewound():
                # The events after this one describe the state anew.
                self.roots.clear()
                self._by_frame.clear()
                self._by_call.clear()
                self._by_tool_call_id.clear()
                self._tasks.clear()
            case run_stream.FrameStarted():
                self._start_frame(event.frame, event.agent, event.call, at)
            case run_stream.FrameEnded():
                row = self._by_frame.get(event.frame or "")
                row = row or self._by_call.get(event.call or "")
                if row is not None:
                    self._end(row, at, event.output, event.end)
            case run_stream.Handoff():
                row = self._by_frame.get(event.frame or "")
                if row is not None and row.parent is None:
                    row.name = event.agent
            case run_stream.CallProposed():
                self._propose(event, at)
            case run_stream.CallStarted():
                row = self._call_row(event.call, event.tool, event.frame, at)
                row.ended = None
                row.spans.append(Span(kind="work", begin=at))
            case run_stream.CallEnded():
                self._end_call(event, at)
            case run_stream.WaitOpened():
                self._open_wait(event.wait, event.frame, at)
            case run_stream.WaitDecided():
                self._decide(event, at)
            case run_stream.RunEnded():
                for row in _flat(self.roots):
                    self._end(row, at, row.result, row.end)
            case _:
                pass

    # Frames -------------------------------------------------------------------

    def _start_frame(
        self, frame_id: str | None, agent: str, call_id: str | None, at: datetime
    ) -> None:
        if call_id:
            row = self._by_call.get(call_id)
        else:
            row = self._by_frame.get(frame_id or "")
        if row is None:
            key = call_id or frame_id or agent
            row = self._new_row(key, agent, None if call_id is None else "", at)
            row.call_id = call_id
            if call_id:
                self._by_call[call_id] = row
        row.is_agent, row.frame_id, row.ended = True, frame_id, None
        row.name = agent
        row.spans = [span for span in row.spans if span.kind != "work"]
        if not any(span.kind == "frame" for span in row.open_spans):
            row.spans.append(Span(kind="frame", begin=at))
        if frame_id is not None:
            self._by_frame[frame_id] = row

    def _new_row(
        self,
        key: str,
        name: str,
        frame_id: str | None,
        at: datetime,
        tasks: tuple[str, ...] = (),
    ) -> RunRow:
        """Add a row below the row of a frame, or of its task; `None`: at the top."""
        parent = None
        if frame_id is not None and self.roots:
            parent = self._by_frame.get(frame_id, self.roots[-1])
            for task in tasks:
                parent = self._task(parent, task, at)
        return self._add_row(key, name, parent, at)

    def _add_row(
        self, key: str, name: str, parent: RunRow | None, at: datetime
    ) -> RunRow:
        depth = 0 if parent is None else parent.depth + 1
        row = RunRow(key=key, depth=depth, parent=parent, name=name, began=at)
        (self.roots if parent is None else parent.children).append(row)
        return row

    def _task(self, above: RunRow, name: str, at: datetime) -> RunRow:
        """Return the row of a task; its key is the same on every page of the run."""
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        key = f"{above.key}-{digest[:_TASK_KEY_CHARS]}"
        row = self._tasks.get(key)
        if row is None:
            row = self._tasks[key] = self._add_row(key, name, above, at)
            row.is_task = True
        return row

    # Calls --------------------------------------------------------------------

    def _call_row(
        self,
        call_id: str,
        tool: str,
        frame_id: str | None,
        at: datetime,
        tasks: tuple[str, ...] = (),
    ) -> RunRow:
        row = self._by_call.get(call_id)
        if row is None:
            # A workflow that waits by itself has calls of `.ask` and so on.
            name = tool.removeprefix(".")
            row = self._new_row(call_id, name, frame_id or "", at, tasks)
            row.call_id = call_id
            self._by_call[call_id] = row
        return row

    def _propose(self, event: run_stream.CallProposed, at: datetime) -> None:
        if event.call is None:
            row = self._new_row(f"e{event.cursor}", event.tool, event.frame or "", at)
            self._by_tool_call_id[event.frame, event.tool_call_id] = row
        else:
            row = self._call_row(event.call, event.tool, event.frame, at, event.tasks)
            row.ended = None
        row.arguments_json = event.arguments_json or row.arguments_json

    def _end_call(self, event: run_stream.CallEnded, at: datetime) -> None:
        row = self._by_call.get(event.call or "")
        if row is None:
            row = self._by_tool_call_id.get((event.frame, event.tool_call_id))
        if row is None and event.call is not None:
            row = self._call_row(event.call, event.tool, event.frame, at)
        if row is not None:
            self._end(row, at, event.result, event.end)

    def _end(
        self, row: RunRow, at: datetime, result: str | None, end: CallEnd | None
    ) -> None:
        for span in row.open_spans:
            span.end = max(at, span.begin)
        row.ended = at if row.ended is None else row.ended
        if result is not None:
            is_json = row.agent is not None and row.agent.frame_id in self._workflows
            text = result_text(result) if is_json and not row.is_agent else result
            row.result, row.end = text, end

    # Waits --------------------------------------------------------------------

    def _open_wait(self, wait: Wait, frame_id: str | None, at: datetime) -> None:
        row = self._by_call.get(wait.call_id) or self._by_frame.get(frame_id or "")
        row = row or (self.roots[0] if self.roots else None)
        if row is None:
            return
        row.wait, row.decided = wait, None
        self._by_wait[wait.id] = row
        begin, kind = at, _span_kind(wait)
        for span in row.open_spans:
            if span.kind == "work":
                # A worker that died stopped before its call was known to be lost.
                stopped = self._time.end_of_work(span.begin)
                span.end = max(span.begin, min(at, stopped))
                begin = span.end if kind == "lost" else at
        row.spans.append(Span(kind=kind, begin=begin, wait_id=wait.id))

    def _decide(self, event: run_stream.WaitDecided, at: datetime) -> None:
        row = self._by_wait.get(event.wait_id)
        if row is not None:
            row.decided = event
            for span in row.open_spans:
                if span.wait_id == event.wait_id:
                    span.end = max(at, span.begin)


def _span_kind(wait: Wait) -> SpanKind:
    return "lost" if WAIT_RULES[wait.kind].may_have_run else "hold"


@dataclass(frozen=True, slots=True)
class RowState:
    """A state in words.

    Attributes:
        icon: Name of an icon.
        tone: The class of its color: `ok`, `wt` (a person), `od` (unknown outcome),
            `dg` (refused, failed) or `id`.
        words: The state.
        waits: Whether the row, or a row below it, waits.
        matters: Whether the row waits by itself, failed or runs now: the tree never
            folds it.
    """

    icon: str
    tone: str
    words: str
    waits: bool = False
    matters: bool = False


# By the end of the call.
_REFUSALS = {
    "denied": "denied",
    "expired": "expired",
    "cancelled": "cancelled",
    "not_executed": "not run",
    "invalid": "failed",
    "error": "failed",
}
_ASLEEP = RowState("clock", "id", "asleep")
_OPEN = RowState("ring", "id", "running")
_RUNS = RowState("ring", "id", "running", matters=True)
_INTERRUPTED = RowState("warn", "od", "interrupted", matters=True)
_FAILED = RowState("warn", "dg", "failed", matters=True)
_CANCELLED = RowState("warn", "dg", "cancelled")
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
        """Return the state of each row by its key; a group waits for those below."""
        found: dict[str, RowState] = {}
        for row in reversed(rows):
            own = self._own_state(row)
            if row.is_group and row.ended is None and not own.waits:
                below = [found[child.key] for child in row.children]
                own = _most_urgent([each for each in below if each.waits]) or own
                if own is _OPEN and not any(
                    each.words == _OPEN.words for each in below
                ):
                    own = _RUNS  # its model is asked
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
            return _OPEN if self._works else _ASLEEP
        if isinstance(call.state, Started):
            return _RUNS if self._works else _INTERRUPTED
        return _CALL_STATES.get(type(call.state), _ASLEEP)

    def _wait_state(self, wait: Wait) -> RowState:
        if wait.id in self._decided:
            return RowState("ok", "ok", "decided", matters=True)
        known = wait.rules.words.state
        words = self._votes.get(wait.id, known.words)
        return RowState(known.icon, known.tone, words, waits=True, matters=True)

    def _ended_state(self, row: RunRow, ended: datetime) -> RowState:
        began = any(span.kind in ("work", "frame") for span in row.spans)
        refused = _REFUSALS.get(row.end or "")
        if refused == "failed":
            return _FAILED
        if refused is not None and (not began or refused == "cancelled"):
            return RowState("warn", "dg", refused)
        decided = row.decided
        if decided is not None and decided.kind in ("answer", "deny", "expire", "fail"):
            return _decided_state(row)
        if row.parent is None and self._state.run.failure is not None:
            return _CANCELLED if self._state.run.status == "cancelled" else _FAILED
        length = timedelta()
        for span in row.spans:
            if span.kind == ("frame" if row.is_group else "work"):
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
            return _FAILED
        case _:
            return RowState("warn", "dg", f"denied by {by}" if by else "denied")


def _most_urgent(states: list[RowState]) -> RowState | None:
    for tone in _URGENCY:
        for state in states:
            if state.tone == tone:
                words = "waits" if tone != "id" else state.words
                return RowState(state.icon, tone, words, waits=True)
    return None
