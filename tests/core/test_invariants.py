"""Rows that do not fit together are reported with the reason."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from itertools import combinations
from typing import Any, TypeAlias

import pytest

from continuations.core.changes.invariants import find_violation
from continuations.core.messages import tool_message
from continuations.core.rows.calls import (
    CallRow,
    Nested,
    Proposed,
    Ready,
    Unknown,
    Waiting,
)
from continuations.core.rows.frames import FrameRow, HistoryRecord, MessageLog
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.core.rows.waits import Wait
from tests.core.rows import (
    STATES,
    apply_events,
    approval_requested_event,
    make_frame_wait,
    make_wait,
    nested_agents,
    new_state,
    reply_with_text,
    state_with_call_in,
    with_state,
)

NESTED = state_with_call_in(Nested("f5"))
WAITING = state_with_call_in(Waiting("w1"))
FRAME = NESTED.frames["f5"]
LOG = NESTED.logs["f5"]
CALL = NESTED.calls["c4"]
LONG_NUMBER = "9" * 5000
ITSELF = FrameRow(
    id=ROOT_FRAME_ID, agent="hr", parent_call_id=None, open_call_ids=(ROOT_FRAME_ID,)
)
Changes: TypeAlias = dict[str, Any]


def with_rows(state: RunState, **changes: Any) -> RunState:
    """Return a state with changed rows or fields of rows; `None` removes a row."""
    kinds: dict[str, Any] = {}
    for name in ("frames", "calls", "waits", "logs"):
        rows = dict(getattr(state, name))
        for key, row in changes.pop(name, {}).items():
            rows[key] = replace(rows[key], **row) if isinstance(row, dict) else row
        kinds[name] = {key: row for key, row in rows.items() if row is not None}
    run = replace(state.run, **changes)
    return RunState.from_rows(run=run, manifest=state.manifest, **kinds)


@pytest.mark.parametrize("state", STATES, ids=lambda s: type(s).__name__)
def test_rows_made_by_events_satisfy_the_invariants(state: Any) -> None:
    assert find_violation(state_with_call_in(state)) is None


def test_new_finished_and_deep_runs_satisfy_the_invariants() -> None:
    assert find_violation(new_state()) is None
    assert find_violation(apply_events(new_state(), reply_with_text("done"))) is None
    assert find_violation(nested_agents(1000)) is None


def root(**fields: Any) -> Changes:
    return {"frames": {ROOT_FRAME_ID: fields}}


def below(**fields: Any) -> Changes:
    return {"frames": {"f5": fields}}


def call(key: str, **fields: Any) -> Changes:
    return {"calls": {key: fields}}


def waits(**rows: Wait | None) -> Changes:
    return {"waits": rows}


def proposed(key: str) -> CallRow:
    return replace(CALL, id=key, state=Proposed())


def only_call(key: str) -> Changes:
    """Return a change that gives a new run one call."""
    return {**root(open_call_ids=(key,)), "calls": {key: proposed(key)}}


# The report about each change of the rows of a whole state, by the name of the change.
OF_NESTED: dict[str, dict[str, Changes]] = {
    "belongs to no frame": {
        "wait of a missing frame": waits(w1=make_frame_wait("f9")),
        "wait of a frame with open calls": waits(w1=make_frame_wait(ROOT_FRAME_ID)),
    },
    "two waits suspend one frame": {
        "two waits of one frame": waits(
            w1=make_frame_wait("f5"), w2=make_frame_wait("f5", "w2")
        ),
    },
    "frame f1 cannot have a pending reply": {
        "pending reply beside open calls": root(pending_reply="resp_1"),
    },
    "frame f5 cannot have a pending reply": {
        "pending reply without an id": below(pending_reply=""),
    },
    "does not fit its subject": {
        "kind of a call for a frame": waits(
            w1=replace(make_frame_wait("f5"), kind="timer")
        ),
        "kind of a call for the run": waits(w1=replace(make_wait("c3"), call_id="")),
    },
    "root frame is missing": {
        "no root frame": {"frames": {ROOT_FRAME_ID: None}},
        "a root frame with a parent call": root(parent_call_id="c3"),
    },
    "depth of the root frame": {
        "a root frame with a depth": root(depth=1),
    },
    "different ids": {
        "a frame without a log": {"logs": {"f5": None}},
        "a log without a frame": {"logs": {"f4": LOG}},
    },
    "lists a call twice": {
        "a call that its frame lists twice": root(open_call_ids=("c3", "c4", "c4")),
    },
    "lists call c4": {
        "a frame that lists a missing call": {"calls": {"c4": None}},
        "a frame that lists a call of another frame": call("c4", frame_id="f5"),
    },
    "c2 is not an open call of its frame": {
        "a call that its frame does not list": {
            "calls": {"c2": replace(CALL, id="c2")}
        },
        "a call of a missing frame": {
            "calls": {"c2": replace(CALL, id="c2", frame_id="f0")}
        },
    },
    "has no parent call": {
        "a frame without a parent call": below(parent_call_id=None),
        "a frame whose parent call is missing": below(parent_call_id="c0"),
    },
    "wrong depth": {
        "a frame at the wrong depth": below(depth=7),
    },
    "not the frame of its parent call": {
        "a frame whose parent call is not nested": call("c3", state=Ready()),
    },
    "f2 is not the frame of its parent call": {
        "two frames of one call": {
            "frames": {"f2": replace(FRAME, id="f2")},
            "logs": {"f2": LOG},
        },
    },
    "c4 refers to a frame": {
        "a call nested in a missing frame": call("c4", state=Nested("f0")),
        "a call nested in the frame of another call": call("c4", state=Nested("f5")),
        "a call nested in the root frame": call("c4", state=Nested(ROOT_FRAME_ID)),
    },
    "never allocated": {
        "an id that is not allocated yet": {"next_id": 5},
    },
    "log id 99 was never allocated": {
        "a log id that is not allocated yet": {
            "logs": {"f5": MessageLog(99, LOG.messages)}
        },
    },
}
OF_WAITING: dict[str, dict[str, Changes]] = {
    "does not fit its subject": {
        "kind of a frame for a call": waits(w1=replace(make_wait("c3"), kind="model")),
    },
    "c3 refers to wait w1": {
        "a missing wait": waits(w1=None),
    },
    "w1 belongs to no waiting call": {
        "a wait of a call that does not wait": call("c3", state=Ready()),
    },
    "w2 belongs to no waiting call": {
        "a wait of a call that has another wait": waits(w2=make_wait("c3", "w2")),
    },
    "another run": {
        "a wait of another run": {"waits": {"w1": {"run_id": "x"}}},
    },
    "c4 refers to wait w1": {
        "two calls with one wait": call("c4", state=Waiting("w1")),
    },
    "does not fit its call": {
        "an approval that is stored as an unknown outcome": waits(
            w1=make_wait("c3", kind="unknown")
        ),
    },
}
OF_UNKNOWN: dict[str, dict[str, Changes]] = {
    "does not fit its call": {
        "an unknown outcome that is stored as an approval": waits(
            w1=make_wait("c3", kind="approval")
        ),
    },
}
OF_NEW: dict[str, dict[str, Changes]] = {
    "never allocated": {
        "a frame and a call with the same id": {
            "frames": {ROOT_FRAME_ID: ITSELF},
            "calls": {ROOT_FRAME_ID: proposed(ROOT_FRAME_ID)},
        },
        "an id without a number": only_call("cx"),
        "an id with non-ASCII digits": only_call("c\u0661"),
        "an id without digits": only_call("c"),
        "an empty id": only_call(""),
        "an id with 5,000 digits": only_call("c" + LONG_NUMBER),
    },
}
INVALID = {
    name: (reason, whole, change)
    for whole, reasons in (
        (NESTED, OF_NESTED),
        (WAITING, OF_WAITING),
        (state_with_call_in(Unknown("w1")), OF_UNKNOWN),
        (new_state(), OF_NEW),
    )
    for reason, changes in reasons.items()
    for name, change in changes.items()
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_rows_are_reported_with_the_reason(name: str) -> None:
    """A state that is loaded from bytes never has rows that do not fit together."""
    reason, whole, change = INVALID[name]
    state = with_rows(whole, **change)

    assert reason in (find_violation(state) or "no violation")
    for known in (NESTED, WAITING, new_state()):
        assert find_violation(state, known) is not None


def test_cycle_of_frames_is_reported() -> None:
    """Two frames whose parent calls belong to each other are a cycle."""
    state = nested_agents(3)
    middle, deep = list(state.frames)[1:]
    call = state.frames[deep].open_call_ids[0]
    cycle = with_rows(
        state,
        frames={middle: replace(state.frames[middle], parent_call_id=call)},
        calls={call: with_state(state, call, Nested(middle))},
        waits={"w1": None},
    )

    assert "wrong depth" in (find_violation(cycle) or "")


def test_calls_with_swapped_waits_are_reported() -> None:
    state = apply_events(WAITING, approval_requested_event("c4", "w2"))
    swapped = with_rows(
        state,
        calls={
            "c3": with_state(state, "c3", Waiting("w2")),
            "c4": with_state(state, "c4", Waiting("w1")),
        },
    )

    assert find_violation(swapped) is not None


def test_invariants_do_not_check_transcripts() -> None:
    """The transcript is checked separately, before each model request."""
    assert find_violation(new_state(tool_message("x", "no call"))) is None


FRAME_WAIT = with_rows(NESTED, waits={"w1": make_frame_wait("f5")})
KNOWN = {
    "waiting": WAITING,
    "nested": NESTED,
    "three levels": nested_agents(3),
    "wait of a frame": FRAME_WAIT,
    "unknown outcome": state_with_call_in(Unknown("w1")),
    "counted messages": with_rows(
        NESTED, frames={"f5": replace(FRAME, history=HistoryRecord(counted=1))}
    ),
    "ended": with_rows(
        NESTED, status="cancelled", calls={"c3": with_state(NESTED, "c3", Proposed())}
    ),
}
NO_ROW = "f99"


def changes_of(state: RunState) -> list[dict[str, Any]]:
    """Return changes of one row, with which the rows fit together or not."""
    frames, calls = [*state.frames, NO_ROW], [*state.calls, NO_ROW]
    found: list[tuple[str, str, Any]] = []
    for frame in state.frames.values():
        opened = frame.open_call_ids
        values: list[dict[str, Any]] = [
            *({"open_call_ids": ids} for ids in ((), opened[:1], (*opened, NO_ROW))),
            *({"parent_call_id": call} for call in calls),
            {"depth": frame.depth + 1},
            {"history": HistoryRecord(counted=1)},
            {"step": "waits"},
        ]
        found += [("frames", frame.id, replace(frame, **value)) for value in values]
    for call in state.calls.values():
        nested = [Nested(frame) for frame in frames]
        values = [
            *({"frame_id": frame} for frame in frames),
            *({"state": each} for each in (*STATES, *nested, Waiting("w1"))),
            {"attempts": call.attempts + 1},
        ]
        found += [("calls", call.id, replace(call, **value)) for value in values]
    for wait in state.waits.values():
        values = [
            *({"call_id": call} for call in calls),
            *({"frame_id": frame, "call_id": ""} for frame in frames),
            {"kind": "model"},
            {"kind": "output"},
        ]
        found += [("waits", wait.id, replace(wait, **value)) for value in values]
    found += [("waits", "w2", make_wait(call, "w2")) for call in calls]
    outputs = [replace(make_frame_wait(f, "w2"), kind="output") for f in state.frames]
    found += [("waits", "w2", wait) for wait in outputs]
    for key, log in state.logs.items():
        found += [("logs", key, replace(log, id=9)), ("logs", key, MessageLog(2, ()))]
    for kind in ("frames", "calls", "waits", "logs"):
        found += [(kind, key, None) for key in getattr(state, kind)]
    runs = (
        {"next_id": 4},
        {"next_id": 99},
        {"status": "running"},
        {"status": "finished"},
        {"id": "other"},
    )
    return [*({kind: {key: row}} for kind, key, row in found), *runs]


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return both changes; of two changes of one row, the second one."""
    both = {**one, **other}
    for kind in one.keys() & other.keys() & {"frames", "calls", "waits", "logs"}:
        both[kind] = {**one[kind], **other[kind]}
    return both


@pytest.mark.parametrize("name", KNOWN)
def test_check_of_changed_rows_finds_what_a_check_of_all_rows_finds(name: str) -> None:
    """A state is checked against one that is whole: with one change, and with two."""
    known = KNOWN[name]
    assert find_violation(known) is None
    changes = changes_of(known)
    pairs = [merged(one, other) for one, other in combinations(changes, 2)]
    differ = [
        change
        for change in (*changes, *pairs)
        for state in (with_rows(known, **copy(change)),)
        if (find_violation(state) is None) != (find_violation(state, known) is None)
    ]
    assert [] == differ


def test_frame_that_moved_with_another_frame_below_it_is_reported() -> None:
    """Each changed row fits, and the row below them has the wrong depth."""
    chain = nested_agents(4)
    root, _, moved, _ = chain.frames.values()
    old = chain.calls[moved.parent_call_id or ""]
    new = replace(old, id="c5", frame_id=root.id, state=Nested(moved.id))
    ids = (*root.open_call_ids, "c5")
    after = with_rows(
        chain,
        frames={
            root.id: replace(root, open_call_ids=ids),
            moved.id: replace(moved, parent_call_id="c5", depth=1),
        },
        calls={"c5": new, old.id: replace(old, state=Proposed())},
    )
    before = with_rows(
        chain,
        frames={root.id: replace(root, open_call_ids=ids)},
        calls={"c5": replace(new, state=Proposed())},
    )
    assert find_violation(before) is None
    assert "wrong depth" in (find_violation(after, before) or "")


def test_wait_of_a_frame_that_has_calls_now_is_reported() -> None:
    frame = replace(FRAME, open_call_ids=("c6",))
    call = replace(CALL, id="c6", frame_id="f5", state=Proposed())
    after = with_rows(FRAME_WAIT, frames={"f5": frame}, calls={"c6": call}, next_id=9)
    assert "belongs to no frame" in (find_violation(after, FRAME_WAIT) or "")
