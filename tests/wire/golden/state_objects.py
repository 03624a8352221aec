"""Golden objects of agents that have a state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.call_events import CallReturned, CallStarted
from continuations.wire.continuation import Continuation
from tests.core.rows import (
    accepted_event,
    apply_events,
    new_state,
    reply_with_calls,
)

if TYPE_CHECKING:
    from continuations.core.state import RunState

PATCH = '{"owner":"Zo\u00eb","total":5}'


def changed() -> RunState:
    """Return a run whose root agent has a state, with a patch of a call that ended."""
    state = _with_patch(apply_events(new_state(), reply_with_calls("free")), "c3")
    state = apply_events(state, reply_with_calls("free", "free"))
    return _with_patch(state, "c4")


def _with_patch(state: RunState, call_id: str) -> RunState:
    return apply_events(
        state,
        accepted_event(call_id, writes_state=True),
        CallStarted(call_id=call_id),
        CallReturned(call_id=call_id, content="done", patch=PATCH),
    )


def state_objects() -> dict[str, tuple[bytes, object]]:
    """Return the golden objects by name."""
    continuation = Continuation(changed(), 12)
    return {"state": (continuation.to_bytes(), continuation)}


def before_and_after() -> tuple[RunState, RunState]:
    """Return a run before and after the first change of a state."""
    before = apply_events(new_state(), reply_with_calls("free"))
    return before, _with_patch(before, "c3")
