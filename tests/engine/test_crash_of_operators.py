"""A process dies at each storage operation of a pause, `unpause` or cancellation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from continuations import Approve, Finished, Runner, Suspended
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.test_request_cost import make_payment_runner
from tests.stores import StoreWithListingTime

if TYPE_CHECKING:
    from continuations_storage import Store


def clerk(store: Store, clock: ManualClock) -> Runner:
    """Return a runner without agents."""
    return Runner([], store=store, clock=clock)


def test_pause_and_unpause_survive_a_crash_at_every_operation() -> None:
    """A repeat completes each of them; the approved call runs once, after both."""
    for point in every_crash("before", "after", more_than=5):
        clock, paid = ManualClock(), list[str]()
        store = StoreWithListingTime(clock)
        outcome = make_payment_runner(store, clock, paid).start("go", run_id="r1")
        assert isinstance(outcome, Suspended)
        with point.process(store) as dying:
            clerk(dying, clock).pause("r1", reason="audit")
            clerk(dying, clock).unpause("r1")
        clerk(store, clock).pause("r1", reason="audit")
        clerk(store, clock).decide(outcome.waits[0].id, Approve(by="kim"))
        for _ in range(2):
            clock.seconds += 120
            make_payment_runner(store, clock, paid).sweep()
        assert [] == paid, point
        # The marker of a request that was never stored may be left.
        left = asyncio.run(store.keys("markers/"))
        assert all("-o-" in key for key in left), point

        clerk(store, clock).unpause("r1")
        make_payment_runner(store, clock, paid).sweep()
        ended = make_payment_runner(store, clock, paid).resume("r1")
        assert isinstance(ended, Finished), point
        assert ["x"] == paid, point


def test_cancel_of_a_call_survives_a_crash_at_every_operation() -> None:
    """If the request is stored, sweeps alone complete it; the call never runs."""
    for point in every_crash("before", "after", more_than=5):
        clock, paid = ManualClock(), list[str]()
        store = StoreWithListingTime(clock)
        outcome = make_payment_runner(store, clock, paid).start("go", run_id="r1")
        assert isinstance(outcome, Suspended)
        with point.process(store) as dying:
            clerk(dying, clock).cancel("r1", call=outcome.waits[0].call_id)
        asked = asyncio.run(store.keys("runs/r1/in/o-"))
        for _ in range(2):
            clock.seconds += 120
            make_payment_runner(store, clock, paid).sweep()
        result = make_payment_runner(store, clock, paid).resume("r1")
        assert isinstance(result, Finished) == bool(asked), point
        assert [] == paid, point
        if asked:
            assert [] == asyncio.run(store.keys("markers/")), point
            assert [] == asyncio.run(store.keys("waits/")), point
