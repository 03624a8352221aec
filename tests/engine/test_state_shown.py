"""People and programs read the state of an agent in runs, threads and events."""

from __future__ import annotations

from typing import Any

from continuations import Approve, Runner, Suspended
from continuations.cli.event_lines import event_line
from continuations.cli.stack_tree import tree_lines
from continuations.core import jsontext
from continuations.events import StateChanged
from continuations.present.json_forms import (
    Report,
    event_json,
    run_json,
    thread_json,
)
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.state_agents import three_deep
from tests.present.schema_check import assert_matches_schema
from tests.scripts import Script, call

SCRIPT: Script = {
    "go": [
        [call("book", cents=1), call("book", cents=2)],
        [call("hr", input="below")],
        [call("buy", cents=4)],
        "end",
    ],
    "below": [[call("book", cents=30)], [call("order", cents=40)], "done"],
}


def suspended(store: MemoryStore) -> Runner:
    """Return the runner of a run whose sub-agent waits for an approval."""
    runner = Runner(three_deep(SCRIPT), store=store)
    assert isinstance(runner.start("go", run_id="r1"), Suspended)
    return runner


def test_each_change_is_an_event(store: MemoryStore) -> None:
    """Events follow from the versions, so they are the same in every process."""
    runner = suspended(store)
    [summary] = list(runner.waiting())
    runner.decide(summary.id, Approve())
    runner.resume("r1")

    events = list(Runner([], store=store).events("r1"))
    changes = [each for each in events if isinstance(each, StateChanged)]

    assert [
        (("boss",), {"spent": 3, "on": ["book", "book"]}),
        (("boss", "hr"), {"spent": 30, "on": ["book"]}),
        (("boss", "hr"), {"spent": 70, "on": ["book", "order"]}),
        (("boss",), {"spent": 7, "on": ["book", "book", "buy"]}),
    ] == [(each.path, each.changes) for each in changes]
    replay: dict[str, Any] = {}
    for each in changes:
        replay |= each.changes if each.path == ("boss",) else {}
        assert_matches_schema("event", event_json(each))
    assert runner.look("r1").root.state == replay
    assert event_line(changes[0]).text.endswith(
        'state: {"on":["book","book"],"spent":3}'
    )


def test_approver_sees_the_states_of_the_stack() -> None:
    """A person who looks at the run sees the state of the agent that waits."""
    store, clock = MemoryStore(), ManualClock()
    looked = suspended(store).look("r1")

    form = run_json(looked, Report(clock.now()), with_stack=True)
    lines = [line.text for line in tree_lines(looked.root, {}, clock.now())]

    assert {"on": ["book", "book"], "spent": 3} == form["state"]
    states = {frame["agent"]: frame["state"] for frame in form["frames"]}
    assert {"on": ["book"], "spent": 30} == states["hr"]
    shown = jsontext.dump({"on": ["book"], "spent": 30})
    assert f"state {shown}" in lines
    assert_matches_schema("run", form)


def test_thread_shows_the_state_of_its_agent() -> None:
    """The same field as in a run."""
    store, clock = MemoryStore(), ManualClock()
    script: Script = {"hi": [[call("book", cents=5)], "done"]}
    thread = Runner(three_deep(script), store=store).thread(key="7")
    thread.send("hi")

    looked = thread.look()
    assert looked is not None
    form = thread_json(looked, Report(clock.now()))

    assert {"on": ["book"], "spent": 5} == form["state"]
    assert_matches_schema("thread", form)
