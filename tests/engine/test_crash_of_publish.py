"""A crash at every storage operation of publishers, waiters and sweeps.

Each run takes each event once, in their order, and nothing stays in the store.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import pytest

from continuations import Finished, Runner
from continuations.errors import RunBusy, RunNotFound
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.engine.test_publish import DAY, make_price, script
from tests.sampling import sample
from tests.scripts import call

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations_storage import Store

ONE_AFTER_ANOTHER = script(["tea"], ["tea"])
NESTED: Any = {
    "go": [[call("clerk", input="A")], "end"],
    "A": [[call("price", article="tea")], [call("price", article="tea")], "done"],
}


class Market:
    """Two runs, and a publisher of two prices; every step may be repeated."""

    def __init__(self, inner: MemoryStore, store: Store, clock: ManualClock) -> None:
        self.inner = inner
        self.clock = clock
        agent = make_boss(ONE_AFTER_ANOTHER, make_price())
        self.runner = Runner(agent, store=store, clock=clock)

    def work(self, run_id: str) -> None:
        """Start or resume a run."""
        for _ in range(20):
            try:
                self.runner.resume(run_id)
            except RunNotFound:
                with suppress(RunBusy):
                    self.runner.start("go", run_id=run_id)
            except RunBusy:
                self.clock.seconds += 61
                continue
            return
        raise AssertionError

    def trade(self) -> None:
        """Let a run wait before the events, and one after them."""
        self.work("early")
        for price in (1, 2):
            self.clock.seconds += 1
            self.runner.publish("price", price, key="tea", id=f"m-{price}")
        self.work("early")
        self.work("late")

    def prices(self, run_id: str) -> list[Any]:
        """Return the prices that a run got."""
        outcome = self.runner.resume(run_id)
        assert isinstance(outcome, Finished)
        return list(root_tool_results(outcome))

    def left(self) -> list[str]:
        """Return the keys that must not stay."""
        keys = asyncio.run(self.inner.keys(""))
        kept = ("runs/", "probe/", "index/ended/")
        return [key for key in keys if not key.startswith(kept)]

    def let_time_pass(self) -> None:
        """Publish once more, and sweep now and then for some days.

        A worker may die between the index of a wait and its version. The publisher
        deletes the index.
        """
        self.runner.publish("price", 3, key="tea")
        for hours in (1, 1, 1, 48, 1):
            self.clock.seconds += 3600 * hours
            self.runner.sweep()


def new_market(rule: Callable[[Any], Any] | None = None) -> tuple[Market, FaultyStore]:
    """Return a market, and its store that fails by a rule."""
    clock = ManualClock()
    inner = MemoryStore(clock.now)
    faulty = FaultyStore(inner, rule) if rule is not None else FaultyStore(inner)
    return Market(inner, faulty, clock), faulty


@pytest.mark.parametrize("sweeps", [False, True])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_every_operation_loses_and_doubles_no_event(
    moment: Literal["before", "after"], *, sweeps: bool
) -> None:
    """Also if only a sweep follows the crash."""
    market, undisturbed = new_market()
    market.trade()
    count = len(undisturbed.operations)
    deaths = 0
    numbers = sample(range(1, count + 1), 8, (moment == "after") + 2 * sweeps)
    for number in numbers:
        market, dying = new_market(at(number, crashed(moment)))
        with suppress(Crash):
            market.trade()
        deaths += dying.has_crashed
        where = f"{moment} {number}: {dying.operations[-1]}"

        market = Market(market.inner, market.inner, market.clock)
        if sweeps:
            market.clock.seconds += 61
            market.runner.sweep()
        market.trade()

        assert ["1", "2"] == market.prices("early"), where
        assert ["1", "2"] == market.prices("late"), where
        market.let_time_pass()
        assert [] == market.left(), where
    assert deaths > len(numbers) // 2


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_sweep_finishes_what_a_dead_publisher_began(
    moment: Literal["before", "after"],
) -> None:
    """No process publishes again: the event is for all runs, or for none."""
    for number in range(1, 30):
        market, _ = new_market()
        market.work("a")
        market.work("b")
        dying = FaultyStore(market.inner, at(number, crashed(moment)))
        publisher = Runner([], store=dying, clock=market.clock)
        with suppress(Crash):
            publisher.publish("price", 1, key="tea")
        where = f"{moment} {number}: {dying.operations[-1]}"

        market.clock.seconds += 61
        market.runner.sweep()

        versions = [market.runner.look(run_id).run_state for run_id in ("a", "b")]
        taken = [state.run.events_taken for state in versions]
        assert taken[0] == taken[1], where
        exists = [key for key in market.left() if "/e-" in key]
        assert len(exists) == len(taken[0]), where
        market.runner.cancel("a")
        market.runner.cancel("b")
        market.let_time_pass()
        assert [] == market.left(), where
        if not dying.has_crashed:
            assert number > 15
            return
    pytest.fail("the publisher did not end")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_sweep_that_dies_loses_no_event(moment: Literal["before", "after"]) -> None:
    """A sweep finishes a publication, and dies at each of its operations."""
    for number in sample(range(1, 60), 3, moment == "after"):
        market, _ = new_market()
        market.work("a")
        dying = FaultyStore(market.inner, at(3, crashed("before")))
        publisher = Runner([], store=dying, clock=market.clock)
        with suppress(Crash):
            publisher.publish("price", 1, key="tea")
        assert dying.has_crashed
        sweeping = FaultyStore(market.inner, at(number, crashed(moment)))
        with suppress(Crash):
            Market(market.inner, sweeping, market.clock).runner.sweep()
        where = f"{moment} {number}: {sweeping.operations[-1]}"

        for _ in range(2):
            market.clock.seconds += 61
            market.runner.sweep()

        assert 1 == len(market.runner.look("a").run_state.run.events_taken), where
        market.runner.cancel("a")
        market.let_time_pass()
        assert [] == market.left(), where
        if not sweeping.has_crashed:
            assert number > 15
            return
    pytest.fail("the sweep did not end")


def test_a_dead_sweep_of_old_events_is_repeated() -> None:
    """Event, id and marker go in this order."""
    for number in range(1, 20):
        market, _ = new_market()
        market.runner.publish("price", 1, key="tea", id="m-1")
        market.clock.seconds += 3 * DAY
        sweeping = FaultyStore(market.inner, at(number, crashed("before")))
        with suppress(Crash):
            Market(market.inner, sweeping, market.clock).runner.sweep()
        market.runner.sweep()
        assert [] == market.left()
        if not sweeping.has_crashed:
            assert number > 3
            return
    pytest.fail("the sweep did not end")


def test_nested_agents_take_events() -> None:
    """The waits of a sub-agent are found like those of the root agent."""
    from continuations import Agent  # noqa: PLC0415
    from tests.scripts import scripted_model  # noqa: PLC0415

    clock = ManualClock()
    store = MemoryStore(clock.now)
    model = scripted_model(NESTED)
    clerk = Agent("clerk", tools=[make_price()], model=model)
    runner = Runner(Agent("boss", tools=[clerk], model=model), store=store, clock=clock)
    runner.start("go", run_id="r")
    assert ("r",) == runner.publish("price", 1, key="tea").run_ids
    runner.resume("r")
    assert ("r",) == runner.publish("price", 2, key="tea").run_ids
    assert isinstance(runner.resume("r"), Finished)
