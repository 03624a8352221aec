"""Published events: each ends all waits that match it, and none is lost or doubled."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Finished,
    Outcome,
    Runner,
    Suspended,
    ask,
    tool,
    wait_for,
)
from continuations.core.rows import event_matching
from continuations.core.ulid import encode_ulid
from continuations.engine.sweep import event_sweep
from continuations.errors import InvalidInput, StoreUnavailable
from continuations.ledger.index import event_waiters
from continuations.ledger.objects import Objects
from continuations.tools import Tool, ToolWait
from continuations.wire.records import WAIT
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore, ForwardingStore, on, refused
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.outcomes import expect, single_wait
from tests.scripts import call, scripted_model

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
    return {
        "go": [*([call("price", article=a) for a in turn] for turn in turns), "end"]
    }


ONE = script(["tea"])


class Shop:
    """A store with a clock, and runners on it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock.now)

    def runner(
        self, turns: Any = ONE, price: Tool[..., Any] | None = None, store: Any = None
    ) -> Runner:
        agent = make_boss(turns, price or make_price())
        return Runner(agent, store=store or self.store, clock=self.clock)

    def keys(self, prefix: str) -> list[str]:
        return asyncio.run(self.store.keys(prefix))


@pytest.fixture
def shop() -> Shop:
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
        end = expect(runner.resume(run_id), Finished)
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
    runner.decide(single_wait(runner.resume("r")).id, Answer("no more"))
    assert ["1", "2", "3", "no more"] == results(runner.resume("r"))


def test_row_of_a_run_has_a_bounded_number_of_events() -> None:
    """An event that is not remembered any more is older than all that are."""
    ids = [encode_ulid(1_000 * number, bytes(10)) for number in range(1, 601)]
    taken: tuple[str, ...] = ()
    for number, event_id in enumerate(ids, 1):
        assert event_matching.may_take(taken, event_id)
        taken = event_matching.with_event(taken, event_id)
        assert len(taken) == min(number, event_matching.MAX_TAKEN)
        assert not any(event_matching.may_take(taken, each) for each in ids[:number])
    late = encode_ulid(1_000 * 590 + 1, bytes(10))
    assert event_matching.may_take(taken, late)
    assert not event_matching.may_take(taken, encode_ulid(1, bytes(10)))


def test_one_event_ends_two_waits_of_one_run(shop: Shop) -> None:
    """Both waits are open when the event comes."""
    runner = shop.runner(script(["tea", "tea"]))
    runner.start("go", run_id="r")
    assert ("r",) == runner.publish("price", 7, key="tea").run_ids
    assert ["7", "7"] == results(runner.resume("r"))


def test_a_wait_without_a_key_takes_events_without_a_key(shop: Shop) -> None:
    """A key is compared as a whole, also with no key."""
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
    first = expect(runner.start("go", run_id="r"), Suspended)
    published = runner.publish("price", "dear", key="tea")
    shop.clock.seconds += 3 * DAY
    wait = single_wait(runner.resume("r"))
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


def request_counts(store: FaultyStore) -> dict[str, int]:
    """Return how often each verb was asked; deletes are free, so they do not count."""
    verbs = [operation.verb for operation in store.operations]
    return {verb: verbs.count(verb) for verb in ("create", "read", "keys")}


def test_a_wait_for_an_event_costs_a_create_and_a_listing(shop: Shop) -> None:
    """The documented requests of a waiter, beyond those of a question."""

    @tool(idempotent=True)
    def price(article: str) -> ToolWait[Any]:
        """Ask a person for a price."""
        return ask(article)

    asking, waiting, finding = (FaultyStore(shop.store) for _ in range(3))
    shop.runner(ONE, price, asking).start("go", run_id="asks")
    shop.runner(store=waiting).start("go", run_id="waits")
    shop.runner().publish("price", 1, key="tea")
    shop.runner(store=finding).start("go", run_id="finds")
    asked, waited = request_counts(asking), request_counts(waiting)

    assert {"create": 1, "read": 0, "keys": 1} == {
        verb: waited[verb] - asked[verb] for verb in asked
    }
    found = [each for each in finding.operations if "/e-" in each.key]
    assert ["keys", "read"] == [each.verb for each in found]
    decided = [each for each in finding.operations if "/d-event" in each.key]
    assert ["create", "read"] == [each.verb for each in decided]


def test_a_publisher_makes_the_documented_requests(shop: Shop) -> None:
    """Three creates and a listing; then a read and two creates for each wait."""
    for number in range(3):
        shop.runner().start("go", run_id=f"r{number}")
    alone, for_waits, with_id = (FaultyStore(shop.store) for _ in range(3))
    shop.runner(store=for_waits).publish("price", 1, key="tea")
    shop.runner(store=alone).publish("price", 1, key="milk")
    shop.runner(store=with_id).publish("price", 1, key="milk", id="m-1")
    assert {"create": 3, "read": 0, "keys": 1} == request_counts(alone)
    assert {"create": 4, "read": 0, "keys": 1} == request_counts(with_id)
    expected = {"create": 3 + 2 * 3, "read": 1 * 3 + 1, "keys": 2}
    assert expected == request_counts(for_waits)


def test_a_thousand_waits_are_ended_with_bounded_concurrency(shop: Shop) -> None:
    """One listing of the waits for a thousand; at most 50 requests at a time."""
    runner = shop.runner()
    runner.start("go", run_id="r")
    [key] = [each for each in shop.keys("events/") if "/w-" in each]
    wait = WAIT.decode(asyncio.run(shop.store.read(key)), key, "r")

    async def add_waits() -> None:
        for number in range(1000):
            wait_id = wait.id.replace("@r", f"@r{number}")
            copy = replace(wait, id=wait_id, run_id=f"r{number}")
            await event_waiters.create(Objects(shop.store), [copy])

    asyncio.run(add_waits())
    counting = _CountingStore(shop.store)
    published = shop.runner(store=counting).publish("price", 1, key="tea")
    assert 1001 == len(published.run_ids)
    assert 1 < counting.most <= 50


class _CountingStore(ForwardingStore):
    """Counts the creates that are in progress at the same time."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self.in_progress = self.most = 0

    async def create(self, key: str, body: bytes) -> Any:
        self.in_progress += 1
        self.most = max(self.most, self.in_progress)
        try:
            await asyncio.sleep(0)
            return await super().create(key, body)
        finally:
            self.in_progress -= 1


def test_a_sweep_deletes_a_bounded_number_of_old_events(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later sweeps delete the rest, the oldest first."""
    monkeypatch.setattr(event_sweep, "MAX_DELETED_EVENTS", 2)
    runner = shop.runner()
    for number in range(5):
        runner.publish("price", number, key="tea")
        shop.clock.seconds += 1
    shop.clock.seconds += 3 * DAY
    left: list[int] = []
    for _ in range(3):
        runner.sweep()
        left.append(len(shop.keys("events/")))
    assert [3, 1, 0] == left


def test_a_wrong_clock_of_a_publisher_does_not_matter(shop: Shop) -> None:
    """The time of the store counts."""
    wrong = ManualClock()
    wrong.seconds = shop.clock.seconds - 40 * DAY
    Runner([], store=shop.store, clock=wrong).publish("price", 1, key="tea")
    assert isinstance(shop.runner().start("go", run_id="r"), Finished)
    assert 1 == len(shop.keys("markers/"))


def test_sweep_of_a_marker_with_a_wrong_time_keeps_the_id_of_the_event(
    shop: Shop,
) -> None:
    """A publisher died before it deleted the marker that its wrong clock had dated."""
    wrong = ManualClock()
    wrong.seconds = shop.clock.seconds + 40 * DAY
    dying = FaultyStore(shop.store, on("delete", refused(), prefix="markers/"))
    with pytest.raises(StoreUnavailable):
        Runner([], store=dying, clock=wrong).publish("price", 1, key="tea", id="p1")
    runner = shop.runner()
    first = runner.publish("price", 1, key="tea", id="p1")

    runner.sweep()
    shop.clock.seconds += 1

    assert first.id == runner.publish("price", 1, key="tea", id="p1").id
    shop.clock.seconds += 3 * DAY
    runner.sweep()
    assert [] == shop.keys("events/") + shop.keys("markers/")


def test_nested_agents_take_events(clock: ManualClock) -> None:
    """The waits of a sub-agent are found like those of the root agent."""
    store = MemoryStore(clock.now)
    model = scripted_model(
        {
            "go": [[call("clerk", input="A")], "end"],
            "A": [
                [call("price", article="tea")],
                [call("price", article="tea")],
                "done",
            ],
        }
    )
    clerk = Agent("clerk", tools=[make_price()], model=model)
    runner = Runner(Agent("boss", tools=[clerk], model=model), store=store, clock=clock)
    runner.start("go", run_id="r")
    assert ("r",) == runner.publish("price", 1, key="tea").run_ids
    runner.resume("r")
    assert ("r",) == runner.publish("price", 2, key="tea").run_ids
    assert isinstance(runner.resume("r"), Finished)


# Damaged or newer objects -----------------------------------------------------


class EditableMarket:
    """Runs that wait for one price, on a store whose objects a test replaces."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock.now)
        agent = make_boss(ONE, make_price())
        self.runner = Runner(agent, store=self.store, clock=self.clock)

    def keys(self, part: str) -> list[str]:
        """Return the keys under `events/` that contain a text."""
        return [key for key in asyncio.run(self.store.keys("events/")) if part in key]

    def read(self, key: str) -> bytes:
        return asyncio.run(self.store.read(key))

    def replace(self, key: str, body: bytes) -> None:
        """Replace an object, which only a test can do."""
        asyncio.run(self.store.delete(key))
        asyncio.run(self.store.create(key, body))


def newer(body: bytes) -> bytes:
    """Return the bytes of an object as a later release would write it."""
    from continuations.wire.envelope import object_digest  # noqa: PLC0415

    content = body[:4] + (99).to_bytes(2, "big") + body[6:-16]
    return content + object_digest(content)


def test_a_damaged_waiter_hides_no_event_from_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The publisher logs the key and goes on; the damaged run is decided by hand."""
    market = EditableMarket()
    for run_id in ("a", "b", "c"):
        market.runner.start("go", run_id=run_id)
    first, second, _ = market.keys("/w-")
    bodies = market.read(first), market.read(second)
    damaged = first.rpartition("@")[2], second.rpartition("@")[2]
    market.replace(first, bodies[0][:-1])
    market.replace(second, bodies[0])
    published = market.runner.publish("price", 1, key="tea")
    [left] = {"a", "b", "c"}.difference(damaged)
    assert (left,) == published.run_ids
    assert first in caplog.text
    assert second in caplog.text
    assert isinstance(market.runner.resume(left), Finished)


def test_a_publisher_leaves_a_newer_waiter_to_a_newer_release() -> None:
    """Its marker stays due, so that a sweep of the newer release ends the wait."""
    market = EditableMarket()
    market.runner.start("go", run_id="a")
    [key] = market.keys("/w-")
    body = market.read(key)
    market.replace(key, newer(body))
    assert () == market.runner.publish("price", 1, key="tea").run_ids
    market.runner.sweep()
    assert isinstance(market.runner.resume("a"), Suspended)

    market.replace(key, body)  # as the newer release reads it
    [end] = market.runner.sweep().resumed
    assert isinstance(end, Finished)


def test_a_damaged_event_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """A wait that would take it stays open, and its worker does not fail."""
    market = EditableMarket()
    market.runner.publish("price", 1, key="tea")
    market.runner.publish("price", 1, key="milk")
    for key in market.keys("/e-"):
        market.replace(key, market.read(key)[:-1])
    assert isinstance(market.runner.start("go", run_id="a"), Suspended)
    assert "is damaged" in caplog.text


def test_an_event_under_the_key_of_another_one_is_left_out() -> None:
    """Its name and key are compared with its place."""
    market = EditableMarket()
    market.runner.publish("price", 1, key="tea")
    market.runner.publish("price", 2, key="milk")
    first, second = market.keys("/e-")
    bodies = market.read(first), market.read(second)
    market.replace(first, bodies[1])
    market.replace(second, bodies[0])
    assert isinstance(market.runner.start("go", run_id="a"), Suspended)
