"""Do the rows of a table fit together?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from continuations.core import messages as said
from continuations.core.calls import Nested, Proposed, Ready, Unknown, Waiting
from continuations.core.frames import FrameRow, Log
from continuations.core.soundness import fault
from continuations.core.table import ROOT, Table
from tests.core.rows import (
    STATES,
    gated,
    new_table,
    one_call,
    says,
    told,
    tower,
    wait_for,
    with_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable

NESTED = one_call(Nested("f5"))
WAITING = one_call(Waiting("w1"))
FRAME = NESTED.frames["f5"]
LOG = NESTED.logs["f5"]
CALL = NESTED.calls["c4"]
BIG = "9" * 5000


def rows(table: Table, **changes: Any) -> Table:
    """Return a table with other rows; `None` for a key takes the row away."""
    fields: dict[str, Any] = {}
    for name in ("frames", "calls", "waits", "logs"):
        merged = {**getattr(table, name), **changes.pop(name, {})}
        fields[name] = {key: row for key, row in merged.items() if row is not None}
    run = replace(table.run, **changes)
    return Table.of(run=run, manifest=table.manifest, **fields)


@pytest.mark.parametrize("state", STATES, ids=lambda s: type(s).__name__)
def test_rows_that_came_about_lawfully_fit(state: Any) -> None:
    assert fault(one_call(state)) is None


def test_new_finished_and_very_deep_runs_fit() -> None:
    assert fault(new_table()) is None
    assert fault(told(new_table(), says("done"))) is None
    assert fault(tower(1000)) is None


BROKEN: dict[str, tuple[Callable[[], Table], str]] = {
    "no root": (lambda: rows(NESTED, frames={ROOT: None}), "no root"),
    "a root that answers a call": (
        lambda: rows(NESTED, frames={ROOT: replace(NESTED.frames[ROOT], call="c3")}),
        "no root",
    ),
    "a root with a depth": (
        lambda: rows(NESTED, frames={ROOT: replace(NESTED.frames[ROOT], depth=1)}),
        "root frame has a depth",
    ),
    "a frame without a log": (lambda: rows(NESTED, logs={"f5": None}), "logs differ"),
    "a log without a frame": (lambda: rows(NESTED, logs={"f4": LOG}), "logs differ"),
    "a call that is twice in its turn": (
        lambda: rows(
            NESTED,
            frames={ROOT: replace(NESTED.frames[ROOT], open=("c3", "c4", "c4"))},
        ),
        "has a call twice",
    ),
    "a turn with a call that is not there": (
        lambda: rows(NESTED, calls={"c4": None}),
        "has call c4",
    ),
    "a turn with another frame's call": (
        lambda: rows(NESTED, calls={"c4": replace(CALL, frame="f5")}),
        "has call c4",
    ),
    "a call that is in no turn": (
        lambda: rows(NESTED, calls={"c2": replace(CALL, id="c2")}),
        "c2 is open in no frame",
    ),
    "a call of a frame that is not there": (
        lambda: rows(NESTED, calls={"c2": replace(CALL, id="c2", frame="f0")}),
        "c2 is open in no frame",
    ),
    "a frame that hangs from nothing": (
        lambda: rows(NESTED, frames={"f5": replace(FRAME, call=None)}),
        "hangs from no call",
    ),
    "a frame that hangs from a call that is gone": (
        lambda: rows(NESTED, frames={"f5": replace(FRAME, call="c0")}),
        "hangs from no call",
    ),
    "a frame at the wrong depth": (
        lambda: rows(NESTED, frames={"f5": replace(FRAME, depth=7)}),
        "wrong depth",
    ),
    "a frame below a call that runs": (
        lambda: rows(NESTED, calls={"c3": with_state(NESTED, "c3", Ready())}),
        "not in it",
    ),
    "two frames below one call": (
        lambda: rows(NESTED, frames={"f2": replace(FRAME, id="f2")}, logs={"f2": LOG}),
        "f2 hangs from a call that is not in it",
    ),
    "a call in a frame that is not there": (
        lambda: rows(NESTED, calls={"c4": with_state(NESTED, "c4", Nested("f0"))}),
        "c4 is in a frame",
    ),
    "a call in another call's frame": (
        lambda: rows(NESTED, calls={"c4": with_state(NESTED, "c4", Nested("f5"))}),
        "c4 is in a frame",
    ),
    "a call in the root": (
        lambda: rows(NESTED, calls={"c4": with_state(NESTED, "c4", Nested(ROOT))}),
        "c4 is in a frame",
    ),
    "a wait that is not there": (
        lambda: rows(WAITING, waits={"w1": None}),
        "c3 waits for w1",
    ),
    "a wait of a call that does not wait": (
        lambda: rows(WAITING, calls={"c3": with_state(WAITING, "c3", Ready())}),
        "w1 belongs to no call",
    ),
    "a wait of a call that waits for another": (
        lambda: rows(WAITING, waits={"w2": wait_for("c3", "w2")}),
        "w2 belongs to no call",
    ),
    "a wait of another run": (
        lambda: rows(WAITING, waits={"w1": replace(WAITING.waits["w1"], run_id="x")}),
        "another run",
    ),
    "two calls at one wait": (
        lambda: rows(WAITING, calls={"c4": with_state(WAITING, "c4", Waiting("w1"))}),
        "c4 waits for w1",
    ),
    "an approval that is stored as an unknown outcome": (
        lambda: rows(WAITING, waits={"w1": wait_for("c3", kind="unknown")}),
        "not of the kind",
    ),
    "an unknown outcome that is stored as an approval": (
        lambda: rows(
            one_call(Unknown("w1")), waits={"w1": wait_for("c3", kind="approval")}
        ),
        "not of the kind",
    ),
    "an id that comes next": (
        lambda: rows(NESTED, next_id=5),
        "never given out",
    ),
    "a frame and a call of one id": (
        lambda: rows(
            new_table(),
            frames={ROOT: FrameRow(id=ROOT, agent="hr", call=None, open=(ROOT,))},
            calls={ROOT: replace(CALL, id=ROOT, state=Proposed())},
        ),
        "never given out",
    ),
    "an id that is no number": (lambda: renamed("cx"), "never given out"),
    "an id of foreign digits": (lambda: renamed("c\u0661"), "never given out"),
    "an id of nothing": (lambda: renamed("c"), "never given out"),
    "an empty id": (lambda: renamed(""), "never given out"),
    "an id of five thousand digits": (lambda: renamed("c" + BIG), "never given out"),
    "a log id that comes next": (
        lambda: rows(NESTED, logs={"f5": Log(99, LOG.messages)}),
        "log id 99 was never given out",
    ),
}


def renamed(call_id: str) -> Table:
    """Return a run whose one call has another id."""
    frame = replace(new_table().frames[ROOT], open=(call_id,))
    call = replace(CALL, id=call_id, state=Proposed())
    return rows(new_table(), frames={ROOT: frame}, calls={call_id: call})


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_is_named(name: str) -> None:
    """R-C8, R-B4, B-4, B-5: refused at the door."""
    make, words = BROKEN[name]

    assert words in (fault(make()) or "nothing is wrong")


def test_frames_in_a_circle_are_found_and_not_walked() -> None:
    """R-I4: two frames that hang from each other's calls."""
    table = tower(3)
    middle, deep = list(table.frames)[1:]
    call = table.frames[deep].open[0]
    ring = rows(
        table,
        frames={middle: replace(table.frames[middle], call=call)},
        calls={call: with_state(table, call, Nested(middle))},
        waits={"w1": None},
    )

    assert "wrong depth" in (fault(ring) or "")


def test_two_rows_may_not_wait_for_each_other_by_name() -> None:
    table = told(WAITING, gated("c4", "w2"))
    crossed = rows(
        table,
        calls={
            "c3": with_state(table, "c3", Waiting("w2")),
            "c4": with_state(table, "c4", Waiting("w1")),
        },
    )

    assert fault(crossed) is not None


def test_what_a_frame_was_told_is_not_judged_here() -> None:
    """A sendable transcript is asked for before each request, in every frame."""
    assert fault(new_table(said.tool("x", "orphan"))) is None
