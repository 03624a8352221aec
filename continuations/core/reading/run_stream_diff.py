"""Derive the events between two versions of a run: `events_between(before, after)`.

The rows of a state are the open frames, calls and waits, so an end shows as a row that
is gone. The result of such a call is the tool message in the transcript of its frame.
A call that ran has a version in which it is started. Only an agent that replies at once
may have none: then its call ended, and the manifest says that its tool is an agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from continuations.core import jsontext
from continuations.core.changes import history, tool_messages
from continuations.core.reading import run_stream
from continuations.core.rows import frames
from continuations.core.rows.calls import CLOSED_STATES, CallRow, Unknown
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import (
    RunState,
    by_depth,
    by_frame,
    shown_arguments,
    trips_between,
)
from continuations.core.rows.waits import Wait, withheld

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.core.messages import Message
    from continuations.core.rows.frames import FrameRow


E = TypeVar("E", bound="run_stream.BaseEvent")


class _Result(NamedTuple):
    """The text that the model reads about a call that ended, and how it ended."""

    text: str | None
    end: tool_messages.CallEnd | None


_NO_RESULT = _Result(None, None)


def events_between(
    before: RunState | None, after: RunState, *, version: int, at: datetime
) -> list[run_stream.StreamEvent]:
    """Return the events of one version, in an order in which they can have happened.

    Args:
        before: The state of the version before. `None` for the first version, and for
            one with which a repair began anew.
        after: The state of the version.
        version: Number of the version.
        at: When the version was written.
    """
    return _VersionDiff(before, after, version, at).events()


class _VersionDiff:
    """The events of one version; use it once."""

    def __init__(
        self, before: RunState | None, after: RunState, version: int, at: datetime
    ) -> None:
        self._old_run = before.run if before else None
        # A rewind begins anew, as a repair does.
        self._rewound_to = self._old_run.rewind_to if self._old_run else 0
        if after.run.rewind_to or not self._rewound_to:
            self._rewound_to = 0
        else:
            before = None
        self._before = before
        self._after = after
        self._version = version
        self._at = at
        self._events: list[run_stream.StreamEvent] = []
        self._old_calls: Mapping[str, CallRow] = before.calls if before else {}
        self._old_frames: Mapping[str, FrameRow] = before.frames if before else {}
        self._old_waits: Mapping[str, Wait] = before.waits if before else {}
        gone = self._old_frames.keys() - after.frames.keys()
        self._gone = [self._old_frames[each] for each in gone]
        self._changed = self._changed_frames()
        # The calls of these frames, and the calls whose events are already made.
        ids = {*gone, *self._changed}
        self._calls_of = _calls_of(after.calls, ids)
        self._old_calls_of = _calls_of(self._old_calls, ids)
        self._proposed: set[str] = set(self._old_calls)
        self._ended = {
            row.id
            for row in self._old_calls.values()
            if isinstance(row.state, CLOSED_STATES)
        }
        # The path above a frame is the beginning of a path, of so many names.
        self._paths: dict[str, tuple[list[str], int]] = {}

    def events(self) -> list[run_stream.StreamEvent]:
        """Return the events."""
        if self._rewound_to:
            self._add(run_stream.RunRewound, version=self._rewound_to)
        elif self._before is None and self._version > 1:
            self._add(run_stream.RunRepaired)
        self._add_attempt()
        for wait in self._old_waits.values():
            if wait.id not in self._after.waits:
                frame = self._frame_of_wait(wait, self._old_calls)
                path = wait.path
                self._add(
                    run_stream.WaitDecided, frame=frame, path=path, wait_id=wait.id
                )
        for row in reversed(by_depth(self._gone)):
            self._add_gone_frame(row)
        for row in by_depth(self._after.frames[each] for each in self._changed):
            self._add_frame(row)
        for wait in sorted(
            self._after.waits.values(), key=lambda wait: wait.sort_key()
        ):
            if wait.id not in self._old_waits:
                frame = self._frame_of_wait(wait, self._after.calls)
                shown = withheld(wait)
                self._add(
                    run_stream.WaitOpened, frame=frame, path=wait.path, wait=shown
                )
        for trip in trips_between(self._before, self._after):
            self._add(
                run_stream.GuardrailTripped,
                frame=trip.frame_id,
                path=trip.path,
                guardrail=trip.guardrail,
                stage=trip.stage,
                reason=trip.reason,
            )
        self._add_ends()
        return self._events

    def _add(
        self,
        event: type[E],
        *,
        frame: str | None = None,
        path: tuple[str, ...] = (),
        **values: Any,
    ) -> None:
        made: Any = event(
            cursor=f"{self._version}.{len(self._events) + 1}",
            run_id=self._after.run.id,
            frame=frame,
            path=path,
            at=self._at,
            **values,
        )
        self._events.append(made)

    # The run ------------------------------------------------------------------

    def _add_attempt(self) -> None:
        claim = self._after.run.claim
        old = self._before.run.claim if self._before else None
        if claim is not None and (old is None or old.worker != claim.worker):
            self._add(run_stream.Attempt, worker=claim.worker, number=claim.attempt)

    def _add_ends(self) -> None:
        run = self._after.run
        old = self._old_run
        if not run.has_ended:
            if run.thread_key is not None and run.answered > (
                old.answered if old else 0
            ):
                self._add(
                    run_stream.ReplyGiven,
                    message_number=run.answered,
                    output=run.output,
                    failure=run.failure,
                )
            return
        if old is not None and old.status in ENDED_STATUSES:
            return
        for row in reversed(by_depth(self._after.frames.values())):
            call = row.parent_call_id
            root = _Result(run.output, None)
            result = root if call is None else self._result_of(call)
            self._add_frame_end(row, self._path(row.id, self._after), result)
        self._add(
            run_stream.RunEnded,
            status=run.status,
            output=run.output,
            failure=run.failure,
        )

    # Frames -------------------------------------------------------------------

    def _path(
        self, frame_id: str, state: RunState, agent: str | None = None
    ) -> tuple[str, ...]:
        """Return the path of a frame, while an agent of it has the conversation.

        The paths of the frames above it are kept.
        """
        known, below = self._paths, list[str]()
        current = frame_id
        while current not in known:
            call_id = state.frames[current].parent_call_id
            if call_id is None:
                known[current] = [], 0
                break
            below.append(current)
            current = state.calls[call_id].frame_id
        if below:
            names, count = known[current]
            names = names[:count]
            for each in reversed(below):
                call = state.calls[state.frames[each].parent_call_id or ""]
                above = state.frames[call.frame_id]
                names += (*_holder(above, above.agent), call.tool)
                known[each] = names, len(names)
        names, count = known[frame_id]
        row = state.frames[frame_id]
        return (*names[:count], *_holder(row, agent or row.agent))

    def _add_gone_frame(self, row: FrameRow) -> None:
        assert self._before is not None  # noqa: S101 - it has the frame
        path = self._path(row.id, self._before)
        for call in self._old_calls_of.get(row.id, ()):
            self._end_call(call, path, _NO_RESULT)
        call_id = row.parent_call_id
        result = _NO_RESULT if call_id is None else self._result_of(call_id)
        self._add_frame_end(row, path, result)

    def _add_frame_end(
        self, row: FrameRow, path: tuple[str, ...], result: _Result
    ) -> None:
        self._add(
            run_stream.FrameEnded,
            frame=row.id,
            path=path,
            agent=row.agent,
            call=row.parent_call_id,
            output=result.text,
            end=result.end,
        )

    def _result_of(self, call_id: str) -> _Result:
        """Return what the model reads about a call that ended in this version."""
        row = self._after.calls.get(call_id)
        if row is not None:
            return _result_of_row(row)
        old = self._old_calls.get(call_id)
        if old is None or old.frame_id not in self._after.frames:
            return _NO_RESULT
        for message in self._added_messages(old.frame_id):
            if message.answered_call_id == old.tool_call_id:
                return _Result(message.content, tool_messages.end_in(message))
        return _NO_RESULT

    def _added_messages(self, frame_id: str) -> tuple[Message, ...]:
        log = self._after.logs[frame_id]
        old = self._before.logs.get(frame_id) if self._before else None
        return history.added_messages(old, log, self._after.frames[frame_id])

    def _is_anew(self, frame_id: str) -> bool:
        """Return whether a workflow has begun anew; its calls have ended then."""
        old = self._before.logs.get(frame_id) if self._before else None
        return old is not None and old.id != self._after.logs[frame_id].id

    def _changed_frames(self) -> set[str]:
        """Return the frames that have other objects than in the version before."""
        after = self._after
        if self._before is None:
            return {*after.frames}
        frame, call = self._old_frames.get, self._old_calls.get
        log = self._before.logs.get
        return {
            *(key for key, row in after.frames.items() if frame(key) is not row),
            *(key for key, row in after.logs.items() if log(key) is not row),
            *(e.frame_id for key, e in after.calls.items() if call(key) is not e),
        }

    def _add_frame(self, row: FrameRow) -> None:  # noqa: C901 - one branch for each event
        added = self._added_messages(row.id)
        calls = self._calls_of.get(row.id, [])
        changes = other_changes(self._before, self._after, row)
        is_known = row.id in self._old_frames
        if is_known and not (added or calls or changes):
            return
        old = self._old_frames.get(row.id)
        agent = _first_agent(row) if old is None else old.agent
        begin = path = self._path(row.id, self._after, agent)
        if not is_known:
            values = {"agent": agent, "call": row.parent_call_id}
            self._add(run_stream.FrameStarted, frame=row.id, path=path, **values)
        open_calls = self._old_calls_of.get(row.id, [])
        if row.step and self._is_anew(row.id):
            for each in open_calls:
                self._end_call(each, path, _result_of_row(each))
        by_tool_call_id = {each.tool_call_id: each for each in (*open_calls, *calls)}
        asked: dict[str, str] = {}
        handoffs = [each for each in changes if each[0] is run_stream.Handoff]
        for message in added:
            if message.role != "tool":
                if agent == row.agent:
                    self._add_changes(row.id, begin, handoffs)
                path = self._path(row.id, self._after, agent)
            agent = tool_messages.agent_after(message) or agent
            answered = message.answered_call_id
            if answered is not None:
                call_row = by_tool_call_id.get(answered)
                result = _Result(message.content, tool_messages.end_in(message))
                if call_row is not None:
                    self._end_call(call_row, path, result)
                elif answered in asked:
                    tool = asked[answered]
                    self._add_end(row.id, path, None, tool, answered, result)
            self._add(
                run_stream.MessageAdded,
                frame=row.id,
                path=path,
                message_json=message.text,
            )
            # The calls of a first version that is no start are rows or history.
            if self._before is not None:
                asked |= self._propose(row.id, path, message, by_tool_call_id)
        self._add_changes(row.id, begin, handoffs)
        rest = [each for each in changes if each[0] is not run_stream.Handoff]
        self._add_changes(row.id, begin, rest)
        path = self._path(row.id, self._after)
        for call_row in calls:
            self._add_open_call(call_row, path)

    def _add_changes(
        self,
        frame: str,
        path: tuple[str, ...],
        changes: list[tuple[type[run_stream.BaseEvent], dict[str, Any]]],
    ) -> None:
        """Add events of a frame, and take them from the list."""
        while changes:
            event, fields = changes.pop(0)
            self._add(event, frame=frame, path=path, **fields)

    # Calls --------------------------------------------------------------------

    def _propose(
        self,
        frame_id: str,
        path: tuple[str, ...],
        message: Message,
        by_tool_call_id: Mapping[str, CallRow],
    ) -> dict[str, str]:
        """Add the calls of a model's reply; return tools of those without a row."""
        asked: dict[str, str] = {}
        if message.role != "assistant" or not message.tool_call_ids:
            return asked
        for request in message.tool_calls:
            row = by_tool_call_id.get(request.tool_call_id)
            if row is not None:
                self._propose_row(row, path)
                continue
            asked[request.tool_call_id] = request.tool
            self._add(
                run_stream.CallProposed,
                frame=frame_id,
                path=(*path, request.tool),
                call=None,
                tool=request.tool,
                tool_call_id=request.tool_call_id,
            )
        return asked

    def _propose_row(self, row: CallRow, path: tuple[str, ...]) -> None:
        if row.id in self._proposed:
            return
        self._proposed.add(row.id)
        self._add(
            run_stream.CallProposed,
            frame=row.frame_id,
            path=(*path, row.tool),
            call=row.id,
            tool=row.tool,
            tool_call_id=row.tool_call_id,
            arguments_json=shown_arguments(row),
            tasks=row.tasks,
        )

    def _add_open_call(self, row: CallRow, path: tuple[str, ...]) -> None:
        self._propose_row(row, path)
        if row.id in self._ended:
            return
        if isinstance(row.state, CLOSED_STATES):
            self._end_call(row, path, _result_of_row(row))
        elif self._has_begun(row):
            self._add_start(row, path)

    def _has_begun(self, row: CallRow) -> bool:
        old = self._old_calls.get(row.id)
        was = (old.stage, old.attempts) if old else (0, 0)
        # A repair may count a start that no version has.
        may_count = not isinstance(row.state, Unknown)
        return may_count and row.attempts > 0 and (row.stage, row.attempts) > was

    def _add_start(self, row: CallRow, path: tuple[str, ...]) -> None:
        path = (*path, row.tool)
        frame, tool = row.frame_id, row.tool
        self._add(
            run_stream.CallStarted, frame=frame, path=path, call=row.id, tool=tool
        )

    def _end_call(self, row: CallRow, path: tuple[str, ...], result: _Result) -> None:
        if row.id in self._ended:
            return
        self._ended.add(row.id)
        if row.id in self._after.calls and self._has_begun(row):
            self._add_start(row, path)
            self._add_unstored_frame(row, path, result)
        elif row.id not in self._after.calls and not row.attempts + row.stage:
            began = result.end in tool_messages.BEGUN_ENDS
            if began and sub_agent_name(self._after, row) is not None:
                self._add_start(row, path)
                self._add_unstored_frame(row, path, result)
        self._add_end(row.frame_id, path, row.id, row.tool, row.tool_call_id, result)

    def _add_unstored_frame(
        self, row: CallRow, path: tuple[str, ...], result: _Result
    ) -> None:
        """Add the begin and end of an agent that replied within this version."""
        agent = sub_agent_name(self._after, row)
        if agent is None:
            return
        path = (*path, row.tool)
        self._add(run_stream.FrameStarted, path=path, agent=agent, call=row.id)
        self._add(
            run_stream.FrameEnded,
            path=path,
            agent=agent,
            call=row.id,
            output=result.text,
            end=result.end,
        )

    def _add_end(
        self,
        frame_id: str,
        path: tuple[str, ...],
        call_id: str | None,
        tool: str,
        tool_call_id: str,
        result: _Result,
    ) -> None:
        self._add(
            run_stream.CallEnded,
            frame=frame_id,
            path=(*path, tool),
            call=call_id,
            tool=tool,
            tool_call_id=tool_call_id,
            result=result.text,
            end=result.end,
        )

    def _frame_of_wait(self, wait: Wait, calls: Mapping[str, CallRow]) -> str | None:
        return calls[wait.call_id].frame_id if wait.call_id else wait.frame_id or None


def _calls_of(
    calls: Mapping[str, CallRow], frame_ids: set[str]
) -> dict[str, list[CallRow]]:
    """Return the calls of some frames, by the ids of the frames."""
    return by_frame(row for row in calls.values() if row.frame_id in frame_ids)


def _result_of_row(row: CallRow) -> _Result:
    if isinstance(row.state, CLOSED_STATES):
        return _Result(tool_messages.tool_message_text(row), tool_messages.end_of(row))
    return _NO_RESULT


def other_changes(
    before: RunState | None, after: RunState, row: FrameRow
) -> list[tuple[type[run_stream.BaseEvent], dict[str, Any]]]:
    """Return the events of a frame between two versions."""
    changes: list[tuple[type[run_stream.BaseEvent], dict[str, Any]]] = []
    old_row = before.frames.get(row.id) if before else None
    old_state = "" if old_row is None else old_row.state_json
    if row.state_json != old_state:
        changed = frames.changed_state_fields(old_state, row.state_json)
        changes.append((run_stream.StateChanged, {"changes_json": changed}))
    old_log = before.logs.get(row.id) if before else None
    compacted = history.fields_of_event(old_log, after.logs[row.id], row)
    if compacted:
        changes.append((run_stream.Compacted, compacted))
    previous = _first_agent(row) if old_row is None else old_row.agent
    if row.step == "ends" and (old_row is None or old_row.step != "ends"):
        changes.append((run_stream.CallsLeftOpen, {"calls": row.open_call_ids}))
    if row.agent != previous:
        dropped = history.dropped_count(old_log, after.logs[row.id])
        names = {"agent": row.agent, "previous": previous, "dropped": dropped}
        changes.append((run_stream.Handoff, names))
    return changes


def _holder(frame: FrameRow, agent: str) -> tuple[str, ...]:
    """Return the part of a path that names the agent that has a conversation."""
    is_first = agent == _first_agent(frame)
    return () if frame.parent_call_id is not None and is_first else (agent,)


def _first_agent(row: FrameRow) -> str:
    """Return the name of the agent with which a frame began."""
    return row.began_as or row.agent


def sub_agent_name(state: RunState, row: CallRow) -> str | None:
    """Return the name of the agent that is the tool of a call, or `None`."""
    frame = state.frames.get(row.frame_id)
    if frame is None:
        return None
    return sub_agents(state.manifest).get((frame.agent, row.tool))


def sub_agents(manifest: str) -> Mapping[tuple[str, str], str]:
    """Return the names of the sub-agents of a manifest, by agents and their tools."""
    agents = jsontext.as_array(jsontext.parse(manifest)["agents"]) or []
    return {
        (agent["name"], name): agents[tool["agent"]]["name"]
        for agent in agents
        for name, tool in agent["tools"].items()
        if "agent" in tool and "handoff" not in tool
    }
