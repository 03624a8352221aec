"""Apply events to a run: `advance(state, event)` is the only way to change a run.

`advance` is a pure function: the same state and event always give the same new state.
`transitions.py` decides the state of a call. This module changes everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from continuations.core.changes import events, run_events, threads, tool_messages
from continuations.core.changes.transitions import illegal_transition, next_state
from continuations.core.messages import unique_tool_call_ids
from continuations.core.rows import frames
from continuations.core.rows.calls import (
    CLOSED_STATES,
    STATE_NAMES,
    CallRow,
    Errored,
    Handoff,
    Nested,
    Parked,
    Proposed,
    Ready,
    Returned,
    Started,
    Unknown,
    handoff_of,
    open_wait_id,
    waiting_state,
)
from continuations.core.rows.frames import FrameRow, final_reply
from continuations.core.rows.run import Failure, RunStatus
from continuations.core.rows.state import ROOT_FRAME_ID, Draft, RunState, record_trip
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.core.messages import Message
    from continuations.core.rows.calls import CallState


def advance(  # noqa: C901 - one case for each event
    state: RunState, event: events.Event
) -> RunState:
    """Return the state after an event.

    Raises `IllegalTransition` if the event is not possible in this state.
    """
    if state.run.has_ended:
        raise illegal_transition(f"the run is already {state.run.status}", event)
    draft = Draft(state)
    if isinstance(event, run_events.RUN_EVENTS):
        run_events.apply(draft, event)
        return draft.to_run_state()
    match event:
        case events.ModelReplied():
            _add_model_reply(draft, event)
        case events.ModelFailed() | events.ModelDelayed():
            run_events.go_without_reply(draft, event)
        case (
            events.TurnRefused()
            | events.InputHeld()
            | events.TextAccepted()
            | events.TextRefused()
        ):
            from continuations.core.changes import judged_texts  # noqa: PLC0415 - rarely needed

            _end_if(draft, judged_texts.apply(draft, event))
        case events.ReplyConfirmed():
            _confirm_reply(draft, event)
        case events.AgentCancelled():
            mark(draft, event)
        case events.FrameAbandoned():
            _abandon_frame(draft, event)
        case events.WorkflowStepped() | events.WorkflowDue():
            _end_if(draft, _workflow_steps().apply(draft, event))
        case events.RunStopped():
            _stop_run(draft, event.failure)
        case _:
            _apply_call_event(draft, event)
    return draft.to_run_state()


def _workflow_steps() -> Any:
    from continuations.core.changes import workflow_steps  # noqa: PLC0415 - few runs have a workflow

    return workflow_steps


# Frames ---------------------------------------------------------------------


def _add_model_reply(draft: Draft, event: events.ModelReplied) -> None:
    frame = draft.frame(event.frame_id)
    tool_messages.check_reply(frame, event)
    run_events.add_usage(draft, event.usage)
    if event.added:
        draft.append(frame.id, *event.added)
    frame = replace(
        frame,
        turns=frame.turns + 1,
        failed_requests=0,
        woken_until=None,
        pending_reply=None,
        polls=0,
        model_error=None,
        trips=(),
        accepted_input="",
    )
    if event.context_tokens or frame.history:
        from continuations.core.changes import history  # noqa: PLC0415 - few agents count

        frame = history.after_reply(frame, event, draft.log(frame.id))
    if event.message.tool_call_ids:
        _add_calls(draft, frame, event)
        return
    if event.wait is not None:
        from continuations.core.changes import judged_texts  # noqa: PLC0415 - rarely needed

        judged_texts.hold_reply(draft, frame, event, event.wait)
        return
    asks_again = tool_messages.asks_again(frame, event)
    follows = None if asks_again else event.next_message
    frame = tool_messages.counted_turn(frame, retries=asks_again, continues=follows)
    draft.put_frame(frame)
    _keep_trip(draft, event)
    goes_on = asks_again or follows is not None or not event.is_final
    # Providers refuse an empty assistant message in the middle of a transcript.
    if not (goes_on and tool_messages.is_empty_reply(event.message)):
        draft.append(frame.id, event.message)
    if asks_again:
        problem = event.output_error or ""
        draft.append(frame.id, tool_messages.retry_message(problem))
    elif follows is not None:
        _go_on(draft, frame, follows)
    elif event.is_final:
        end = tool_messages.final_frame_state(event.message, event)
        _end_frame(draft, frame.id, end)


def _go_on(draft: Draft, frame: FrameRow, message: Message) -> None:
    """Let a frame go on after a reply without calls, if it has turns left."""
    draft.append(frame.id, message)
    if not frame.has_turns():
        _end_frame(draft, frame.id, tool_messages.max_turns_error(frame))


def _keep_trip(
    draft: Draft,
    event: events.ModelReplied | events.ApprovalRequested | events.CallInvalid,
) -> None:
    if event.trip is not None:
        record_trip(draft, event.trip)


def _add_calls(draft: Draft, frame: FrameRow, event: events.ModelReplied) -> None:
    message = event.message
    call_ids = tuple(draft.allocate_id("c") for _ in message.tool_call_ids)
    known_ids = draft.log(frame.id).transcript_check.call_ids
    replacements = tuple(f"call_{call_id}" for call_id in call_ids)
    ids = unique_tool_call_ids(known_ids, message.tool_call_ids, replacements)
    if ids != message.tool_call_ids:
        message = message.with_tool_call_ids(ids)
    draft.append(frame.id, message)
    draft.put_frame(replace(frame, open_call_ids=call_ids))
    for call_id, request in zip(call_ids, message.tool_calls, strict=True):
        row = CallRow(
            id=call_id,
            frame_id=frame.id,
            tool=request.tool,
            tool_call_id=request.tool_call_id,
            raw_arguments=request.arguments,
            state=Proposed(),
        )
        draft.put_call(row)
    for call_id in call_ids:
        if tool_messages.is_cut_off(event, draft.call(call_id)):
            _apply_call_event(draft, tool_messages.cut_off_call(event, call_id))


def _confirm_reply(draft: Draft, event: events.ReplyConfirmed) -> None:
    reply = final_reply(draft.frame(ROOT_FRAME_ID), draft.log(ROOT_FRAME_ID))
    if reply is None:
        raise illegal_transition("the last message is not a reply", event)
    _end_frame(draft, ROOT_FRAME_ID, Returned(reply.content))


def _abandon_frame(draft: Draft, event: events.FrameAbandoned) -> None:
    frame = draft.frame(event.frame_id)
    rows = [draft.call(each) for each in frame.open_call_ids]
    has_ended = frame.step and all(isinstance(r.state, CLOSED_STATES) for r in rows)
    if frame.open_call_ids and not has_ended:
        raise illegal_transition(f"frame {frame.id} has open calls", event)
    _end_frame(draft, frame.id, Errored(event.code, event.content))


def _end_if(draft: Draft, end: tuple[str, Returned | Errored] | None) -> None:
    if end is not None:
        _end_frame(draft, *end)


def _end_frame(draft: Draft, frame_id: str, end: Returned | Errored) -> None:
    """End a frame, and each parent frame that has no turn left after it."""
    ending: tuple[str, Returned | Errored] | None = (frame_id, end)
    while ending is not None:
        frame = draft.frame(ending[0])
        if frame.step:
            _workflow_steps().drop_calls(draft, frame)
        if frame.parent_call_id is None:
            _end_run(draft, ending[1])
            return
        call = draft.call(frame.parent_call_id)
        event = _call_event_of(call, ending[1], draft, frame)
        if frame.trips:  # a later version tells of them
            parent = draft.frame(call.frame_id)
            draft.put_frame(replace(parent, trips=parent.trips + frame.trips))
        draft.drop_frame(frame.id)
        draft.put_call(replace(call, state=_next_call_state(draft, call, event)))
        ending = _close_turn(draft, call.frame_id)


def _call_event_of(
    call: CallRow, end: Returned | Errored, draft: Draft, frame: FrameRow
) -> events.CallEvent:
    if call.cancelled is not None:
        return events.CallCancelled(call_id=call.id, reason=end.content)
    if isinstance(end, Returned):
        return events.CallReturned(call_id=call.id, content=end.content)
    # The newest state keeps no messages of an ended frame: the error quotes the last.
    last_message = draft.log(frame.id).messages[-1]
    text = tool_messages.failed_agent_text(frame, end, last_message)
    return events.CallRaised(call_id=call.id, code=end.code, content=text)


def _end_run(draft: Draft, end: Returned | Errored) -> None:
    is_thread = draft.run.thread_key is not None
    _drop_waits(draft, keeps_pause=is_thread)
    output = end.content if isinstance(end, Returned) else None
    failure = None
    if isinstance(end, Errored):
        failure = Failure(code=end.code, message=end.content)
    if is_thread:
        threads.rest(draft, output=output, failure=failure)
        return
    status: RunStatus = "failed" if failure else "finished"
    draft.put_run(replace(draft.run, status=status, output=output, failure=failure))


def _close_turn(draft: Draft, frame_id: str) -> tuple[str, Errored] | None:
    """Append the results of a turn to its frame, once every call of the turn is closed.

    Returns the frame's id and end if the frame has no turn left to read the results.
    """
    frame = draft.frame(frame_id)
    if frame.step:
        end = _workflow_steps().call_closed(draft, frame, reason(draft, frame_id))
        return cast("tuple[str, Errored] | None", end)
    rows = [draft.call(call) for call in frame.open_call_ids]
    if not all(isinstance(row.state, CLOSED_STATES) for row in rows):
        return None
    frame = replace(
        frame, open_call_ids=(), denials=frames.denials_after_turn(frame.denials, rows)
    )
    frame = tool_messages.gather(draft, frame, rows)
    for row in rows:
        draft.drop_call(row.id)
    handoff = handoff_of(rows)
    if handoff is not None:
        frame = _handed_over(draft, frame, handoff)
    draft.put_frame(frame)
    cancelled = reason(draft, frame.id)
    if cancelled is not None:
        text = last_turn_text(cancelled, rows)
        code = "cancelled" if frame.parent_call_id else "stopped"
        return frame.id, Errored(code, text)
    if not frame.has_turns():
        return frame.id, tool_messages.max_turns_error(frame)
    return None


def _handed_over(draft: Draft, frame: FrameRow, handoff: Handoff) -> FrameRow:
    """Return a frame that another agent has; its model reads other instructions."""
    if handoff.dropped:
        from continuations.core.changes import history  # noqa: PLC0415 - few handoffs have a filter

        frame = history.without_dropped(draft, frame, handoff.dropped)
    log = draft.log(frame.id)
    message = tool_messages.new_instructions(log, handoff.instructions)
    if message is not None:
        draft.append(frame.id, message)
    began = frame.began_as or frame.agent
    return replace(
        frame,
        agent=handoff.agent,
        began_as="" if handoff.agent == began else began,
        retries=0,
        continues=0,
        state_json=frame.state_json if handoff.keeps_state else "",
    )


def _stop_run(draft: Draft, failure: Failure) -> None:
    """End the run and keep its frames and calls, so that they can be inspected.

    Only a cancellation ends a thread; any other failure is the reply to its message.

    Every open call becomes refused and every call gets its tool message, so that each
    transcript is valid for a provider. Results that exist are kept.
    """
    rests = draft.run.thread_key is not None and failure.code != "cancelled"
    for frame in list(draft.frames.values()):
        if not frame.open_call_ids:
            continue
        for call in frame.open_call_ids:
            row = draft.call(call)
            if not isinstance(row.state, CLOSED_STATES):
                event = events.CallCancelled(call_id=call, reason=failure.message)
                draft.put_call(replace(row, state=_next_call_state(draft, row, event)))
        if frame.step:
            _workflow_steps().record_outcomes(draft, frame)
            continue
        rows = [draft.call(call) for call in frame.open_call_ids]
        gathered = tool_messages.gather(draft, frame, rows)
        handoff = handoff_of(rows)
        if handoff is not None and rests:
            gathered = _handed_over(draft, gathered, handoff)
        draft.put_frame(gathered)
    _drop_waits(draft, keeps_pause=rests)
    if rests:
        threads.rest_after_failure(draft, failure)
        return
    status: RunStatus = "cancelled" if failure.code == "cancelled" else "failed"
    draft.put_run(replace(draft.run, status=status, failure=failure))


def _drop_waits(draft: Draft, *, keeps_pause: bool) -> None:
    """Drop the waits of a run, but not the pause of a thread that goes on."""
    for wait_id, wait in list(draft.waits.items()):
        if wait.call_id or wait.frame_id or not keeps_pause:
            draft.drop_wait(wait_id)


# Calls ----------------------------------------------------------------------


def _apply_call_event(draft: Draft, event: events.CallEvent) -> None:
    row = draft.call(event.call_id)
    if isinstance(row.state, Nested):
        raise illegal_transition(f"call {row.id} only ends with its frame", event)
    state = _next_call_state(draft, row, event)
    check_attempts(row, event)
    if isinstance(event, events.ApprovalRequested | events.CallInvalid):
        _keep_trip(draft, event)
    old_wait_id = open_wait_id(row.state)
    row = with_event_data(row, event)
    if draft.frame(row.frame_id).step:
        row = _workflow_steps().with_end_time(row, event)
    if old_wait_id is not None and old_wait_id != open_wait_id(state):
        draft.drop_wait(old_wait_id)
    if isinstance(event, _OPENING_EVENTS):
        draft.put_wait(event.wait)
    draft.put_call(replace(row, state=state))
    if isinstance(state, CLOSED_STATES):
        _end_if(draft, _close_turn(draft, row.frame_id))
        return
    cancelled = reason(draft, row.frame_id)
    if cancelled is not None:
        # A call that may not begin again, or that waits, stays open in no such frame.
        _apply_call_event(draft, events.CallCancelled(call_id=row.id, reason=cancelled))


_OPENING_EVENTS = (
    events.ApprovalRequested,
    events.OutcomeUnknown,
    events.Reopened,
    events.CallParked,
)


def _next_call_state(draft: Draft, row: CallRow, event: events.CallEvent) -> CallState:
    state_type = next_state(row.id, row.state, event)
    state = _build_call_state(draft, row, event, state_type)
    if type(state) is not state_type:
        why = f"call {row.id} cannot become {STATE_NAMES[state_type]} by this event"
        raise illegal_transition(why, event)
    return state


def _build_call_state(  # noqa: PLR0911 - one return for each kind of state
    draft: Draft, row: CallRow, event: events.CallEvent, state_type: type[CallState]
) -> CallState:
    match event:
        case (
            events.ApprovalRequested()
            | events.Reopened()
            | events.OutcomeUnknown()
            | events.CallParked()
        ):
            return waiting_state(state_type, event.wait.id)
        case events.SubAgentStarted():
            return Nested(_open_frame(draft, row, event))
        case events.CallReturned() | events.Answered():
            return Returned(event.content, event.is_json)
        case events.HandedOver():
            text = tool_messages.HANDED_OVER.format(event.handoff.agent)
            return Returned(text, handoff=event.handoff)
        case events.CallRaised() | events.CallInvalid():
            return Errored(event.code, event.content)
        case events.Denied() | events.Expired():
            return tool_messages.refused_state(row, event.decision)
        case events.CallCancelled():
            return tool_messages.cancelled_state(
                row, event.reason, never_began=event.never_began
            )
        case _ if state_type is Unknown and isinstance(row.state, Unknown):
            return Unknown(row.state.wait_id, verify_tried=True)
        case _:
            return Started() if state_type is Started else Ready()


def _open_frame(draft: Draft, row: CallRow, event: events.SubAgentStarted) -> str:
    frame = FrameRow(
        id=draft.allocate_id("f"),
        agent=event.agent,
        parent_call_id=row.id,
        depth=draft.frame(row.frame_id).depth + 1,
        max_turns=event.max_turns,
        step=event.step,
    )
    draft.put_frame(frame)
    draft.start_log(frame.id, event.messages)
    return frame.id


def mark(draft: Draft, event: events.AgentCancelled) -> None:
    """Give the reason to a nested call and to all nested calls below it."""
    if not isinstance(draft.call(event.call_id).state, Nested):
        raise illegal_transition(f"call {event.call_id} has no agent", event)
    call_ids = [event.call_id]
    while call_ids:
        row = draft.call(call_ids.pop())
        if isinstance(row.state, Nested):
            draft.put_call(replace(row, cancelled=row.cancelled or event.reason))
            call_ids += draft.frame(row.state.frame_id).open_call_ids


def reason(draft: Draft, frame_id: str) -> str | None:
    """Return why the agent of a frame was cancelled, or `None`.

    The root agent of a thread counts as cancelled while its turn is being stopped.
    """
    call_id = draft.frame(frame_id).parent_call_id
    return draft.run.stopping if call_id is None else draft.call(call_id).cancelled


def last_turn_text(reason: str, rows: Iterable[CallRow]) -> str:
    """Return the reason, and what became of the calls that ran in the last turn.

    No model of the cancelled agent reads these results, so its caller gets them.
    """
    ran = [
        f"{row.tool}: {row.state.content}"
        for row in rows
        if isinstance(row.state, CLOSED_STATES) and row.attempts + row.stage
    ]
    return "\n".join([reason, *(["Its last calls:"] if ran else []), *ran])


def check_attempts(row: CallRow, event: events.CallEvent) -> None:
    """Raise `IllegalTransition` if an event denies that the call may have run.

    A call that began once must not wait for an approval. Only a rule denies a call
    that is ready: a person decided it before.
    """
    if isinstance(row.state, Ready) and isinstance(event, events.Denied):
        if event.decision.rule is None:
            raise illegal_transition(f"call {row.id} has its decision", event)
        return
    begun = row.attempts + row.stage
    match row.state, event:
        case Ready(), events.ApprovalRequested() | events.Reopened():
            wrong = begun > 0
        case Started(), events.Reopened():
            wrong = begun > 1
        case _:
            wrong = False
    if wrong:
        raise illegal_transition(f"call {row.id} may have run", event)


def with_event_data(  # noqa: PLR0911, PLR0912, C901 - one return for each kind of event
    row: CallRow, event: events.CallEvent
) -> CallRow:
    """Return the row with the data of the event, apart from the new state."""
    match event:
        case events.CallParked() if isinstance(row.state, Proposed):
            return replace(row, arguments=row.raw_arguments)
        case events.CallAccepted():
            row = _examined(row, event)
            return replace(
                row,
                approved_digest=event.approved_digest,
                approved_until=event.approved_until,
                grant=event.grant,
                quorum=event.quorum,
            )
        case events.ApprovalRequested():
            return replace(_examined(row, event), quorum=event.wait.quorum)
        case events.Approved():
            row = replace(
                row,
                approved_digest=event.digest,
                approved_until=event.until,
                grant=None,
                # The approval of an unknown outcome has none: the first one holds.
                form=event.form or row.form,
            )
            if event.arguments is None:
                return row
            original = row.original_arguments or row.arguments
            return replace(row, arguments=event.arguments, original_arguments=original)
        case events.CallStarted() | events.SubAgentStarted() | events.HandedOver():
            return replace(row, attempts=row.attempts + 1)
        case events.CallReturned(parts_json=str()):
            row = replace(row, parts_json=event.parts_json)
            return row if event.patch is None else _with_patch(row, event.patch)
        case events.CallParked():
            row = replace(row, memo=event.memo)
            return row if event.patch is None else _with_patch(row, event.patch)
        case events.CallReturned() | events.Answered() if event.patch is not None:
            return _with_patch(row, event.patch)
        case events.AnswerReceived():
            # The approval, if any, was for the first stage, which has run.
            form = row.form
            row = _without_approval(row)
            stage = row.stage + 1
            return replace(row, stage=stage, answer=event.answer, attempts=0, form=form)
        case events.Reopened() if not isinstance(row.state, Unknown | Parked):
            # If the start of the call was recorded, its tool did not run.
            row = _without_approval(row)
            return replace(row, attempts=0, quorum=event.wait.quorum)
        case events.RepeatAllowed(never_began=True):
            return replace(row, attempts=row.attempts - 1)
        case events.OutcomeUnknown() | events.RepeatAllowed():
            # Also after a repair, which does not count a start in a lost version.
            return replace(row, attempts=max(row.attempts, 1))
        case _:
            return row


def _with_patch(row: CallRow, patch: str) -> CallRow:
    return replace(row, patch=frames.with_state_patch(row.patch or "", patch))


def _without_approval(row: CallRow) -> CallRow:
    return replace(
        row, approved_digest=None, approved_until=None, grant=None, form=None
    )


def _examined(
    row: CallRow, event: events.CallAccepted | events.ApprovalRequested
) -> CallRow:
    """Return the row of a call that is not approved."""
    return replace(
        _without_approval(row),
        arguments=event.arguments,
        contract_digest=event.contract_digest,
        repeatable=event.repeatable,
        verifiable=event.verifiable,
        secrets=event.secrets,
        patch=row.patch or ("{}" if event.writes_state else None),
        quorum=None,
    )
