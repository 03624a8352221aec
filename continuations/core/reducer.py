"""advance(table, event) -> table: the one way in which a run changes.

Pure: the same table and the same event give the same table, so every schedule can be
replayed. What each call may become is decided by `transitions.py`; here stands what
follows from it for the frames around.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core import messages as said
from continuations.core import narration
from continuations.core.calls import (
    CLOSED,
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
    Admitted,
    Answered,
    Approved,
    CallCancelled,
    CallRaised,
    CallReturned,
    Denied,
    Entered,
    Expired,
    Gated,
    Interrupted,
    ModelReplied,
    Rejected,
    Reopened,
    RunStopped,
    UserSaid,
)
from continuations.core.frames import FrameRow
from continuations.core.run import ENDED, Failure
from continuations.core.table import ROOT
from continuations.core.transcript import unique_call_ids
from continuations.core.transitions import next_state
from continuations.errors import IllegalTransition

if TYPE_CHECKING:
    from continuations.core.calls import State
    from continuations.core.events import CallEvent, Event
    from continuations.core.run import Status
    from continuations.core.table import Table


def advance(table: Table, event: Event) -> Table:
    """Return the run after a fact; raises `IllegalTransition` for an impossible one."""
    if table.run.status in ENDED:
        msg = f"the run is {table.run.status}: {type(event).__name__} comes too late"
        raise IllegalTransition(msg)
    draft = Draft(table)
    match event:
        case ModelReplied():
            _reply(draft, event)
        case UserSaid():
            _user(draft, event)
        case RunStopped():
            _stop(draft, event.failure)
        case _:
            _call(draft, event)
    return draft.table()


# Frames ---------------------------------------------------------------------


def _reply(draft: Draft, event: ModelReplied) -> None:
    frame = draft.frame(event.frame)
    if frame.open or event.message.role != "assistant":
        msg = f"frame {frame.id} has open calls, or this is no assistant's message"
        raise IllegalTransition(msg)
    draft.put_run(replace(draft.run, usage=draft.run.usage + event.usage))
    calls = [draft.new_id("c") for _ in event.message.calls]
    message = event.message
    if calls:
        log = draft.log(frame.id).messages
        fresh = tuple(f"call_{call}" for call in calls)
        ids = unique_call_ids(log, message.calls, fresh)
        message = message if ids == message.calls else message.with_call_ids(ids)
    draft.append(frame.id, message)
    draft.put_frame(replace(frame, turns=frame.turns + 1, open=tuple(calls)))
    for call, request in zip(calls, message.requests, strict=True):
        row = CallRow(
            id=call,
            frame=frame.id,
            tool=request.tool,
            provider_id=request.id,
            written=request.arguments,
            state=Proposed(),
        )
        draft.put_call(row)
    if not calls:
        _end_frame(draft, frame.id, narration.last_words(message, event))


def _user(draft: Draft, event: UserSaid) -> None:
    if draft.frame(ROOT).open or event.message.role in ("assistant", "tool"):
        msg = "a message never stands between a call and its result, nor for either"
        raise IllegalTransition(msg)
    if event.number != draft.run.inbox + 1:
        msg = f"message {event.number} does not follow message {draft.run.inbox}"
        raise IllegalTransition(msg)
    draft.put_run(replace(draft.run, inbox=event.number))
    draft.append(ROOT, event.message)


def _end_frame(draft: Draft, frame_id: str, end: Returned | Errored) -> None:
    """End a frame, and every frame above it that its end leaves no turn."""
    ending: tuple[str, Returned | Errored] | None = (frame_id, end)
    while ending is not None:
        frame = draft.frame(ending[0])
        if frame.call is None:
            _end_run(draft, ending[1])
            return
        draft.drop_frame(frame.id)
        call = draft.call(frame.call)
        event = _ended(call.id, ending[1])
        draft.put_call(replace(call, state=_state(draft, call, event)))
        ending = _gather(draft, call.frame)


def _ended(call_id: str, end: Returned | Errored) -> CallEvent:
    if isinstance(end, Returned):
        return CallReturned(call=call_id, content=end.content)
    return CallRaised(call=call_id, code=end.code, content=end.content)


def _end_run(draft: Draft, end: Returned | Errored) -> None:
    if isinstance(end, Returned):
        draft.put_run(replace(draft.run, status="finished", output=end.content))
    else:
        failure = Failure(code=end.code, message=end.content)
        draft.put_run(replace(draft.run, status="failed", failure=failure))


def _gather(draft: Draft, frame_id: str) -> tuple[str, Errored] | None:
    """Give a frame its results once all calls of the turn have one.

    Returns the frame's own end if it has no turn left to read them in.
    """
    frame = draft.frame(frame_id)
    rows = [draft.call(call) for call in frame.open]
    if not all(isinstance(row.state, CLOSED) for row in rows):
        return None
    _append_results(draft, frame, rows)
    for row in rows:
        draft.drop_call(row.id)
    draft.put_frame(replace(frame, open=()))
    if frame.max_turns is not None and frame.turns >= frame.max_turns:
        return frame.id, narration.out_of_turns(frame)
    return None


def _append_results(draft: Draft, frame: FrameRow, rows: list[CallRow]) -> None:
    results = [said.tool(row.provider_id, narration.result_of(row)) for row in rows]
    draft.append(frame.id, *results)


def _stop(draft: Draft, failure: Failure) -> None:
    """End the run where it stands; the tree stays, to be looked at.

    Every open call is refused and every transcript completed, so that what is kept
    is sendable; finished results are kept.
    """
    for frame in list(draft.frames.values()):
        if not frame.open:
            continue
        for call in frame.open:
            row = draft.call(call)
            if not isinstance(row.state, CLOSED):
                event = CallCancelled(call=call, reason=failure.message)
                draft.put_call(replace(row, state=_state(draft, row, event)))
        _append_results(draft, frame, [draft.call(call) for call in frame.open])
    for wait in list(draft.waits):
        draft.drop_wait(wait)
    status: Status = "cancelled" if failure.code == "cancelled" else "failed"
    draft.put_run(replace(draft.run, status=status, failure=failure))


# Calls ----------------------------------------------------------------------


def _call(draft: Draft, event: CallEvent) -> None:
    row = draft.call(event.call)
    if isinstance(row.state, Nested):
        msg = f"call {row.id} ends with its frame, not by {type(event).__name__}"
        raise IllegalTransition(msg)
    state = _state(draft, row, event)
    before = row.state
    row = _learned(row, event)
    if isinstance(before, Waiting | Unknown) and before.wait != _wait_of(state):
        draft.drop_wait(before.wait)
    if isinstance(event, Gated | Interrupted | Reopened):
        draft.put_wait(event.wait)
    draft.put_call(replace(row, state=state))
    if isinstance(state, CLOSED):
        end = _gather(draft, row.frame)
        if end is not None:
            _end_frame(draft, *end)


def _state(draft: Draft, row: CallRow, event: CallEvent) -> State:
    kind = next_state(row.id, row.state, event)
    state = _filled(draft, row, event, kind)
    if type(state) is not kind:
        msg = f"call {row.id}: {type(event).__name__} makes no {STATE_NAMES[kind]}"
        raise IllegalTransition(msg)
    return state


def _filled(  # noqa: PLR0911 - one row for each kind of state
    draft: Draft, row: CallRow, event: CallEvent, kind: type[State]
) -> State:
    match event:
        case Gated() | Reopened() | Interrupted():
            return Unknown(event.wait.id) if kind is Unknown else Waiting(event.wait.id)
        case Entered():
            return Nested(_enter(draft, row, event))
        case CallReturned() | Answered():
            return Returned(event.content)
        case CallRaised() | Rejected():
            return Errored(event.code, event.content)
        case Denied() | Expired():
            return narration.refusal(row, event.decision)
        case CallCancelled():
            return narration.cancellation(row, event.reason)
        case _ if kind is Unknown and isinstance(row.state, Unknown):
            return Unknown(row.state.wait, checked=True)
        case _:
            return Started() if kind is Started else Ready()


def _wait_of(state: State) -> str | None:
    return state.wait if isinstance(state, Waiting | Unknown) else None


def _enter(draft: Draft, row: CallRow, event: Entered) -> str:
    frame = FrameRow(
        id=draft.new_id("f"),
        agent=event.agent,
        call=row.id,
        depth=draft.frame(row.frame).depth + 1,
        max_turns=event.max_turns,
    )
    draft.put_frame(frame)
    draft.new_log(frame.id, event.messages)
    return frame.id


def _learned(row: CallRow, event: CallEvent) -> CallRow:
    """Return the row with what the event tells of the call beside its state."""
    match event:
        case Admitted() | Gated():
            return replace(
                row,
                arguments=event.arguments,
                meaning=event.meaning,
                repeatable=event.repeatable,
                verifiable=event.verifiable,
            )
        case Approved(arguments=None):
            return replace(row, approved=event.digest, approved_until=event.until)
        case Approved():
            original = row.original or row.arguments
            return replace(
                row,
                approved=event.digest,
                approved_until=event.until,
                arguments=event.arguments,
                original=original,
            )
        case _ if isinstance(row.state, Ready):
            return replace(row, attempts=row.attempts + 1)
        case _:
            return row
