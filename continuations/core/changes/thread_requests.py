"""Requests to stop the turn of a thread, or to interrupt it with a new message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.changes import events
from continuations.core.changes.call_cancellation import (
    open_calls_below,
    with_cancelled_call,
)
from continuations.core.changes.reducer import advance
from continuations.core.changes.threads import is_by_same
from continuations.core.rows.calls import Unknown
from continuations.core.rows.run import Failure
from continuations.core.rows.state import ROOT_FRAME_ID, RunState

if TYPE_CHECKING:
    from collections.abc import Collection

    from continuations.core.operator_request import OperatorRequest

_INTERRUPTED = "The user sent another message."
STOPPED = "the turn was stopped. Send another message to go on."


def ends_turn(state: RunState, request: OperatorRequest) -> bool:
    """Return whether a request concerns the turn that a thread works on.

    A stop names the message of the turn, and is void once that has its reply. An
    interruption names the message that follows, of the same sender.
    """
    run, number = state.run, request.message_number
    if run.thread_key is None or run.rests:
        return False
    if request.action == "stop":
        return run.answered < number <= run.last_inbox_number
    is_next = number == run.last_inbox_number + 1
    interrupts = request.action == "interrupt" and is_next
    return interrupts and is_by_same(request.by, run.sender)


def with_turn_ended(
    state: RunState, request: OperatorRequest, not_begun: Collection[str]
) -> RunState:
    """Return the thread after a request; nothing begins any more in its turn.

    Calls that run return first, and keep their results. All others end here. But a call
    of unknown outcome survives an interruption, and the message waits for its end.
    """
    if not ends_turn(state, request):
        return state
    stops = request.action == "stop"
    reason = request.reason or (STOPPED if stops else _INTERRUPTED)
    state = _marked(state, request, reason)
    for call_id in state.frames[ROOT_FRAME_ID].open_call_ids:
        # An interruption leaves a call that may have happened to a person.
        asks_person = not stops and _has_unknown_outcome(state, call_id)
        if not state.run.rests and not asks_person:
            state = with_cancelled_call(state, call_id, reason, not_begun)
    is_over = state.run.rests or state.frames[ROOT_FRAME_ID].open_call_ids
    if stops and not is_over:
        failure = Failure(code="stopped", message=reason)
        state = advance(state, events.RunStopped(failure=failure))
    return state


def _marked(state: RunState, request: OperatorRequest, reason: str) -> RunState:
    """Return the thread in which the turn ends; its root agent asks no model."""
    if request.action == "stop":
        return advance(state, events.TurnStopping(reason=reason))
    state = advance(state, events.TurnInterrupted(number=request.message_number))
    wait = state.suspending.get(ROOT_FRAME_ID)
    if wait is None or not (wait.rules.may_wake or wait.rules.judges_text):
        return state
    # The model's limit, its reply, or the judged text belongs to the turn that ends.
    return advance(state, events.SuspensionEnded(wait_id=wait.id))


def _has_unknown_outcome(state: RunState, call_id: str) -> bool:
    below = open_calls_below(state, call_id)
    return any(isinstance(state.calls[each].state, Unknown) for each in below)
