"""The golden objects of runs that were forked or rewound."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.wire.continuation import Continuation
from tests.core.rows import apply_events, new_state, reply_with_calls

if TYPE_CHECKING:
    from continuations.core.state import RunState


def forked_run() -> RunState:
    """Return a fork, in which some tools are asked about."""
    state = new_state()
    tools = ("mail", "transfer")
    run = replace(state.run, forked_from="jane-1@4", doubtful_tools=tools)
    return replace(state, run=run)


def rewinding_run() -> RunState:
    """Return a run that a worker is rewinding."""
    state = new_state()
    return replace(state, run=replace(state.run, rewind_to=7))


def asked_by_several() -> RunState:
    """Return a run for which several people asked, one of them unknown."""
    state = new_state()
    return replace(state, run=replace(state.run, requesters=("", "bob")))


def answer_used() -> RunState:
    """Return a run with a call whose answer was used in another run."""
    state = apply_events(new_state(), reply_with_calls("free"))
    calls = {
        key: replace(call, answer_used_in="jane-1") for key, call in state.calls.items()
    }
    return replace(state, calls=calls)


def past_objects() -> dict[str, tuple[bytes, object]]:
    """Return the objects by name: their bytes, and what they mean."""
    objects: dict[str, tuple[bytes, object]] = {}
    for make in (forked_run, rewinding_run, asked_by_several, answer_used):
        continuation = Continuation(make(), 12)
        objects[make.__name__] = (continuation.to_bytes(), continuation)
    return objects
