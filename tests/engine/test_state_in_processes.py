"""The states of agents three deep: every step happens in a fresh interpreter."""

from __future__ import annotations

import pytest

from continuations import Frame, Runner
from tests.engine.state_agents import replayed
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call

pytestmark = pytest.mark.fresh_interpreters

APP = "tests.engine.state_agents:agents"
SCRIPT: Script = {
    "go": [
        [call("buy", cents=1)],
        [call("order", cents=2), call("hr", input="office"), call("book", cents=3)],
        [call("book", cents=4)],
        "end",
    ],
    "office": [
        [call("book", cents=10)],
        [call("clerk", input="desk"), call("clerk", input="desk")],
        [call("buy", cents=20)],
        "office done",
    ],
    "desk": [[call("book", cents=100), call("order", cents=200)], "desk done"],
}


def stack(runner: Runner) -> list[tuple[str, int]]:
    """Return the agents of the run, from the root down, and what each has spent."""
    found: list[tuple[str, int]] = []
    pending: list[Frame] = [runner.look("r1").root]
    while pending:
        frame = pending.pop(0)
        found.append((frame.agent, frame.state.get("spent", 0)))
        pending += [call.frame for call in frame.calls if call.frame is not None]
    return found


def test_states_survive_fresh_processes_at_every_depth(
    environment: RunEnvironment,
) -> None:
    """Each frame has its own state, also two activations of one agent."""
    runner = Runner([], store=environment.store)
    outcome = environment.start(SCRIPT, app=APP)
    assert [("boss", 1), ("hr", 10), ("clerk", 0), ("clerk", 0)] == stack(runner)

    while outcome["kind"] == "Suspended":
        environment.approve(outcome["waits"][-1])
        outcome = environment.resume(SCRIPT, app=APP)

    assert ("Finished", "end") == (outcome["kind"], outcome["output"])
    root = runner.look("r1").root
    assert 10 == replayed(root.messages)
    expected = {"spent": 10, "on": ["buy", "order", "book", "book"]}
    assert expected == root.state
    once = ["book 10", "book 3", "book 4", "buy 1", "buy 20", "order 2"]
    twice = ["book 100", "order 200"]
    assert sorted(environment.effect_names()) == sorted([*once, *twice, *twice])
