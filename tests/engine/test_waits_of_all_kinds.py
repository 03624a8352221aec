"""All kinds of waits at once, three agents deep, in fresh interpreters."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Answer, Approve, Runner
from continuations.core.rows.wait_rules import WAIT_KINDS
from tests.run_environment import RunEnvironment
from tests.sampling import sample

pytestmark = pytest.mark.fresh_interpreters

APP = "tests.engine.waits_of_all_kinds:agents"
VERDICTS: dict[str, Any] = {
    "approval": Approve(by="kim"),
    "unknown": Answer("sent", by="kim"),
    "question": Answer("by the window", by="kim"),
    "event": Answer(42, by="shop"),
    "external": Answer({"pages": 7}, by="scanner"),
}
BY_TIME = {"timer", "model", "alarm"}
LISTS = [
    (None, {"approval", "question", "unknown"}),
    (["event", "external"], {"event", "external"}),
    (["operator"], {"operator"}),
    ([*BY_TIME], BY_TIME),
]


ORDERS = [
    ("operator", "time", *VERDICTS),
    (*reversed(VERDICTS), "time", "operator"),
    ("unknown", "time", "event", "approval", "operator", "external", "question"),
]


@pytest.mark.parametrize("steps", sample(ORDERS, 3, 2), ids="-".join)
def test_waits_of_all_kinds_end_in_any_order(
    environment: RunEnvironment, steps: tuple[str, ...]
) -> None:
    """Each list has its waits, each step is a process, and nothing runs twice."""
    runner = Runner([], store=environment.store)
    started = environment.start({}, app=APP, ahead="0", limited="429")
    waits = {wait["kind"]: wait for wait in started["waits"]}

    # Each kind is open once, at its place of the stack, and stands in its list.
    # Judged texts stop an agent before its calls: test_judging_in_processes.py.
    assert WAIT_KINDS - {"input", "output"} == waits.keys()
    assert len(waits) == len(started["waits"])
    places = {kind: "/".join(wait["path"]) for kind, wait in waits.items()}
    assert {
        "approval": "boss/mid/inner/pay",
        "unknown": "boss/mid/inner/slow",
        "question": "boss/mid/inner/question",
        "event": "boss/mid/inner/price",
        "external": "boss/mid/inner/scan",
        "timer": "boss/mid/inner/nap",
        "model": "boss/mid/limited",
        "operator": "boss/mid/held",
        "alarm": "boss/mid/rest",
    } == places
    for kinds, listed in LISTS:
        found = [wait.id for wait in runner.waiting(kinds=kinds)]
        assert sorted(waits[kind]["id"] for kind in listed) == sorted(found)

    # When they end one by one, each followed by a resume in a fresh interpreter
    clock = {"ahead": "0", "limited": "429"}
    left = set(waits)
    ended: dict[str, Any] = {}
    for step in steps:
        if step == "time":
            clock = {"ahead": "7200", "limited": ""}
            left -= BY_TIME
        elif step == "operator":
            runner.unpause("r1", by="kim")
        else:
            runner.decide(waits[step]["id"], VERDICTS[step])
        left -= {step}
        ended = environment.resume({}, app=APP, **clock)
        assert left == {wait["kind"] for wait in ended.get("waits", ())}

    # Then every call ran once, and only refused turns were asked again.
    assert ("Finished", "end") == (ended["kind"], ended["output"])
    assert [
        *("act x", "nap 3600.0", "pay bill", "price lamp"),
        *("question Desk?", "scan a.pdf", "slow letter"),
    ] == sorted(environment.effect_names())
    turns = [turn for turn in environment.turns() if turn != "model 0"]
    assert len(turns) == len(set(turns)) == 8
    assert [] == environment.keys("waits/", "markers/")
