"""Published events: each ends all waits that match it, and none is lost or doubled."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Answer,
    Finished,
    InvalidInput,
    Runner,
    Suspended,
    Tool,
    ToolWait,
    tool,
    wait_for,
)
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.scripts import call

if TYPE_CHECKING:
    from continuations import Outcome

DAY = 24 * 3600.0


def make_price(type_: Any = None, **options: Any) -> Tool[..., Any]:
    """Return a tool that waits for the event `price` of an article."""

    @tool(idempotent=True)
    def price(article: str) -> ToolWait[Any]:
        """Wait for the price of an article; "" is no article."""
        effect_log.append_effect("price", article)
        return wait_for("price", type_, key=article or None, **options)

    return price


def script(*turns: list[str]) -> Any:
    """Return a script with the articles whose price each turn asks for."""
    return {"go": [*([call("price", article=a) for a in turn] for turn in turns), "end"]}


ONE = script(["tea"])


class Shop:
    """A store with a clock, and runners on it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock.now)

    def runner(
        self, turns: Any = ONE, price: Tool[..., Any] | None = None, store: Any = None
    ) -> Runner:
        """Return a new runner, as a new process has it."""
        agent = make_boss(turns, price or make_price())
        return Runner(agent, store=store or self.store, clock=self.clock)

    def keys(self, prefix: str) -> list[str]:
        """Return the keys with a prefix."""
        return asyncio.run(self.store.keys(prefix))


@pytest.fixture
def shop() -> Shop:
    """Return a shop of its own."""
    return Shop()


def results(outcome: Outcome) -> list[Any]:
    """Return the results of the tools of the root agent."""
    return list(root_tool_results(outcome))


def test_an_event_ends_all_waits_that_match_it(shop: Shop) -> None:
    """Two runs wait for one event, and a third one for another key."""
    runner = shop.runner()
    other = shop.runner(script(["milk"]))
    for run_id in ("a", "b"):
        assert isinstance(runner.start("go", run_id=run_id), Suspended)
    assert isinstance(other.start("go", run_id="c"), Suspended)

    published = runner.publish("price", {"cents": 5}, key="tea", by="market")

    assert ("a", "b") == published.run_ids
    for run_id in ("a", "b"):
        end = runner.resume(run_id)
        assert isinstance(end, Finished)
        assert ['{"cents":5}'] == results(end)
    assert isinstance(other.resume("c"), Suspended)


def test_a_late_wait_takes_an_event_of_the_last_24_hours(shop: Shop) -> None:
    """After that, the wait stays open."""
    runner = shop.runner()
    runner.publish("price", 1, key="tea")
    shop.clock.seconds += DAY - 60
    assert isinstance(runner.start("go", run_id="early"), Finished)
    shop.clock.seconds += 120
    assert isinstance(runner.start("go", run_id="late"), Suspended)


def test_each_wait_takes_the_oldest_event_that_its_run_has_not_taken(
    shop: Shop,
) -> None:
    """Three waits in a row take three events in their order, and no event twice."""
    runner = shop.runner(script(["tea"], ["tea"], ["tea"], ["tea"]))
    for price in (1, 2):
        runner.publish("price", price, key="tea")
        shop.clock.seconds += 1
    assert isinstance(runner.start("go", run_id="r"), Suspended)
    runner.publish("price", 3, key="tea")
    suspended = runner.resume("r")
    assert isinstance(suspended, Suspended)
    runner.decide(suspended.waits[0].id, Answer("no more"))
    assert ["1", "2", "3", "no more"] == results(runner.resume("r"))


def test_one_event_ends_two_waits_of_one_run(shop: Shop) -> None:
    """Both waits are open when the event comes."""
    runner = shop.runner(script(["tea", "tea"]))
    runner.start("go", run_id="r")
    assert ("r",) == runner.publish("price", 7, key="tea").run_ids
    assert ["7", "7"] == results(runner.resume("r"))


def test_a_wait_without_a_key_takes_events_without_a_key(shop: Shop) -> None:
    """A key is compared as a whole; an event without a key has none."""
    runner = shop.runner(script([""]))
    runner.start("go", run_id="r")
    assert () == runner.publish("price", 1, key="tea").run_ids
    assert ("r",) == runner.publish("price", 2).run_ids


@pytest.mark.parametrize("key", ["a/b", "ü\n", "\0", "x" * 5000, " a ", "@..~"])
def test_any_text_is_a_key(shop: Shop, key: str) -> None:
    """Keys of the store have a bounded length."""
    runner = shop.runner(script([key]))
    runner.start("go", run_id="r")
    assert ("r",) == runner.publish("price", 1, key=key).run_ids
    assert all(len(each) < 400 for each in shop.keys(""))


def test_an_id_names_one_event(shop: Shop) -> None:
    """A repeated call publishes nothing, and other data is refused."""
    runner = shop.runner(script(["tea"], ["tea"]))
    first = runner.publish("price", 1, key="tea", id="m-1")
    shop.clock.seconds += 5
    assert first.id == runner.publish("price", 1, key="tea", id="m-1", by="other").id
    with pytest.raises(InvalidInput, match="other data"):
        runner.publish("price", 2, key="tea", id="m-1")
    assert first.id != runner.publish("price", 1, key="milk", id="m-1").id
    suspended = runner.start("go", run_id="r")
    assert isinstance(suspended, Suspended), "the second wait takes no second event"
    runner.decide(suspended.waits[0].id, Answer("none"))
    assert ["1", "none"] == results(runner.resume("r"))
    assert [] == shop.keys("markers/0000000000000-p")


def test_data_of_a_wrong_type_opens_the_wait_again(shop: Shop) -> None:
    """The event is used up; the wait keeps its deadline and takes the next event."""
    price = make_price(int, within=timedelta(days=9))
    runner = shop.runner(ONE, price)
    first = runner.start("go", run_id="r")
    assert isinstance(first, Suspended)
    published = runner.publish("price", "dear", key="tea")
    shop.clock.seconds += 3 * DAY
    again = runner.resume("r")
    assert isinstance(again, Suspended)
    [wait] = again.waits
    assert f"Event {published.id} does not fit" in (wait.note or "")
    assert first.waits[0].deadline == wait.deadline
    runner.publish("price", 4, key="tea")
    assert ["4"] == results(runner.resume("r"))


def test_an_event_after_the_deadline_does_not_end_the_wait(shop: Shop) -> None:
    """The deadline does, also if no sweep has recorded it yet."""
    runner = shop.runner(ONE, make_price(within=60))
    runner.start("go", run_id="r")
    shop.clock.seconds += 61
    assert () == runner.publish("price", 1, key="tea").run_ids
    assert "did not come in time" in results(runner.resume("r"))[0]


def test_a_wait_with_a_key_can_still_get_a_signal(shop: Shop) -> None:
    """The first of both ends the wait; the event stays for a later wait."""
    runner = shop.runner(script(["tea"], ["tea"]))
    runner.start("go", run_id="r")
    runner.signal("r", "price", "by signal")
    assert isinstance(runner.resume("r"), Suspended)
    runner.publish("price", "by event", key="tea")
    assert ["by signal", "by event"] == results(runner.resume("r"))


def test_nothing_is_left_after_the_end(shop: Shop) -> None:
    """The index of a run goes with its waits, and an event after two days."""
    runner = shop.runner()
    runner.start("go", run_id="r")
    assert 1 == len([key for key in shop.keys("events/") if "/w-" in key])
    runner.publish("price", 1, key="tea", id="m-1")
    runner.resume("r")
    assert [] == [key for key in shop.keys("events/") if "/w-" in key]
    assert 2 == len(shop.keys("events/"))
    assert 1 == len(shop.keys("markers/"))
    shop.clock.seconds += 2 * DAY - 60
    runner.sweep()
    assert 2 == len(shop.keys("events/"))
    shop.clock.seconds += 120
    runner.sweep()
    assert [] == shop.keys("events/") + shop.keys("markers/")


def test_a_cancelled_run_is_found_by_no_publisher(shop: Shop) -> None:
    """Its wait leaves the index with the last version."""
    runner = shop.runner()
    runner.start("go", run_id="r")
    runner.cancel("r")
    assert [] == shop.keys("events/")
    assert () == runner.publish("price", 1, key="tea").run_ids
