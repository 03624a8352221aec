"""A signal with an id is found by its key, and a crash neither loses nor doubles it."""

from __future__ import annotations

import asyncio

import pytest

from continuations import Agent, Finished, Runner, tool, wait_for
from continuations.errors import Corrupt
from continuations.ledger import layout
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.wire.arrivals import SIGNAL_ID, FirstNumber
from continuations_storage import MemoryStore, Store
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.test_thread_cost import CountingStore


@tool
def receive() -> object:
    """Wait for the signal."""
    return wait_for("paid")


def _runner(store: Store) -> Runner:
    model = ScriptedModel([ToolCall("receive"), "done"])
    agent = Agent("clerk", tools=[receive], model=model)
    return Runner(agent, store=store, clock=ManualClock())


def _signal_keys(store: MemoryStore) -> list[str]:
    return asyncio.run(store.keys(layout.signals_prefix("r")))


def test_the_hundredth_signal_with_an_id_costs_what_the_second_does() -> None:
    """Neither a new signal nor a repeat reads the earlier ones.

    A repeat reads the signal that it finds.
    """
    store = CountingStore()
    runner = _runner(store)
    runner.start("go", run_id="r")
    costs: dict[int, int] = {}
    for number in range(1, 101):
        store.reset()
        assert number == runner.signal("r", f"n{number}", id=f"s{number}")
        costs[number] = store.requests["read"]
    assert costs[100] <= costs[2] <= costs[1] + 1
    for number in (1, 50, 100):
        store.reset()
        assert number == runner.signal("r", f"n{number}", id=f"s{number}")
        assert store.requests["read"] <= costs[2] + 1


def test_a_crash_at_every_operation_leaves_one_signal_after_a_repeat() -> None:
    """The key of the id comes first; another signal may take its number."""
    for point in every_crash("before", "after", more_than=3):
        store = MemoryStore(ManualClock().now)
        _runner(store).start("go", run_id="r")
        with point.process(store) as dying:
            _runner(dying).signal("r", "paid", 1, id="a")
        _runner(store).signal("r", "other", 2, id="b")
        first = _runner(store).signal("r", "paid", 1, id="a")
        assert first == _runner(store).signal("r", "paid", 1, id="a"), point
        assert 2 == len(_signal_keys(store)), point
        assert isinstance(_runner(store).resume("r"), Finished), point


def test_a_damaged_key_of_an_id_posts_nothing() -> None:
    """A key that names a number far away would make a gap."""
    store = MemoryStore(ManualClock().now)
    runner = _runner(store)
    runner.start("go", run_id="r")
    key = layout.signal_id_key("r", "id:a")
    asyncio.run(store.create(key, SIGNAL_ID.encode(FirstNumber(7), "r")))

    with pytest.raises(Corrupt, match="at least number 7, and run r has 0 signals"):
        runner.signal("r", "paid", id="a")
    assert [] == _signal_keys(store)
