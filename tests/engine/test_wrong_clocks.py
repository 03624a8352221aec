"""Machines whose clocks are wrong by a year stop no other machine.

The store tells its time with each create, and some stores with each listing. That time
counts for deadlines, approvals and markers.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    ApprovalPolicy,
    Approve,
    ClockOff,
    Finished,
    RunBusy,
    Runner,
    Suspended,
    WaitExpired,
)
from continuations.ledger import doctor, layout
from continuations.ledger.objects import Objects
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, crashed, on
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.engine.payment_agent import PAY_SCRIPT, make_pay_tool, single_wait
from tests.ledger.fake_clock import make_ulid
from tests.stores import StoreWithListingTime

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations_storage import Store
    from tests.run_environment import RunEnvironment

YEAR = timedelta(days=365)
DAY_SECONDS = 86_400.0


class ShiftedClock:
    """The clock of a machine that is wrong by a fixed time."""

    def __init__(self, right: ManualClock, offset: timedelta) -> None:
        self._right = right
        self._offset = offset

    def now(self) -> datetime:
        """Return the wrong time."""
        return self._right.now() + self._offset

    def elapsed(self) -> float:
        """Return the seconds of a clock that counts rightly."""
        return self._right.elapsed()


class SharedStore:
    """A store with a right clock, and the machines that share it."""

    def __init__(self, make_store: Callable[[ManualClock], MemoryStore]) -> None:
        self.clock = ManualClock()
        self.store = make_store(self.clock)
        self.policy: Any = True

    def machine(
        self, offset: timedelta = timedelta(), store: Store | None = None
    ) -> Runner:
        """Return a runner of a machine whose clock is ahead by an offset."""
        return Runner(
            make_boss(PAY_SCRIPT, make_pay_tool(self.policy)),
            store=store or self.store,
            clock=ShiftedClock(self.clock, offset),
        )

    def suspend(self, run_id: str) -> str:
        """Start a run on a right machine; return the id of its wait."""
        return single_wait(self.machine().start("go", run_id=run_id)).id

    def abandon(self, run_id: str) -> None:
        """Start a run on a machine that dies while the model works."""
        dying = FaultyStore(
            self.store, on("create", crashed("before"), prefix="runs/", skip=1)
        )
        with pytest.raises(Crash):
            self.machine(store=dying).start("go", run_id=run_id)

    def markers(self) -> list[str]:
        """Return the keys of the markers."""
        return asyncio.run(self.store.keys(layout.MARKERS_PREFIX, limit=10_000))

    def due_times(self) -> list[float]:
        """Return the due times, in seconds of the clock."""
        start = ManualClock().now().timestamp()
        parsed = [layout.parse_marker(key) for key in self.markers()]
        return [each.due_ms / 1000 - start for each in parsed if each is not None]


def _store_with_create_time(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock.now)


@pytest.fixture(
    params=[_store_with_create_time, StoreWithListingTime], ids=["creates", "listings"]
)
def shared(request: pytest.FixtureRequest, environment: RunEnvironment) -> SharedStore:
    """Return a store that tells its time with creates, or also with listings."""
    del environment  # it sets the log of effects
    return SharedStore(request.param)


def runs_that_paid(environment: RunEnvironment) -> list[str]:
    """Return the run of each payment."""
    return [effect["run"] for effect in environment.effects()]


_wrong = pytest.mark.parametrize("offset", [YEAR, -YEAR], ids=["ahead", "behind"])


# Sweepers -----------------------------------------------------------------------------


@_wrong
def test_sweeper_with_a_wrong_clock_strands_no_run(
    shared: SharedStore, offset: timedelta, environment: RunEnvironment
) -> None:
    """A right sweep a few minutes later finishes everything."""
    decided = shared.suspend("decided")
    shared.machine().decide(decided, Approve())
    shared.abandon("abandoned")
    dying = FaultyStore(shared.store, on("create", crashed("before"), prefix="runs/"))
    with pytest.raises(Crash):
        shared.machine(store=dying).start("go", run_id="unborn")
    shared.clock.seconds = 60

    # When a wrong machine sweeps again and again
    wrong = shared.machine(offset)
    for _ in range(5):
        wrong.sweep()
        shared.clock.seconds += 120

    # Then every marker is due within a day, and a right machine ends the runs at once
    assert max(shared.due_times()) < shared.clock.seconds + DAY_SECONDS
    swept = shared.machine().sweep()
    assert {"decided": Finished, "abandoned": Suspended} == {
        outcome.run_id: type(outcome) for outcome in swept.resumed
    }
    assert ["decided"] == runs_that_paid(environment)


def test_nobody_dates_a_marker_later_after_clock_off(shared: SharedStore) -> None:
    """The clock of this machine says nothing about the run."""
    shared.machine().decide(shared.suspend("r1"), Approve())
    before = shared.markers()

    swept = shared.machine(YEAR).sweep()

    assert {"r1": ClockOff} == {key: type(e) for key, e in swept.errors.items()}
    assert before == shared.markers()


def test_machine_with_a_wrong_clock_leaves_the_run_alone_for_a_while(
    shared: SharedStore,
) -> None:
    """A loop that sweeps every second would ask the store for the run every second."""
    shared.machine().decide(shared.suspend("r1"), Approve())
    wrong = shared.machine(YEAR)
    looks: list[int] = []
    for _ in range(600):
        looks.append(wrong.sweep().runs_checked)
        shared.clock.seconds += 1

    # At 0, 60 and 180 seconds, and then 240 seconds later.
    assert 4 == sum(looks)


# Markers that a wrong clock dated too late --------------------------------------------


def _date(shared: SharedStore, later: timedelta) -> None:
    """Date all markers later, as a sweep of an earlier release did."""
    for key in shared.markers():
        marker = layout.parse_marker(key)
        assert marker is not None
        now_ms = int(shared.clock.now().timestamp() * 1000)
        due_ms = now_ms + int(later.total_seconds() * 1000)
        asyncio.run(shared.store.create(replace(marker, due_ms=due_ms).key, b""))
        asyncio.run(shared.store.delete(key))


@pytest.mark.parametrize("days", [2, 365, 3650, 80_000])
def test_marker_that_is_dated_absurdly_late_is_found(
    shared: SharedStore, days: int, environment: RunEnvironment
) -> None:
    """A run whose only marker is due next year would wait for a year."""
    shared.machine().decide(shared.suspend("decided"), Approve())
    shared.abandon("abandoned")
    _date(shared, timedelta(days=days))
    shared.clock.seconds = 60

    swept = shared.machine().sweep()

    assert {"decided", "abandoned"} == {each.run_id for each in swept.resumed}
    assert ["decided"] == runs_that_paid(environment)


def test_late_marker_is_found_behind_thousands_of_deadlines(
    shared: SharedStore, environment: RunEnvironment
) -> None:
    """Each look costs two listings, however many deadlines there are."""
    shared.machine().decide(shared.suspend("decided"), Approve())
    _date(shared, timedelta(days=365))
    for number in range(3000):
        due = shared.clock.now() + timedelta(days=2 + number / 100)
        ulid = make_ulid(number, shared.clock.now())
        marker = layout.Marker(int(due.timestamp() * 1000), "e", ulid, "n1", "other")
        asyncio.run(shared.store.create(marker.key, b""))

    listings: list[int] = []
    resumed: list[str] = []
    while not resumed and len(listings) < 30:
        counting = FaultyStore(shared.store)
        swept = shared.machine(store=counting).sweep()
        listings.append(
            sum(
                each.verb == "keys" and each.key == layout.MARKERS_PREFIX
                for each in counting.operations
            )
        )
        resumed = [outcome.run_id for outcome in swept.resumed]

    assert ["decided"] == resumed == runs_that_paid(environment)
    assert max(listings) <= 3
    assert 3000 == len(shared.markers())


def test_deadline_next_year_is_not_due_now(shared: SharedStore) -> None:
    """Only a deadline may be far away."""
    shared.policy = ApprovalPolicy(expires_after=timedelta(days=3650))
    shared.suspend("r1")
    before = shared.markers()

    assert 0 == shared.machine().sweep().runs_checked
    assert before == shared.markers()


# Deciders -----------------------------------------------------------------------------


@_wrong
def test_decision_of_a_machine_with_a_wrong_clock_is_due_now(
    shared: SharedStore, offset: timedelta, environment: RunEnvironment
) -> None:
    """Its marker and its time are right: a marker of a decision needs no clock."""
    wait = shared.suspend("r1")
    shared.clock.seconds = 5

    decision = shared.machine(offset).decide(wait, Approve())

    assert shared.clock.now() == decision.at
    [outcome] = shared.machine().sweep().resumed
    assert isinstance(outcome, Finished)
    assert ["r1"] == runs_that_paid(environment)


def test_slow_clock_allows_no_approval_after_the_deadline(
    shared: SharedStore, environment: RunEnvironment
) -> None:
    """The store's time counts; the refused decision leaves nothing behind."""
    shared.policy = ApprovalPolicy(expires_after=3600)
    wait = shared.suspend("r1")
    shared.clock.seconds = 3601
    before = shared.markers()

    with pytest.raises(WaitExpired):
        shared.machine(-YEAR).decide(wait, Approve())

    assert before == shared.markers()
    assert isinstance(shared.machine().resume("r1"), Finished)
    assert [] == runs_that_paid(environment)


def test_fast_clock_refuses_no_approval_before_the_deadline(
    shared: SharedStore, environment: RunEnvironment
) -> None:
    """A person who decides in time does not get `WaitExpired`."""
    shared.policy = ApprovalPolicy(expires_after=3600)
    wait = shared.suspend("r1")
    shared.clock.seconds = 3599

    shared.machine(YEAR).decide(wait, Approve())

    assert isinstance(shared.machine().resume("r1"), Finished)
    assert ["r1"] == runs_that_paid(environment)


@_wrong
def test_valid_for_counts_from_the_decision_by_the_stores_time(
    shared: SharedStore, offset: timedelta, environment: RunEnvironment
) -> None:
    """A decider's clock makes an approval neither longer nor shorter."""
    shared.policy = ApprovalPolicy(valid_for=60)
    shared.machine(offset).decide(shared.suspend("early"), Approve())
    late = shared.suspend("late")
    shared.machine(offset).decide(late, Approve())

    shared.clock.seconds = 59
    assert isinstance(shared.machine().resume("early"), Finished)
    shared.clock.seconds = 61
    reopened = single_wait(shared.machine().resume("late"))

    assert late != reopened.id
    assert ["early"] == runs_that_paid(environment)


# Doctors ------------------------------------------------------------------------------


def test_doctor_with_a_fast_clock_does_not_repair_a_run_that_is_worked_on(
    shared: SharedStore,
) -> None:
    """The claim lasts by the store's time."""
    shared.abandon("r1")
    key = layout.version_key("r1", 1)
    asyncio.run(_damage_by_a_second_version(shared, key))
    before = asyncio.run(shared.store.keys(""))
    clock = ShiftedClock(shared.clock, YEAR)

    with pytest.raises(RunBusy):
        asyncio.run(
            doctor.repair(
                Objects(shared.store),
                "r1",
                now=clock.now(),
                new_ulid=lambda: make_ulid(9, clock.now()),
            )
        )

    assert before == asyncio.run(shared.store.keys(""))


async def _damage_by_a_second_version(shared: SharedStore, key: str) -> None:
    body = await shared.store.read(key)
    await shared.store.create(layout.version_key("r1", 2), body[:-1] + b"x")
