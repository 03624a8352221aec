"""Steps of a workflow: what the code of its frame did since the last outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.changes.events import WorkflowDue, WorkflowStepped
from continuations.core.changes.transitions import illegal_transition
from continuations.core.rows import calls
from continuations.core.rows.workflow_history import (
    CANCELLED_BY_WORKFLOW,
    CommandsEntry,
    OutcomeEntry,
    last_time,
    message_of,
    outcome_of,
)
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.core.changes.events import CallEvent
    from continuations.core.rows.frames import FrameRow
    from continuations.core.rows.state import Draft
    from continuations.core.rows.workflow_history import Entry

End = tuple[str, calls.Returned | calls.Errored]


def apply(draft: Draft, event: WorkflowStepped | WorkflowDue) -> End | None:
    """Apply a step; return the frame's id and its end, or `None` if it goes on."""
    frame = draft.frame(event.frame_id)
    if isinstance(event, WorkflowDue):
        if frame.step != "waits":
            raise illegal_transition(f"frame {frame.id} does not wait", event)
        draft.put_frame(replace(frame, step="due"))
        return None
    if not frame.step:
        raise illegal_transition(f"frame {frame.id} is of no workflow", event)
    known = {*frame.open_call_ids}
    for entry in event.entries:
        frame = _with_entry(draft, frame, entry, event)
    new = [each for each in frame.open_call_ids if each not in known]
    _mark_calls(draft, event, new)
    _set_alarm(draft, event)
    is_over = event.end is not None or event.restart is not None
    if is_over and not frame.open_call_ids:
        if event.restart is not None:
            draft.start_log(frame.id, (message_of(event.restart),))
            draft.put_frame(replace(frame, step="new"))
            return None
        draft.put_frame(frame)
        return (frame.id, event.end) if event.end is not None else None
    draft.put_frame(replace(frame, step="ends" if is_over else "waits"))
    return None


def _with_entry(
    draft: Draft, frame: FrameRow, entry: Entry, event: WorkflowStepped
) -> FrameRow:
    if isinstance(entry, CommandsEntry):
        requests = [
            replace(request, tool_call_id=draft.allocate_id("c"))
            for request in entry.calls
        ]
        draft.append(frame.id, message_of(CommandsEntry(tuple(requests))))
        for request in requests:
            row = calls.CallRow(
                id=request.tool_call_id,
                frame_id=frame.id,
                tool=request.tool,
                tool_call_id=request.tool_call_id,
                raw_arguments=request.arguments,
                state=calls.Proposed(),
            )
            draft.put_call(row)
        ids = tuple(request.tool_call_id for request in requests)
        open_ids = (*frame.open_call_ids, *ids)
        return replace(frame, open_call_ids=open_ids, turns=frame.turns + 1)
    draft.append(frame.id, message_of(entry))
    if not isinstance(entry, OutcomeEntry):
        return frame
    row = draft.call(entry.call_id)
    if row.frame_id != frame.id or not isinstance(row.state, calls.CLOSED_STATES):
        raise illegal_transition(f"call {row.id} has no outcome", event)
    draft.drop_call(row.id)
    open_ids = tuple(each for each in frame.open_call_ids if each != row.id)
    return replace(frame, open_call_ids=open_ids)


def _mark_calls(draft: Draft, event: WorkflowStepped, new: list[str]) -> None:
    """Name the tasks of the new calls, and mark those that the code cancelled."""
    for call_id, tasks in zip(new, event.tasks, strict=False):
        if tasks:
            draft.put_call(replace(draft.call(call_id), tasks=tasks))
    for call_id in (*event.cancelled, *(new[place] for place in event.cancelled_new)):
        row = draft.call(call_id)
        if row.cancelled is None and not isinstance(row.state, calls.CLOSED_STATES):
            _mark(draft, row)


def _mark(draft: Draft, row: calls.CallRow) -> None:
    """Mark a call as cancelled, and the agents below it."""
    draft.put_call(replace(row, cancelled=CANCELLED_BY_WORKFLOW))
    if not isinstance(row.state, calls.Nested):
        return
    frames = [draft.frame(row.state.frame_id)]
    for frame in frames:  # grows while it is read
        for wait in draft.waits_of_frame(frame.id):
            if not wait.rules.suspends:
                draft.drop_wait(wait.id)
        for call_id in frame.open_call_ids:
            call = draft.call(call_id)
            if isinstance(call.state, calls.Nested):
                reason = call.cancelled or CANCELLED_BY_WORKFLOW
                draft.put_call(replace(call, cancelled=reason))
                frames.append(draft.frame(call.state.frame_id))


def _set_alarm(draft: Draft, event: WorkflowStepped) -> None:
    for wait in draft.waits_of_frame(event.frame_id):
        if not wait.rules.suspends and wait != event.alarm:
            draft.drop_wait(wait.id)
    if event.alarm is not None:
        draft.put_wait(event.alarm)


def call_closed(draft: Draft, frame: FrameRow, cancelled: str | None) -> End | None:
    """Let the code go on after a call of its frame has ended.

    Return the frame's id and end if the workflow was cancelled and nothing runs in it.
    """
    rows = [draft.call(each) for each in frame.open_call_ids]
    is_idle = all(isinstance(row.state, calls.CLOSED_STATES) for row in rows)
    if cancelled is not None:
        return (frame.id, calls.Errored("cancelled", cancelled)) if is_idle else None
    if frame.step == "waits" or (frame.step == "ends" and is_idle):
        draft.put_frame(replace(frame, step="due"))
    return None


def drop_calls(draft: Draft, frame: FrameRow) -> None:
    """Remove the calls whose outcomes the code of an ending workflow does not see."""
    for call_id in frame.open_call_ids:
        draft.drop_call(call_id)


def record_outcomes(draft: Draft, frame: FrameRow) -> None:
    """Record the outcome of every call, because the run ends."""
    at = last_time(draft.log(frame.id).messages)
    for call_id in frame.open_call_ids:
        draft.append(frame.id, message_of(outcome_of(draft.call(call_id), at)))


def with_end_time(row: calls.CallRow, event: CallEvent) -> calls.CallRow:
    """Return the row of a call of a workflow with the time of its decision."""
    decision = getattr(event, "decision", None)
    at = decision.at if decision is not None else getattr(event, "at", None)
    return row if at is None else replace(row, ended_at=at)
