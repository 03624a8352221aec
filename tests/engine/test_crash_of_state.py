"""A crash at any storage operation neither loses a change of a state nor repeats it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from continuations import Answer, Approve, Finished, Runner
from continuations.errors import RunNotFound
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.engine.state_agents import replayed, three_deep
from tests.scripts import call

if TYPE_CHECKING:
    from tests.run_environment import RunEnvironment

ONCE = [call("buy", cents=1), call("order", cents=2), call("buy", cents=4)]
REPEATED = [call("book", cents=1), call("book", cents=2), call("order", cents=4)]


def script_of(calls: list[Any]) -> dict[str, Any]:
    """Return a script in which two agents make the calls."""
    return {
        "go": [calls, [call("hr", input="below"), *calls], "end"],
        "below": [calls, "done"],
    }


def finish(runner: Runner, clock: ManualClock, *, answers: bool) -> None:
    """Sweep and decide until the run ends; answer unknown outcomes, or run again."""
    for _ in range(20):
        clock.seconds += 120
        assert {} == runner.sweep().errors
        for summary in list(runner.waiting()):
            wait = runner.wait(summary.id)
            is_answered = answers and wait.kind == "unknown"
            runner.decide(wait.id, Answer("it ran") if is_answered else Approve())
        if runner.look("r1").status == "finished":
            return
    raise AssertionError(list(runner.waiting()))


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("calls", [ONCE, REPEATED], ids=["once", "repeated"])
def test_crash_keeps_the_state_and_its_results_together(
    environment: RunEnvironment, moment: Any, calls: list[Any]
) -> None:
    """The state is the sum of the results that the model reads, no more and no less."""
    del environment  # it keeps the log of effects
    for point in every_crash(moment, more_than=12, step=4):
        clock = ManualClock()
        store = MemoryStore(clock.now)
        agent = three_deep(script_of(calls))
        with point.process(store) as dying:
            runner = Runner(agent, store=dying, clock=clock)
            outcome = runner.start("go", run_id="r1")
            while not isinstance(outcome, Finished):
                for wait in getattr(outcome, "waits", ()):
                    runner.decide(wait.id, Approve())
                outcome = runner.resume("r1")
        after = Runner(agent, store=store, clock=clock)
        with suppress(RunNotFound):
            finish(after, clock, answers=calls is ONCE)
        if "r1" not in [summary.run_id for summary in after.runs()]:
            after.start("go", run_id="r1")
            finish(after, clock, answers=calls is ONCE)

        root = after.look("r1").root
        spent = replayed(root.messages)
        assert spent == root.state.get("spent", 0)
        if calls is REPEATED:
            assert 14 == spent
        for _ in range(3):
            clock.seconds += 3600
            after.sweep()
        assert [] == remaining_keys(store)
