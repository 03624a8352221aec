"""Stores that are down, refuse to clean up, or tell their time in whole seconds."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta

import pytest

from continuations import Answer, Approve, Finished, Runner, Suspended, tool
from continuations.errors import ClockOff, InvalidInput, StoreUnavailable
from continuations.ledger import layout
from continuations_storage import MemoryStore
from continuations_storage.errors import Denied, Inconclusive, Throttled
from continuations_storage.faults import (
    Fault,
    FaultyStore,
    Operation,
    at,
    lost_reply,
    no_faults,
    on,
    refused,
)
from continuations_storage.retries import RetryPolicy
from continuations_storage.s3 import S3Store
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.engine.agent_builders import text_tool
from tests.engine.payment_agent import make_payment_runner, start_and_get_wait
from tests.outcomes import expect
from tests.scripts import Script, call
from tests.storage import ministack
from tests.storage.outages import (
    DRIVERS,
    OUTAGE_KINDS,
    Driver,
    Outage,
    OutageKind,
    open_s3,
)
from tests.storage.s3_proxy import FakeS3, S3Proxy
from tests.stores import OneByOneStore

SCRIPT: Script = {"go": [[call("pay")], "end"]}


class StoreDown:
    """A store that fails for some seconds after a tool has run.

    Attributes:
        clock: The clock of the runner; a pause between two tries moves it.
        paid: How often the tool ran.
        runner: A runner whose store fails.
        healthy: A runner of another process, whose store does not fail.
    """

    def __init__(self, fault: Fault, *, seconds: float) -> None:
        self.clock = ManualClock()
        self.paid = 0
        self._fault, self._seconds = fault, seconds
        self._until = 0.0
        inner = MemoryStore(self.clock.now)
        self.store = FaultyStore(inner, self._plan)

        @tool
        def pay() -> str:
            """Pay; the store goes down meanwhile."""
            self.paid += 1
            self._until = self.clock.seconds + self._seconds
            return "paid"

        self.runner = agent_builders.make_runner(
            SCRIPT, pay, store=self.store, clock=self.clock
        )
        self.healthy = agent_builders.make_runner(
            SCRIPT, pay, store=inner, clock=self.clock
        )

    def _plan(self, _: Operation) -> Fault | None:
        return self._fault if self.clock.seconds < self._until else None


@pytest.mark.parametrize(
    "fault",
    [refused(), refused(Throttled), refused(Inconclusive), lost_reply()],
    ids=["unavailable", "slow_down", "lost_request", "lost_reply"],
)
def test_outage_of_10_seconds_loses_no_result(fault: Fault) -> None:
    """The result is committed until the claim ends, so the call is not unknown."""
    outage = StoreDown(fault, seconds=10)

    outcome = expect(outage.runner.start("go", run_id="r1"), Finished)

    assert (1, ["paid"]) == (outage.paid, agent_builders.root_tool_results(outcome))
    assert 10 <= outage.clock.seconds < 12


def test_outage_that_outlives_the_claim_is_reported() -> None:
    """Then the error is raised, and the outcome of the call is unknown."""
    outage = StoreDown(refused(), seconds=40)

    with pytest.raises(StoreUnavailable):
        outage.runner.start("go", run_id="r1")

    assert 29 <= outage.clock.seconds <= 30
    outage.clock.seconds = 60
    outcome = expect(outage.healthy.resume("r1"), Suspended)
    assert ["unknown"] == [wait.kind for wait in outcome.waits]
    outage.healthy.decide(outcome.waits[0].id, Answer("paid"))
    assert isinstance(outage.healthy.resume("r1"), Finished)
    assert 1 == outage.paid


@pytest.mark.parametrize("error", [Denied, Throttled])
def test_unreadable_cancel_request_does_not_fail_a_commit(
    error: type[Denied], caplog: pytest.LogCaptureFixture
) -> None:
    """The key of the next request of an operator is read beside each commit."""
    unreadable = on(
        "read",
        refused(error),
        prefix=layout.numbered_key(layout.OPERATOR_REQUEST, "r1", 1),
    )
    outage = StoreDown(refused(), seconds=0)
    outage.store.plan = unreadable

    assert isinstance(outage.runner.start("go", run_id="r1"), Finished)

    assert 1 == outage.paid
    assert 1 == sum("were not read" in each.message for each in caplog.records)


# Clean-up ---------------------------------------------------------------------------


def test_denied_deletes_do_not_hide_the_outcome(
    caplog: pytest.LogCaptureFixture, clock: ManualClock
) -> None:
    """The outcome is stored; the errors of the clean-up are one line in the log."""
    inner = MemoryStore(clock.now)
    store = FaultyStore(inner)
    runner = make_payment_runner(store=store, clock=clock)
    wait = start_and_get_wait(runner)
    store.plan = on("delete", refused(Denied), times=1000)

    runner.decide(wait.id, Approve(by="kim"))
    with caplog.at_level(logging.WARNING):
        outcome = runner.resume("r1")

    assert isinstance(outcome, Finished)
    left = [each.message for each in caplog.records if "deleted" in each.message]
    assert 1 == len(left), left
    assert "r1" in left[0]

    # And a sweep with the right to delete removes what is left.
    store.plan = no_faults
    clock.seconds += 60
    runner.sweep()
    keys = asyncio.run(inner.keys("waits/")) + asyncio.run(inner.keys("markers/"))
    assert [] == keys


def test_denied_deletes_do_not_hide_a_suspension(clock: ManualClock) -> None:
    """Also of a run that waits, and whose guard marker stays."""
    store = FaultyStore(
        MemoryStore(clock.now), on("delete", refused(Denied), times=1000)
    )

    outcome = make_payment_runner(store=store, clock=clock).start("go", run_id="r1")

    assert isinstance(outcome, Suspended)
    deleted = [each.key for each in store.operations if each.verb == "delete"]
    assert deleted
    assert deleted == asyncio.run(store.keys("markers/"))


def test_failed_look_at_arrivals_does_not_hide_a_suspension(clock: ManualClock) -> None:
    """The markers stay, so a sweep looks again."""
    inner = MemoryStore(clock.now)
    store = FaultyStore(inner, at(8, refused()))

    outcome = make_payment_runner(store=store, clock=clock).start("go", run_id="r1")

    assert isinstance(outcome, Suspended)
    assert "keys" == store.operations[7].verb
    assert [] != asyncio.run(inner.keys("markers/"))
    clock.seconds += 60
    make_payment_runner(store=inner, clock=clock).sweep()
    assert [] == asyncio.run(inner.keys("markers/"))


# Buckets ----------------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("kind", OUTAGE_KINDS)
@pytest.mark.parametrize("seconds", [5, 10])
def test_outage_while_a_tool_returns_loses_no_result(
    monkeypatch: pytest.MonkeyPatch, driver: Driver, kind: OutageKind, seconds: int
) -> None:
    """The paid call does not become unknown: its commit is tried by time."""
    for name, value in ministack.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    clock, paid = ManualClock(), list[float]()
    outage = Outage(kind, seconds, clock.elapsed)
    policy = RetryPolicy(clock=clock.elapsed, sleep=clock.sleep)

    @tool
    def pay() -> str:
        """Pay; the bucket is not reachable for some seconds after that."""
        paid.append(clock.seconds)
        outage.begin()
        return "paid"

    with S3Proxy(FakeS3(now=clock.now), outage) as proxy:
        outcome = agent_builders.make_runner(
            SCRIPT, pay, store=open_s3(proxy, driver, policy), clock=clock
        ).start("go")

    assert isinstance(outcome, Finished)
    assert (1, ["paid"]) == (len(paid), agent_builders.root_tool_results(outcome))
    assert outage.failed
    assert outage.is_over


# Time in whole seconds --------------------------------------------------------


TIMED_SCRIPT: Script = {"go": [[call("act", what="x")], "end"]}
act = text_tool("act", "done", {"what": str}, logs=True)


class StoreOfWholeSeconds(OneByOneStore):
    """A store that rounds its time down to whole seconds."""

    time_resolution = timedelta(seconds=1)

    def __init__(self, clock: ManualClock) -> None:
        def now() -> datetime:
            return clock.now().replace(microsecond=0)

        super().__init__(now)


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_right_clock_works_with_the_shortest_claim(
    *, fraction: float, is_wrapped: bool
) -> None:
    """A claim of three seconds is enough, in whichever part of a second it begins."""
    clock = ManualClock(fraction)
    store = StoreOfWholeSeconds(clock)
    runner = agent_builders.make_runner(
        TIMED_SCRIPT,
        act,
        store=FaultyStore(store) if is_wrapped else store,
        clock=clock,
        lease=3,
    )

    outcome = expect(runner.start("go", run_id="r1"), Finished)

    assert ["done"] == agent_builders.root_tool_results(outcome)
    assert ["act x"] == effect_log.names()


def test_wrong_clock_is_still_noticed() -> None:
    """The rounding excuses less than one second."""
    clock, true_clock = ManualClock(1.76), ManualClock(0.0)
    runner = agent_builders.make_runner(
        TIMED_SCRIPT, act, store=StoreOfWholeSeconds(true_clock), clock=clock, lease=3
    )

    with pytest.raises(ClockOff):
        runner.start("go", run_id="r1")
    assert [] == effect_log.names()


@pytest.mark.parametrize("lease", [0.1, 1, 2.99])
def test_lease_that_a_store_cannot_carry_is_rejected_by_the_runner(
    lease: float,
) -> None:
    """The error names the shortest lease of the store."""
    with pytest.raises(InvalidInput, match=r"lease must be at least 3 seconds"):
        Runner([], store=S3Store("bucket"), lease=lease)
    Runner([], store=MemoryStore(), lease=lease)
