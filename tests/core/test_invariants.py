"""Do the rows of a table fit together?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from continuations.core import messages as said
from continuations.core.calls import Nested, Proposed, Ready, Unknown, Waiting
from continuations.core.frames import FrameRow, MessageLog
from continuations.core.invariants import find_violation
from continuations.core.state import ROOT_FRAME_ID, RunState
from tests.core.rows import (
    STATES,
    apply_events,
    gated_event,
    make_wait,
    nested_agents,
    new_state,
    reply_with_text,
    state_with_call_in,
    with_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NESTED = state_with_call_in(Nested("f5"))
WAITING = state_with_call_in(Waiting("w1"))
FRAME = NESTED.frames["f5"]
LOG = NESTED.logs["f5"]
CALL = NESTED.calls["c4"]
LONG_NUMBER = "9" * 5000


def with_rows(state: RunState, **changes: Any) -> RunState:
    """Return a table with other rows; `None` for a key takes the row away."""
    fields: dict[str, Any] = {}
    for name in ("frames", "calls", "waits", "logs"):
        merged = {**getattr(state, name), **changes.pop(name, {})}
        fields[name] = {key: row for key, row in merged.items() if row is not None}
    run = replace(state.run, **changes)
    return RunState.from_rows(run=run, manifest=state.manifest, **fields)


@pytest.mark.parametrize("state", STATES, ids=lambda s: type(s).__name__)
def test_rows_made_by_events_satisfy_the_invariants(state: Any) -> None:
    assert find_violation(state_with_call_in(state)) is None


def test_new_finished_and_deep_runs_satisfy_the_invariants() -> None:
    assert find_violation(new_state()) is None
    assert find_violation(apply_events(new_state(), reply_with_text("done"))) is None
    assert find_violation(nested_agents(1000)) is None


BROKEN: dict[str, tuple[Callable[[], RunState], str]] = {
    "no root": (lambda: with_rows(NESTED, frames={ROOT_FRAME_ID: None}), "no root"),
    "a root that answers a call": (
        lambda: with_rows(
            NESTED,
            frames={
                ROOT_FRAME_ID: replace(
                    NESTED.frames[ROOT_FRAME_ID], parent_call_id="c3"
                )
            },
        ),
        "no root",
    ),
    "a root with a depth": (
        lambda: with_rows(
            NESTED,
            frames={ROOT_FRAME_ID: replace(NESTED.frames[ROOT_FRAME_ID], depth=1)},
        ),
        "root frame has a depth",
    ),
    "a frame without a log": (
        lambda: with_rows(NESTED, logs={"f5": None}),
        "logs differ",
    ),
    "a log without a frame": (
        lambda: with_rows(NESTED, logs={"f4": LOG}),
        "logs differ",
    ),
    "a call that is twice in its turn": (
        lambda: with_rows(
            NESTED,
            frames={
                ROOT_FRAME_ID: replace(
                    NESTED.frames[ROOT_FRAME_ID], open_call_ids=("c3", "c4", "c4")
                )
            },
        ),
        "has a call twice",
    ),
    "a turn with a call that is not there": (
        lambda: with_rows(NESTED, calls={"c4": None}),
        "has call c4",
    ),
    "a turn with another frame's call": (
        lambda: with_rows(NESTED, calls={"c4": replace(CALL, frame_id="f5")}),
        "has call c4",
    ),
    "a call that is in no turn": (
        lambda: with_rows(NESTED, calls={"c2": replace(CALL, id="c2")}),
        "c2 is open in no frame",
    ),
    "a call of a frame that is not there": (
        lambda: with_rows(NESTED, calls={"c2": replace(CALL, id="c2", frame_id="f0")}),
        "c2 is open in no frame",
    ),
    "a frame that hangs from nothing": (
        lambda: with_rows(NESTED, frames={"f5": replace(FRAME, parent_call_id=None)}),
        "hangs from no call",
    ),
    "a frame that hangs from a call that is gone": (
        lambda: with_rows(NESTED, frames={"f5": replace(FRAME, parent_call_id="c0")}),
        "hangs from no call",
    ),
    "a frame at the wrong depth": (
        lambda: with_rows(NESTED, frames={"f5": replace(FRAME, depth=7)}),
        "wrong depth",
    ),
    "a frame below a call that runs": (
        lambda: with_rows(NESTED, calls={"c3": with_state(NESTED, "c3", Ready())}),
        "not in it",
    ),
    "two frames below one call": (
        lambda: with_rows(
            NESTED, frames={"f2": replace(FRAME, id="f2")}, logs={"f2": LOG}
        ),
        "f2 hangs from a call that is not in it",
    ),
    "a call in a frame that is not there": (
        lambda: with_rows(NESTED, calls={"c4": with_state(NESTED, "c4", Nested("f0"))}),
        "c4 is in a frame",
    ),
    "a call in another call's frame": (
        lambda: with_rows(NESTED, calls={"c4": with_state(NESTED, "c4", Nested("f5"))}),
        "c4 is in a frame",
    ),
    "a call in the root": (
        lambda: with_rows(
            NESTED, calls={"c4": with_state(NESTED, "c4", Nested(ROOT_FRAME_ID))}
        ),
        "c4 is in a frame",
    ),
    "a wait that is not there": (
        lambda: with_rows(WAITING, waits={"w1": None}),
        "c3 waits for w1",
    ),
    "a wait of a call that does not wait": (
        lambda: with_rows(WAITING, calls={"c3": with_state(WAITING, "c3", Ready())}),
        "w1 belongs to no call",
    ),
    "a wait of a call that waits for another": (
        lambda: with_rows(WAITING, waits={"w2": make_wait("c3", "w2")}),
        "w2 belongs to no call",
    ),
    "a wait of another run": (
        lambda: with_rows(
            WAITING, waits={"w1": replace(WAITING.waits["w1"], run_id="x")}
        ),
        "another run",
    ),
    "two calls at one wait": (
        lambda: with_rows(
            WAITING, calls={"c4": with_state(WAITING, "c4", Waiting("w1"))}
        ),
        "c4 waits for w1",
    ),
    "an approval that is stored as an unknown outcome": (
        lambda: with_rows(WAITING, waits={"w1": make_wait("c3", kind="unknown")}),
        "not of the kind",
    ),
    "an unknown outcome that is stored as an approval": (
        lambda: with_rows(
            state_with_call_in(Unknown("w1")),
            waits={"w1": make_wait("c3", kind="approval")},
        ),
        "not of the kind",
    ),
    "an id that comes next": (
        lambda: with_rows(NESTED, next_id=5),
        "never given out",
    ),
    "a frame and a call of one id": (
        lambda: with_rows(
            new_state(),
            frames={
                ROOT_FRAME_ID: FrameRow(
                    id=ROOT_FRAME_ID,
                    agent="hr",
                    parent_call_id=None,
                    open_call_ids=(ROOT_FRAME_ID,),
                )
            },
            calls={ROOT_FRAME_ID: replace(CALL, id=ROOT_FRAME_ID, state=Proposed())},
        ),
        "never given out",
    ),
    "an id that is no number": (lambda: with_call_id("cx"), "never given out"),
    "an id of foreign digits": (lambda: with_call_id("c\u0661"), "never given out"),
    "an id of nothing": (lambda: with_call_id("c"), "never given out"),
    "an empty id": (lambda: with_call_id(""), "never given out"),
    "an id of five thousand digits": (
        lambda: with_call_id("c" + LONG_NUMBER),
        "never given out",
    ),
    "a log id that comes next": (
        lambda: with_rows(NESTED, logs={"f5": MessageLog(99, LOG.messages)}),
        "log id 99 was never given out",
    ),
}


def with_call_id(call_id: str) -> RunState:
    """Return a run whose one call has another id."""
    frame = replace(new_state().frames[ROOT_FRAME_ID], open_call_ids=(call_id,))
    call = replace(CALL, id=call_id, state=Proposed())
    return with_rows(new_state(), frames={ROOT_FRAME_ID: frame}, calls={call_id: call})


@pytest.mark.parametrize("name", BROKEN)
def test_invalid_rows_are_reported_with_the_reason(name: str) -> None:
    """R-C8, R-B4, B-4, B-5: refused at the door."""
    make, words = BROKEN[name]

    assert words in (find_violation(make()) or "nothing is wrong")


def test_cycle_of_frames_is_reported() -> None:
    """R-I4: two frames that hang from each other's calls."""
    state = nested_agents(3)
    middle, deep = list(state.frames)[1:]
    call = state.frames[deep].open_call_ids[0]
    ring = with_rows(
        state,
        frames={middle: replace(state.frames[middle], parent_call_id=call)},
        calls={call: with_state(state, call, Nested(middle))},
        waits={"w1": None},
    )

    assert "wrong depth" in (find_violation(ring) or "")


def test_calls_with_swapped_waits_are_reported() -> None:
    state = apply_events(WAITING, gated_event("c4", "w2"))
    crossed = with_rows(
        state,
        calls={
            "c3": with_state(state, "c3", Waiting("w2")),
            "c4": with_state(state, "c4", Waiting("w1")),
        },
    )

    assert find_violation(crossed) is not None


def test_invariants_do_not_check_transcripts() -> None:
    """A sendable transcript is asked for before each request, in every frame."""
    assert find_violation(new_state(said.tool_message("x", "orphan"))) is None
