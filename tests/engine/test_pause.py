"""Runs that `should_pause` stops; any process can resume them at once."""

from __future__ import annotations

import asyncio

import pytest

from continuations import Agent, Finished, Outcome, Runner, Suspended
from continuations.ledger import layout
from continuations_storage import FileStore, MemoryStore, Store
from continuations_storage.faults import FaultyStore
from tests import effect_log, sample_app, scripts
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import should_pause_after
from tests.run_environment import RunEnvironment
from tests.sampling import sample
from tests.scripts import Script, call

SCRIPT: Script = {
    "go": [
        [call("act", what="1"), call("left", input="A"), call("right", input="B")],
        [call("read", what="2")],
        "end",
    ],
    "A": [[call("act", what="3"), call("push", what="4")], "A done"],
    "B": [[call("clerk", input="C")], "B done"],
    "C": [[call("act", what="5")], "C done"],
}
EXPECTED_EFFECTS = ["act 1", "act 3", "act 5", "push 4", "read 2"]
EXPECTED_TURNS = ["A 0", "A 1", "B 0", "B 1", "C 0", "C 1", "go 0", "go 1", "go 2"]


def always_pause() -> bool:
    """There is no time at all."""
    return True


@pytest.fixture
def agent() -> Agent:
    return sample_app.make_agents(scripts.scripted_model(SCRIPT))[0]


def markers(store: Store) -> list[str]:
    """Return the letters of all markers."""
    keys = asyncio.run(store.keys(layout.MARKERS_PREFIX))
    found = [layout.parse_marker(key) for key in keys]
    return [marker.reason for marker in found if marker is not None]


def assert_finished_once(outcome: Outcome, environment: RunEnvironment) -> None:
    """The run came to the end that it would have had; everything happened once."""
    assert isinstance(outcome, Finished)
    assert "end" == outcome.output
    assert sorted(environment.effect_names()) == EXPECTED_EFFECTS
    assert sorted(environment.turns()) == EXPECTED_TURNS


def test_paused_run_has_the_same_end(environment: RunEnvironment, agent: Agent) -> None:
    """Paused after each step and resumed by others, it repeats nothing."""
    store = MemoryStore()
    outcome = Runner(agent, store=store).start(
        "go", run_id="r1", should_pause=should_pause_after(1)
    )
    pauses = 0
    while isinstance(outcome, Suspended):
        assert (True, ()) == (outcome.paused, outcome.waits)
        assert ["r"] == markers(store)
        pauses += 1
        assert pauses < 40
        version = outcome.continuation.version
        for too_few in (0, 1):
            runner = Runner(agent, store=store)
            again = runner.resume("r1", should_pause=should_pause_after(too_few))
            assert version == again.continuation.version
        outcome = Runner(agent, store=store).resume(
            "r1", should_pause=should_pause_after(3)
        )

    assert_finished_once(outcome, environment)
    assert [] == markers(store)
    assert pauses >= 6


@pytest.mark.parametrize("questions", sample(range(1, 12), 5))
def test_sweep_of_another_process_continues_a_paused_run(
    environment: RunEnvironment, questions: int
) -> None:
    """A fresh interpreter needs nothing but the store."""
    result = environment.run(
        "start", "r1", "go", script=SCRIPT, pause_after=str(questions)
    )
    swept = environment.run("sweep", script=SCRIPT)

    if result["kind"] == "Suspended":
        assert result["paused"]
        (result,) = swept["resumed"]
    assert ("Finished", "end") == (result["kind"], result["output"])
    assert sorted(environment.effect_names()) == EXPECTED_EFFECTS
    assert sorted(environment.turns()) == EXPECTED_TURNS


def test_run_without_time_is_created_and_asks_no_model(
    environment: RunEnvironment, agent: Agent, store: MemoryStore
) -> None:
    """A resume that pauses at once writes nothing."""
    runner = Runner(agent, store=store)
    outcome = runner.start("go", run_id="r1", should_pause=always_pause)

    assert isinstance(outcome, Suspended)
    assert outcome.paused
    assert ([], [], ["r"]) == (
        environment.turns(),
        environment.effect_names(),
        markers(store),
    )

    watched = FaultyStore(store)
    again = Runner(agent, store=watched).resume("r1", should_pause=always_pause)
    assert isinstance(again, Suspended)
    assert again.paused
    assert {"keys", "read"} == {each.verb for each in watched.operations}
    assert () == runner.sweep(should_pause=always_pause).resumed

    (last,) = runner.sweep().resumed
    assert_finished_once(last, environment)


def test_pause_leaves_no_call_started(agent: Agent) -> None:
    """No begun call is left without a result."""
    for questions in range(2, 12):
        store = MemoryStore()
        outcome = Runner(agent, store=store).start(
            "go", should_pause=should_pause_after(questions)
        )
        calls = outcome.continuation.run_state.calls.values()
        states = {type(call.state).__name__ for call in calls}
        assert not states & {"Started", "Unknown"}, questions
    assert effect_log.names()


def test_run_recovers_from_a_crash_while_it_pauses(
    environment: RunEnvironment, agent: Agent
) -> None:
    """Sweeps alone end the run after a crash at any storage operation."""
    for point in every_crash("before", "after", more_than=5):
        (environment.folder / "effects").unlink(missing_ok=True)
        (environment.folder / "turns").unlink(missing_ok=True)
        store, clock = MemoryStore(), ManualClock()
        Runner(agent, store=store, clock=clock).start(
            "go", run_id="r1", should_pause=should_pause_after(1)
        )
        with point.process(store) as dying:
            Runner(agent, store=dying, clock=clock).resume(
                "r1", should_pause=should_pause_after(3)
            )
        runner = Runner(agent, store=store, clock=clock)
        for _ in range(3):
            clock.seconds += 120
            assert {} == runner.sweep().errors
        outcome = runner.resume("r1")
        assert isinstance(outcome, Finished), point
        assert sorted(environment.effect_names()) == EXPECTED_EFFECTS, point
        assert [] == markers(store), point


def test_suspension_for_an_approval_is_not_paused(environment: RunEnvironment) -> None:
    """`paused` is False if the run waits for a person."""
    result = environment.start({"go": [[call("pay", what="x")], "end"]})

    assert ("Suspended", False) == (result["kind"], result["paused"])


def test_decided_run_without_time_is_paused_and_due(
    environment: RunEnvironment, agent: Agent
) -> None:
    """The outcome is paused, and the decision's marker stays due."""
    store = FileStore(environment.folder / "store")
    script: Script = {"go": [[call("pay", what="x")], "end"]}
    environment.approve(environment.start(script)["waits"][0])

    outcome = Runner(agent, store=store).resume("r1", should_pause=always_pause)

    assert isinstance(outcome, Suspended)
    assert outcome.paused
    assert [] == environment.effect_names()
    (result,) = environment.run("sweep", script=script)["resumed"]
    assert ("Finished", ["pay x"]) == (result["kind"], environment.effect_names())
