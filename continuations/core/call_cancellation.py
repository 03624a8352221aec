"""Cancel one call of a run, with everything below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.calls import CLOSED_STATES, Nested, Started
from continuations.core.events import AgentCancelled, CallCancelled, FrameAbandoned
from continuations.core.reducer import advance

if TYPE_CHECKING:
    from continuations.core.state import RunState


def is_open_call(state: RunState, call_id: str) -> bool:
    """Return whether a call exists and has not ended."""
    call = state.calls.get(call_id)
    return call is not None and not isinstance(call.state, CLOSED_STATES)


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


def with_cancelled_call(state: RunState, call_id: str, reason: str) -> RunState:
    """Return the run with a call cancelled, and everything below it.

    A started call runs to its end and keeps its result. Every other call ends here. The
    frame of an agent ends after the calls that run in it. A call that has ended is not
    changed.
    """
    below = open_calls_below(state, call_id)
    if not below:
        return state
    if isinstance(state.calls[call_id].state, Nested):
        state = advance(state, AgentCancelled(call_id=call_id, reason=reason))
    for each in reversed(below):
        # The last call of a frame also ends the frame, and perhaps the one above.
        call = state.calls.get(each)
        if call is None or isinstance(call.state, (*CLOSED_STATES, Started)):
            continue
        if not isinstance(call.state, Nested):
            state = advance(state, CallCancelled(call_id=each, reason=reason))
            continue
        frame = state.frames[call.state.frame_id]
        if not frame.open_call_ids:
            ended = FrameAbandoned(frame_id=frame.id, code="cancelled", content=reason)
            state = advance(state, ended)
    return state
