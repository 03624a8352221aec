"""A run that stops for want of time: at a safe place, to be gone on with at once."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from continuations import Finished, Runner, Suspended
from continuations.ledger import layout
from continuations_storage import FileStore, MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests.engine.apps import office
from tests.engine.offices import Clock, after

if TYPE_CHECKING:
    from continuations import Agent, Outcome
    from continuations_storage import Store
    from continuations_storage.faults import Moment
    from tests.engine.scripts import Script
    from tests.engine.world import World

SCRIPT: Script = {
    "go": [
        [["act", {"what": "1"}], ["left", {"input": "A"}], ["right", {"input": "B"}]],
        [["read", {"what": "2"}]],
        "end",
    ],
    "A": [[["act", {"what": "3"}], ["push", {"what": "4"}]], "A done"],
    "B": [[["clerk", {"input": "C"}]], "B done"],
    "C": [[["act", {"what": "5"}]], "C done"],
}
DONE = ["act 1", "act 3", "act 5", "push 4", "read 2"]
TURNS = ["A 0", "A 1", "B 0", "B 1", "C 0", "C 1", "go 0", "go 1", "go 2"]
MOMENTS: tuple[Moment, ...] = ("before", "after")


def always() -> bool:
    """There is no time at all."""
    return True


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    """Return the boss of the office."""
    monkeypatch.setenv("TEST_SCRIPT", json.dumps(SCRIPT))
    return office.agents()[0]


def markers(store: Store) -> list[str]:
    """Return the letters of all markers."""
    keys = asyncio.run(store.keys(layout.MARKERS))
    found = [layout.parse_marker(key) for key in keys]
    return [marker.letter for marker in found if marker is not None]


def ended(outcome: Outcome, world: World) -> None:
    """The run came to the end that it would have had; everything happened once."""
    assert isinstance(outcome, Finished)
    assert "end" == outcome.output
    assert sorted(world.done()) == DONE
    assert sorted(world.turns()) == TURNS


def test_a_run_that_may_stop_anywhere_ends_as_it_would_have(
    world: World, agent: Agent
) -> None:
    """R-F8, SL-14: paused after each step, gone on with by others; nothing twice."""
    store = MemoryStore()
    outcome = Runner(agent, store=store).start("go", run_id="r1", pause=after(1))
    pauses = 0
    while isinstance(outcome, Suspended):
        assert (True, ()) == (outcome.paused, outcome.waits)
        assert ["r"] == markers(store)
        pauses += 1
        assert pauses < 40
        version = outcome.continuation.version
        for too_few in (0, 1):
            runner = Runner(agent, store=store)
            again = runner.resume("r1", pause=after(too_few))
            assert version == again.continuation.version
        outcome = Runner(agent, store=store).resume("r1", pause=after(3))

    ended(outcome, world)
    assert [] == markers(store)
    assert pauses >= 6


@pytest.mark.parametrize("questions", range(1, 12))
def test_wherever_it_stops_a_sweep_of_another_process_goes_on(
    world: World, questions: int
) -> None:
    """R-F8, R-B1: in a fresh interpreter, that knows the store and nothing else."""
    told = world.do("start", "r1", "go", script=SCRIPT, pause_after=str(questions))
    swept = world.do("sweep", script=SCRIPT)

    if told["kind"] == "Suspended":
        assert told["paused"]
        (told,) = swept["resumed"]
    assert ("Finished", "end") == (told["kind"], told["output"])
    assert sorted(world.done()) == DONE
    assert sorted(world.turns()) == TURNS


def test_without_any_time_a_run_is_begun_and_nothing_is_asked(
    world: World, agent: Agent
) -> None:
    """And whoever resumes it without time writes nothing."""
    store = MemoryStore()
    runner = Runner(agent, store=store)
    outcome = runner.start("go", run_id="r1", pause=always)

    assert isinstance(outcome, Suspended)
    assert outcome.paused
    assert ([], [], ["r"]) == (world.turns(), world.done(), markers(store))

    watched = FaultyStore(store)
    again = Runner(agent, store=watched).resume("r1", pause=always)
    assert isinstance(again, Suspended)
    assert again.paused
    assert {"keys", "read"} == {each.verb for each in watched.operations}
    assert () == runner.sweep(pause=always).resumed

    (last,) = runner.sweep().resumed
    ended(last, world)


def test_what_was_begun_is_brought_to_its_end(world: World, agent: Agent) -> None:
    """R-F8, R-A6: no call that was begun is left without a result."""
    for questions in range(2, 12):
        store = MemoryStore()
        outcome = Runner(agent, store=store).start("go", pause=after(questions))
        calls = outcome.continuation.table.calls.values()
        states = {type(call.state).__name__ for call in calls}
        assert not states & {"Started", "Unknown"}, questions
    assert world.done()


def test_a_crash_while_it_stops_is_a_crash_like_any_other(
    world: World, agent: Agent
) -> None:
    """R-A3, R-E10: before or after every storage call; sweeps alone end the run."""
    for number in range(1, 60):
        for moment in MOMENTS:
            (world.folder / "effects").unlink(missing_ok=True)
            (world.folder / "turns").unlink(missing_ok=True)
            store, clock = MemoryStore(), Clock()
            Runner(agent, store=store, clock=clock).start(
                "go", run_id="r1", pause=after(1)
            )
            dying = FaultyStore(store, at(number, crashed(moment)))
            with suppress(Crash):
                Runner(agent, store=dying, clock=clock).resume("r1", pause=after(3))
            if not dying.dead:
                assert number > 6
                return
            runner = Runner(agent, store=store, clock=clock)
            for _ in range(3):
                clock.seconds += 120
                assert {} == runner.sweep().failed
            outcome = runner.resume("r1")
            assert isinstance(outcome, Finished), (number, moment)
            assert sorted(world.done()) == DONE
            assert [] == markers(store)


def test_a_suspension_that_waits_for_somebody_is_no_pause(world: World) -> None:
    told = world.start({"go": [[["pay", {"what": "x"}]], "end"]})

    assert ("Suspended", False) == (told["kind"], told["paused"])


def test_a_decision_that_comes_when_there_is_no_time_is_not_slept_on(
    world: World, agent: Agent
) -> None:
    """R-A3: it is told that the run can move, and its marker is due."""
    store = FileStore(world.folder / "store")
    script: Script = {"go": [[["pay", {"what": "x"}]], "end"]}
    world.approve(world.start(script)["waits"][0])

    outcome = Runner(agent, store=store).resume("r1", pause=always)

    assert isinstance(outcome, Suspended)
    assert outcome.paused
    assert [] == world.done()
    (told,) = world.do("sweep", script=script)["resumed"]
    assert ("Finished", ["pay x"]) == (told["kind"], world.done())
