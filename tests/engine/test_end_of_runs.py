"""Functions that clean up at the end of a run, as the page about hooks shows them."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any, Literal

import pytest

from continuations import Agent, Approve, Finished, Runner, Suspended, tool
from continuations.errors import RunBusy, RunNotFound
from continuations.events import RunEnded, RunEvent
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests.clocks import ManualClock
from tests.outcomes import expect
from tests.sampling import sample

ENDED = {"finished", "failed", "cancelled"}


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


class Cleaner:
    """The two functions of the recipe; `at_once` and `later` count their calls."""

    def __init__(self) -> None:
        self.at_once: Counter[str] = Counter()
        self.later: Counter[str] = Counter()

    def on_event(self, event: RunEvent) -> None:
        """Clean up after a run that this process ends."""
        if isinstance(event, RunEnded):
            self.at_once[event.run_id] += 1

    def clean_up_the_rest(self, runner: Runner[Any]) -> None:
        """Clean up after runs that another process ended."""
        for run in runner.runs():
            done = self.at_once[run.run_id] + self.later[run.run_id]
            if run.status in ENDED and not done:
                self.later[run.run_id] += 1


def _runner(store: Store, clock: ManualClock, cleaner: Cleaner | None) -> Runner[Any]:
    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "Done."])
    agent = Agent("clerk", tools=[pay], model=model)
    on_event = None if cleaner is None else cleaner.on_event
    return Runner(agent, store=store, clock=clock, on_event=on_event)


def _run_to_end(runner: Runner[Any], clock: ManualClock) -> None:
    while True:
        try:
            outcome = runner.resume("r1")
        except RunNotFound:
            outcome = runner.start("go", run_id="r1")
        except RunBusy:
            clock.seconds += 31
            continue
        if not isinstance(outcome, Suspended):
            assert isinstance(outcome, Finished)
            return
        for wait in outcome.waits:
            runner.decide(wait.id, Approve(by="kim"))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_cleaning_up_survives_a_crash_at_every_storage_operation(
    moment: Literal["before", "after"],
) -> None:
    """At most once at the end, exactly once with the job, which looks first."""
    undisturbed = FaultyStore(MemoryStore())
    cleaner, clock = Cleaner(), ManualClock()
    _run_to_end(_runner(undisturbed, clock, cleaner), clock)
    assert ({"r1": 1}, {}) == (cleaner.at_once, cleaner.later)

    lost = 0
    for number in sample(range(1, len(undisturbed.operations) + 1), 1):
        cleaner, clock = Cleaner(), ManualClock()
        inner = MemoryStore(clock.now)
        dying = FaultyStore(inner, at(number, crashed(moment)))
        with pytest.raises(Crash):
            _run_to_end(_runner(dying, clock, cleaner), clock)
        # The work of the process that died stays done.
        other = _runner(inner, clock, cleaner)
        _run_to_end(other, clock)
        clock.seconds += 3600
        other.sweep()
        assert cleaner.at_once["r1"] <= 1
        lost += not cleaner.at_once["r1"]

        cleaner.clean_up_the_rest(other)
        cleaner.clean_up_the_rest(other)

        assert 1 == cleaner.at_once["r1"] + cleaner.later["r1"], number

    # The recipe needs its second function.
    assert bool(lost) == (moment == "after")


def test_the_job_cleans_up_after_runs_that_other_processes_end() -> None:
    """One is cancelled without agents, one ends in a process without the function."""
    store, cleaner, clock = MemoryStore(), Cleaner(), ManualClock()
    runner = _runner(store, clock, cleaner)
    runner.start("go", run_id="cancelled")
    Runner([], store=store, clock=clock).cancel("cancelled")
    _run_to_end(_runner(store, clock, None), clock)
    runner.start("go", run_id="waiting")
    assert not cleaner.at_once

    cleaner.clean_up_the_rest(runner)

    assert {"cancelled": 1, "r1": 1} == cleaner.later


def test_a_sweep_tells_of_the_run_that_it_ends() -> None:
    """The same function hears of it, in the process that sweeps."""
    store, cleaner, clock = MemoryStore(), Cleaner(), ManualClock()
    outcome = expect(_runner(store, clock, None).start("go", run_id="r1"), Suspended)
    Runner([], store=store, clock=clock).decide(outcome.waits[0].id, Approve())

    _runner(store, clock, cleaner).sweep()

    assert {"r1": 1} == cleaner.at_once


def test_a_failing_function_changes_no_run(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: RunEvent) -> None:
        raise LookupError(event.run_id)

    agent = Agent("clerk", model=ScriptedModel(["Done."]))
    with caplog.at_level(logging.ERROR):
        outcome = Runner(agent, store="memory:", on_event=fail).start("go")

    assert isinstance(outcome, Finished)
    assert "on_event raised" in caplog.text
