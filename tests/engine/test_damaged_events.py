"""A damaged or newer object under `events/` hides no event from other waits."""

from __future__ import annotations

import asyncio

import pytest

from continuations import Finished, Runner, Suspended
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.engine.test_publish import ONE, make_price


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
