"""The run after requests of operators: pauses, cancelled calls, ended turns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.changes import events
from continuations.core.changes.events import CallCancelled
from continuations.core.changes.reducer import advance
from continuations.core.changes.threads import is_by_same
from continuations.core.rows import calls
from continuations.core.rows.event_matching import drops
from continuations.core.rows.run import Failure
from continuations.core.rows.state import (
    ROOT_FRAME_ID,
    RunState,
    call_path,
    frame_wait,
)
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import datetime

    from continuations.core.operator_request import OperatorRequest
    from continuations.core.rows.frames import FrameRow
    from continuations.core.rows.waits import Wait

PAUSE = "pause"
# The reason of a cancelled call whose operator gave none.
CANCELLED = "An operator cancelled it."
EARLIER_ATTEMPT = " An earlier attempt has no known result."
STOPPED = "the turn was stopped. Send another message to go on."
_INTERRUPTED = "The user sent another message."
# Between the names of the conditions that suspend a frame at the same time.
_BETWEEN_NAMES = ", "


# Cancelled calls ------------------------------------------------------------------


def is_open_call(state: RunState, call_id: str) -> bool:
    """Return whether a call exists and has not ended."""
    call = state.calls.get(call_id)
    return call is not None and not isinstance(call.state, calls.CLOSED_STATES)


def find_open_calls(state: RunState, wanted: str | Sequence[str]) -> list[str]:
    """Return the ids of the open calls with an id, or with a path of names."""
    if isinstance(wanted, str) and is_open_call(state, wanted):
        return [wanted]
    path = tuple(wanted.split("/") if isinstance(wanted, str) else wanted)
    return [
        call.id
        for call in state.calls.values()
        if is_open_call(state, call.id) and call_path(state, call) == path
    ]


def open_calls_below(state: RunState, call_id: str) -> list[str]:
    """Return the ids of an open call and of all open calls below it, parents first."""
    if not is_open_call(state, call_id):
        return []
    found = [call_id]
    for each in found:
        row_state = state.calls[each].state
        if isinstance(row_state, calls.Nested):
            below = state.frames[row_state.frame_id].open_call_ids
            found += [call for call in below if is_open_call(state, call)]
    return found


def _reason_of(call: calls.CallRow, reason: str) -> str:
    """Return why a call ends; its worker may have died in it, or a retry was due."""
    began = isinstance(call.state, calls.Ready) and call.attempts > 0
    return reason + EARLIER_ATTEMPT if began else reason


def with_cancelled_call(
    state: RunState, call_id: str, reason: str, not_begun: Collection[str] = ()
) -> RunState:
    """Return the run with a call cancelled, and everything below it.

    A started call runs to its end and keeps its result, unless `not_begun` has its id:
    then its tool never runs. Every other call ends here. The frame of an agent ends
    after the calls that run in it. A call that has ended is not changed.
    """
    below = open_calls_below(state, call_id)
    if not below:
        return state
    if isinstance(state.calls[call_id].state, calls.Nested):
        state = advance(state, events.AgentCancelled(call_id=call_id, reason=reason))
    for each in reversed(below):
        # The last call of a frame also ends the frame, and perhaps the one above.
        call = state.calls.get(each)
        if call is None or isinstance(call.state, calls.CLOSED_STATES):
            continue
        if isinstance(call.state, calls.Started) and each not in not_begun:
            continue
        if not isinstance(call.state, calls.Nested):
            event = CallCancelled(
                call_id=each,
                reason=_reason_of(call, reason),
                never_began=each in not_begun,
            )
            state = advance(state, event)
            continue
        frame = state.frames[call.state.frame_id]
        if not any(is_open_call(state, below) for below in frame.open_call_ids):
            ended = events.FrameAbandoned(
                frame_id=frame.id, code="cancelled", content=reason
            )
            state = advance(state, ended)
    return state


# Waits that only `unpause` ends ---------------------------------------------------


def operator_waits(state: RunState) -> list[Wait]:
    """Return the open waits of a run that only `unpause` ends."""
    return [wait for wait in state.suspending.values() if wait.rules.ended_by_unpause]


def operator_reasons(waits: Iterable[Wait]) -> tuple[str, ...]:
    """Return why operators hold a run: reasons of pauses, and names of conditions."""
    reasons: list[str] = []
    for wait in waits:
        if wait.rules.ended_by_unpause:
            name = wait.policy or wait.kind
            reasons += name.split(_BETWEEN_NAMES) if wait.frame_id else [name]
    return tuple(reasons)


def operator_wait(
    state: RunState,
    wait_id: str,
    *,
    now: datetime,
    name: str,
    note: str | None = None,
    frame_id: str = "",
) -> Wait:
    """Return a new wait of a frame or of the run that only `unpause` ends.

    Args:
        state: The run.
        wait_id: Id of the wait.
        now: The time of the wait.
        name: Name of the condition, or reason of the pause.
        note: A remark for people, besides the name.
        frame_id: The frame that waits; empty: the run.
    """
    wait = frame_wait(state, "operator", wait_id, now, frame_id)
    return replace(wait, policy=name, note=note)


def without_operator_waits(state: RunState, now: datetime) -> RunState:
    """Return the run after `unpause`: no operator holds it or one of its frames.

    The conditions that held a frame count from now.
    """
    for wait in operator_waits(state):
        if wait.frame_id:
            state = advance(state, _counting_from(state.frames[wait.frame_id], now))
        state = advance(state, events.SuspensionEnded(wait_id=wait.id))
    return state


def _counting_from(frame: FrameRow, now: datetime) -> events.FrameWatched:
    counts = tuple(
        replace(count, since=now) if count.turns == frame.turns else count
        for count in frame.counts
    )
    since = frame.watched_since or now
    return events.FrameWatched(frame_id=frame.id, since=since, counts=counts)


# Requests -------------------------------------------------------------------------


def with_operator_requests(
    state: RunState,
    requests: Iterable[OperatorRequest],
    not_begun: Collection[str] = (),
) -> RunState:
    """Return the run after the requests that it has not taken in yet, in their order.

    A pause of a paused run changes nothing: the first reason stays. A started call that
    is cancelled runs to its end, unless it is one of `not_begun`. A request that drops
    signals, and those after it, are left until the run has taken these signals in.
    """
    for request in sorted(requests, key=lambda each: each.number):
        if state.run.has_ended:
            return state
        if request.number != state.run.last_operator_number + 1:
            continue
        if request.signal_number > state.run.last_signal_number:
            return state  # the signals that it drops are taken in first
        state = _with_request(state, request, not_begun)
        state = advance(state, events.OperatorRequestTaken(number=request.number))
    return state


def cancelled_waits(
    state: RunState, waits: Iterable[Wait], requests: Iterable[OperatorRequest]
) -> dict[str, list[Wait]]:
    """Return the waits that requests ended, by the reason of the first request."""
    reasons: dict[str, str] = {}
    for request in sorted(requests, key=lambda each: each.number):
        if request.action == "cancel" and request.call_id is not None:
            for call_id in open_calls_below(state, request.call_id):
                reasons.setdefault(call_id, request.reason or CANCELLED)
    found: dict[str, list[Wait]] = {}
    for wait in waits:
        found.setdefault(reasons.get(wait.call_id, CANCELLED), []).append(wait)
    return found


def _with_request(
    state: RunState, request: OperatorRequest, not_begun: Collection[str]
) -> RunState:
    match request.action:
        case "pause" if not state.is_suspended:
            wait = operator_wait(
                state,
                f"operator-{request.id}@{state.run.id}",
                now=request.at,
                name=request.reason or PAUSE,
                note=f"Paused by {request.by}." if request.by else None,
            )
            return advance(state, events.SuspensionBegan(wait=wait))
        case "unpause":
            return without_operator_waits(state, request.at)
        case "cancel" if request.call_id is not None:
            reason = request.reason or CANCELLED
            return with_cancelled_call(state, request.call_id, reason, not_begun)
        case "stop" | "interrupt":
            return with_turn_ended(state, request, not_begun)
        case "drop":
            run = state.run
            kept = (s for s in run.signals if not drops(request, s.number, s.name))
            last = run.last_signal_number
            return advance(
                state, events.SignalsKept(last_number=last, kept=tuple(kept))
            )
        case _:
            return state


# Turns of threads -----------------------------------------------------------------


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
    return any(isinstance(state.calls[each].state, calls.Unknown) for each in below)
