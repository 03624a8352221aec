"""advance(table, event) -> table: the one way in which a run changes.

Pure: the same table and the same event give the same table, so every schedule can be
replayed. What each call may become is decided by `transitions.py`; here stands what
follows from it for the frames around.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core import messages as said
from continuations.core import tool_messages
from continuations.core.calls import (
    CLOSED_STATES,
    STATE_NAMES,
    CallRow,
    Errored,
    Nested,
    Proposed,
    Ready,
    Returned,
    Started,
    Unknown,
    Waiting,
)
from continuations.core.draft import Draft
from continuations.core.events import (
    Answered,
    ApprovalRequested,
    Approved,
    CallAccepted,
    CallCancelled,
    CallInvalid,
    CallRaised,
    CallReturned,
    Denied,
    Expired,
    ModelReplied,
    OutcomeUnknown,
    Reopened,
    RunStopped,
    SubAgentStarted,
    UserMessageAdded,
)
from continuations.core.frames import FrameRow
from continuations.core.run import ENDED_STATUSES, Failure
from continuations.core.state import ROOT_FRAME_ID
from continuations.core.transcript import unique_tool_call_ids
from continuations.core.transitions import next_state
from continuations.errors import IllegalTransition

if TYPE_CHECKING:
    from continuations.core.calls import CallState
    from continuations.core.events import CallEvent, Event
    from continuations.core.run import RunStatus
    from continuations.core.state import RunState


def advance(state: RunState, event: Event) -> RunState:
    """Return the run after a fact; raises `IllegalTransition` for an impossible one."""
    if state.run.status in ENDED_STATUSES:
        msg = f"the run is {state.run.status}: {type(event).__name__} comes too late"
        raise IllegalTransition(msg)
    draft = Draft(state)
    match event:
        case ModelReplied():
            _add_model_reply(draft, event)
        case UserMessageAdded():
            _add_user_message(draft, event)
        case RunStopped():
            _stop_run(draft, event.failure)
        case _:
            _apply_call_event(draft, event)
    return draft.to_run_state()


# Frames ---------------------------------------------------------------------


def _add_model_reply(draft: Draft, event: ModelReplied) -> None:
    frame = draft.frame(event.frame_id)
    if frame.open_call_ids or event.message.role != "assistant":
        msg = f"frame {frame.id} has open calls, or this is no assistant's message"
        raise IllegalTransition(msg)
    draft.put_run(replace(draft.run, usage=draft.run.usage + event.usage))
    calls = [draft.allocate_id("c") for _ in event.message.tool_call_ids]
    message = event.message
    if calls:
        log = draft.log(frame.id).messages
        fresh = tuple(f"call_{call}" for call in calls)
        ids = unique_tool_call_ids(log, message.tool_call_ids, fresh)
        message = (
            message if ids == message.tool_call_ids else message.with_tool_call_ids(ids)
        )
    draft.append(frame.id, message)
    draft.put_frame(replace(frame, turns=frame.turns + 1, open_call_ids=tuple(calls)))
    for call, request in zip(calls, message.tool_calls, strict=True):
        row = CallRow(
            id=call,
            frame_id=frame.id,
            tool=request.tool,
            tool_call_id=request.tool_call_id,
            raw_arguments=request.arguments,
            state=Proposed(),
        )
        draft.put_call(row)
    if not calls:
        _end_frame(draft, frame.id, tool_messages.final_frame_state(message, event))


def _add_user_message(draft: Draft, event: UserMessageAdded) -> None:
    if draft.frame(ROOT_FRAME_ID).open_call_ids or event.message.role in (
        "assistant",
        "tool",
    ):
        msg = "a message never stands between a call and its result, nor for either"
        raise IllegalTransition(msg)
    last = draft.run.last_inbox_number
    if event.number != last + 1:
        msg = f"inbox message {event.number} does not follow inbox message {last}"
        raise IllegalTransition(msg)
    draft.put_run(replace(draft.run, last_inbox_number=event.number))
    draft.append(ROOT_FRAME_ID, event.message)


def _end_frame(draft: Draft, frame_id: str, end: Returned | Errored) -> None:
    """End a frame, and every frame above it that its end leaves no turn."""
    ending: tuple[str, Returned | Errored] | None = (frame_id, end)
    while ending is not None:
        frame = draft.frame(ending[0])
        if frame.parent_call_id is None:
            _end_run(draft, ending[1])
            return
        draft.drop_frame(frame.id)
        call = draft.call(frame.parent_call_id)
        event = _call_event_of(call.id, ending[1])
        draft.put_call(replace(call, state=_next_call_state(draft, call, event)))
        ending = _close_turn(draft, call.frame_id)


def _call_event_of(call_id: str, end: Returned | Errored) -> CallEvent:
    if isinstance(end, Returned):
        return CallReturned(call_id=call_id, content=end.content)
    return CallRaised(call_id=call_id, code=end.code, content=end.content)


def _end_run(draft: Draft, end: Returned | Errored) -> None:
    if isinstance(end, Returned):
        draft.put_run(replace(draft.run, status="finished", output=end.content))
    else:
        failure = Failure(code=end.code, message=end.content)
        draft.put_run(replace(draft.run, status="failed", failure=failure))


def _close_turn(draft: Draft, frame_id: str) -> tuple[str, Errored] | None:
    """Give a frame its results once all calls of the turn have one.

    Returns the frame's own end if it has no turn left to read them in.
    """
    frame = draft.frame(frame_id)
    rows = [draft.call(call) for call in frame.open_call_ids]
    if not all(isinstance(row.state, CLOSED_STATES) for row in rows):
        return None
    _append_results(draft, frame, rows)
    for row in rows:
        draft.drop_call(row.id)
    draft.put_frame(replace(frame, open_call_ids=()))
    if frame.max_turns is not None and frame.turns >= frame.max_turns:
        return frame.id, tool_messages.max_turns_error(frame)
    return None


def _append_results(draft: Draft, frame: FrameRow, rows: list[CallRow]) -> None:
    results = [
        said.tool_message(row.tool_call_id, tool_messages.tool_message_text(row))
        for row in rows
    ]
    draft.append(frame.id, *results)


def _stop_run(draft: Draft, failure: Failure) -> None:
    """End the run where it stands; the tree stays, to be looked at.

    Every open call is refused and every transcript completed, so that what is kept
    is sendable; finished results are kept.
    """
    for frame in list(draft.frames.values()):
        if not frame.open_call_ids:
            continue
        for call in frame.open_call_ids:
            row = draft.call(call)
            if not isinstance(row.state, CLOSED_STATES):
                event = CallCancelled(call_id=call, reason=failure.message)
                draft.put_call(replace(row, state=_next_call_state(draft, row, event)))
        _append_results(
            draft, frame, [draft.call(call) for call in frame.open_call_ids]
        )
    for wait in list(draft.waits):
        draft.drop_wait(wait)
    status: RunStatus = "cancelled" if failure.code == "cancelled" else "failed"
    draft.put_run(replace(draft.run, status=status, failure=failure))


# Calls ----------------------------------------------------------------------


def _apply_call_event(draft: Draft, event: CallEvent) -> None:
    row = draft.call(event.call_id)
    if isinstance(row.state, Nested):
        msg = f"call {row.id} ends with its frame, not by {type(event).__name__}"
        raise IllegalTransition(msg)
    state = _next_call_state(draft, row, event)
    before = row.state
    row = _with_event_data(row, event)
    if isinstance(before, Waiting | Unknown) and before.wait_id != _wait_id_of(state):
        draft.drop_wait(before.wait_id)
    if isinstance(event, ApprovalRequested | OutcomeUnknown | Reopened):
        draft.put_wait(event.wait)
    draft.put_call(replace(row, state=state))
    if isinstance(state, CLOSED_STATES):
        end = _close_turn(draft, row.frame_id)
        if end is not None:
            _end_frame(draft, *end)


def _next_call_state(draft: Draft, row: CallRow, event: CallEvent) -> CallState:
    kind = next_state(row.id, row.state, event)
    state = _build_call_state(draft, row, event, kind)
    if type(state) is not kind:
        msg = f"call {row.id}: {type(event).__name__} makes no {STATE_NAMES[kind]}"
        raise IllegalTransition(msg)
    return state


def _build_call_state(  # noqa: PLR0911 - one row for each kind of state
    draft: Draft, row: CallRow, event: CallEvent, kind: type[CallState]
) -> CallState:
    match event:
        case ApprovalRequested() | Reopened() | OutcomeUnknown():
            return Unknown(event.wait.id) if kind is Unknown else Waiting(event.wait.id)
        case SubAgentStarted():
            return Nested(_open_frame(draft, row, event))
        case CallReturned() | Answered():
            return Returned(event.content)
        case CallRaised() | CallInvalid():
            return Errored(event.code, event.content)
        case Denied() | Expired():
            return tool_messages.refused_state(row, event.decision)
        case CallCancelled():
            return tool_messages.cancelled_state(row, event.reason)
        case _ if kind is Unknown and isinstance(row.state, Unknown):
            return Unknown(row.state.wait_id, verify_tried=True)
        case _:
            return Started() if kind is Started else Ready()


def _wait_id_of(state: CallState) -> str | None:
    return state.wait_id if isinstance(state, Waiting | Unknown) else None


def _open_frame(draft: Draft, row: CallRow, event: SubAgentStarted) -> str:
    frame = FrameRow(
        id=draft.allocate_id("f"),
        agent=event.agent,
        parent_call_id=row.id,
        depth=draft.frame(row.frame_id).depth + 1,
        max_turns=event.max_turns,
    )
    draft.put_frame(frame)
    draft.start_log(frame.id, event.messages)
    return frame.id


def _with_event_data(row: CallRow, event: CallEvent) -> CallRow:
    """Return the row with what the event tells of the call beside its state."""
    match event:
        case CallAccepted() | ApprovalRequested():
            return replace(
                row,
                arguments=event.arguments,
                contract_digest=event.contract_digest,
                repeatable=event.repeatable,
                verifiable=event.verifiable,
            )
        case Approved(arguments=None):
            return replace(
                row, approved_digest=event.digest, approved_until=event.until
            )
        case Approved():
            original = row.original_arguments or row.arguments
            return replace(
                row,
                approved_digest=event.digest,
                approved_until=event.until,
                arguments=event.arguments,
                original_arguments=original,
            )
        case _ if isinstance(row.state, Ready):
            return replace(row, attempts=row.attempts + 1)
        case _:
            return row
