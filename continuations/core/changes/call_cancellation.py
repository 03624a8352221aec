"""Cancel one call of a run, with everything below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.changes.call_events import CallCancelled
from continuations.core.changes.events import AgentCancelled, FrameAbandoned
from continuations.core.changes.reducer import advance
from continuations.core.rows.calls import CLOSED_STATES, CallRow, Nested, Ready, Started
from continuations.core.rows.state import RunState, frame_path

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


def is_open_call(state: RunState, call_id: str) -> bool:
    """Return whether a call exists and has not ended."""
    call = state.calls.get(call_id)
    return call is not None and not isinstance(call.state, CLOSED_STATES)


def find_open_calls(state: RunState, wanted: str | Sequence[str]) -> list[str]:
    """Return the ids of the open calls with an id, or with a path of names."""
    if isinstance(wanted, str) and is_open_call(state, wanted):
        return [wanted]
    path = tuple(wanted.split("/") if isinstance(wanted, str) else wanted)
    return [
        call.id
        for call in state.calls.values()
        if is_open_call(state, call.id)
        and (*frame_path(state, call.frame_id), call.tool) == path
    ]


def open_calls_below(state: RunState, call_id: str) -> list[str]:
    """Return the ids of an open call and of all open calls below it, parents first."""
    if not is_open_call(state, call_id):
        return []
    found = [call_id]
    for each in found:
        row_state = state.calls[each].state
        if isinstance(row_state, Nested):
            below = state.frames[row_state.frame_id].open_call_ids
            found += [call for call in below if is_open_call(state, call)]
    return found


EARLIER_ATTEMPT = " An earlier attempt has no known result."


def _reason_of(call: CallRow, reason: str) -> str:
    """Return why a call ends; its worker may have died in it, or a retry was due."""
    began = isinstance(call.state, Ready) and call.attempts > 0
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
    if isinstance(state.calls[call_id].state, Nested):
        state = advance(state, AgentCancelled(call_id=call_id, reason=reason))
    for each in reversed(below):
        # The last call of a frame also ends the frame, and perhaps the one above.
        call = state.calls.get(each)
        if call is None or isinstance(call.state, CLOSED_STATES):
            continue
        if isinstance(call.state, Started) and each not in not_begun:
            continue
        if not isinstance(call.state, Nested):
            event = CallCancelled(
                call_id=each,
                reason=_reason_of(call, reason),
                never_began=each in not_begun,
            )
            state = advance(state, event)
            continue
        frame = state.frames[call.state.frame_id]
        if not any(is_open_call(state, below) for below in frame.open_call_ids):
            ended = FrameAbandoned(frame_id=frame.id, code="cancelled", content=reason)
            state = advance(state, ended)
    return state
