"""A store whose listings tell the time: fewer requests, the same promises."""

from __future__ import annotations

import asyncio

import pytest

from continuations import Answer, Approve, Finished, Outcome, Runner, Suspended, tool
from continuations.errors import ClockOff
from continuations_storage import Store
from continuations_storage.faults import FaultyStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine import agent_builders
from tests.scripts import Script, call
from tests.stores import StoreWithListingTime

SCRIPT: Script = {"go": [[call("pay", what="x")], "end"]}


def make_payment_runner(store: Store, clock: ManualClock, paid: list[str]) -> Runner:
    """Return a runner whose one tool needs a yes."""

    @tool(approval=True)
    def pay(what: str) -> str:
        """Pay."""
        paid.append(what)
        return "paid"

    return agent_builders.make_runner(SCRIPT, pay, store=store, clock=clock)


def start_and_approve(store: Store, clock: ManualClock, paid: list[str]) -> None:
    """Start a run and have it approved, in processes of their own."""
    outcome = make_payment_runner(store, clock, paid).start("go", run_id="r1")
    assert isinstance(outcome, Suspended)
    Runner([], store=store, clock=clock).decide(outcome.waits[0].id, Approve(by="kim"))


def request_counts(store: FaultyStore) -> dict[str, int]:
    """Return how often each verb was asked; deletes are free, so they do not count."""
    verbs = [operation.verb for operation in store.operations]
    return {verb: verbs.count(verb) for verb in ("create", "read", "keys")}


def test_approval_cycle_has_the_documented_request_counts() -> None:
    """At most 15 requests from the suspension to the end, and a key for its day."""
    clock, paid = ManualClock(), list[str]()
    inner = StoreWithListingTime(clock)
    starting, deciding, resuming = (FaultyStore(inner) for _ in range(3))

    outcome = make_payment_runner(starting, clock, paid).start("go", run_id="r1")
    assert isinstance(outcome, Suspended)
    clerk = Runner([], store=deciding, clock=clock)
    clerk.decide(outcome.waits[0].id, Approve(by="kim"))
    assert isinstance(make_payment_runner(resuming, clock, paid).resume("r1"), Finished)

    # A marker, version 1, the key of a live run, the suspended version, its wait; a
    # listing after the claim and one after the suspension.
    assert {"create": 5, "read": 0, "keys": 2} == request_counts(starting)
    # The wait; a marker, the decision.
    assert {"create": 2, "read": 1, "keys": 0} == request_counts(deciding)
    # The listing, the version, the decision; the claim, the listing; the result and a
    # read of the cancel request; the look at the inbox. The end and the key of its day.
    assert {"create": 4, "read": 3, "keys": 3} == request_counts(resuming)


def test_wrong_clock_is_detected_by_the_first_listing() -> None:
    """Nothing is written, and nothing runs."""
    clock, paid = ManualClock(), list[str]()
    store = StoreWithListingTime(clock)
    start_and_approve(store, clock, paid)
    for seconds in (-60, 60):
        off = ManualClock()
        off.seconds = clock.seconds + seconds
        watched = FaultyStore(store)

        with pytest.raises(ClockOff):
            make_payment_runner(watched, off, paid).resume("r1")

        assert {"create": 0, "read": 2, "keys": 1} == request_counts(watched)
    assert [] == paid
    assert isinstance(make_payment_runner(store, clock, paid).resume("r1"), Finished)


def test_sweeps_alone_finish_a_run_after_a_crash_at_every_operation() -> None:
    """Also where no guard marker was created."""
    for point in every_crash("before", "after", more_than=9):
        clock, paid = ManualClock(), list[str]()
        store = StoreWithListingTime(clock)
        start_and_approve(store, clock, paid)
        with point.process(store) as dying:
            make_payment_runner(dying, clock, paid).resume("r1")

        ended = sweep_to_end(store, clock, paid)

        assert isinstance(ended, Finished), point
        assert ["x"] == paid, point


def sweep_to_end(store: Store, clock: ManualClock, paid: list[str]) -> Outcome:
    """Only sweep; answer an unknown outcome truthfully."""
    for _ in range(4):
        clock.seconds += 120
        make_payment_runner(store, clock, paid).sweep()
        clerk = Runner([], store=store, clock=clock)
        for summary in list(clerk.waiting()):
            verdict = Answer("paid", by="kim") if paid else Approve(by="kim")
            clerk.decide(summary.id, verdict)
    assert [] == asyncio.run(store.keys("waits/"))
    assert [] == asyncio.run(store.keys("markers/"))
    return make_payment_runner(store, clock, paid).resume("r1")
