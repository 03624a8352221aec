"""Machines whose clocks are wrong by a year stop no other machine.

The store tells its time with each create, and some stores with each listing. That time
counts for deadlines, approvals and markers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Finished,
    Grant,
    Suspended,
    Wait,
    external,
)
from continuations.attachments import File
from continuations.errors import ClockOff, RunBusy, WaitExpired
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair import doctor
from continuations.ledger.versions import Versions
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import ToolWait
from continuations_storage.errors import Denied, NotFound
from continuations_storage.faults import (
    Crash,
    FaultyStore,
    ForwardingStore,
    crashed,
    on,
    refused,
)
from tests import effect_log
from tests.clocks import ShiftedClock
from tests.engine.agent_builders import root_tool_results, wait_tool
from tests.engine.shared_store import SharedStore, store_with_create_time
from tests.ledger.fake_clock import make_ulid
from tests.outcomes import expect, present, single_wait
from tests.run_environment import RunEnvironment
from tests.stores import StoreWithListingTime

YEAR = timedelta(days=365)
DAY_SECONDS = 86_400.0


@pytest.fixture(
    params=[store_with_create_time, StoreWithListingTime], ids=["creates", "listings"]
)
def shared(request: pytest.FixtureRequest, environment: RunEnvironment) -> SharedStore:
    """Return a store that tells its time with creates, or also with listings."""
    del environment  # it sets the log of effects
    return SharedStore(request.param)


def runs_that_paid(environment: RunEnvironment) -> list[str]:
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


def _decided(shared: SharedStore) -> None:
    shared.machine().decide(shared.suspend("r1"), Approve())


def _after_its_deadline(shared: SharedStore) -> None:
    shared.policy = ApprovalPolicy(expires_after=3600)
    shared.suspend("r1")
    shared.clock.seconds = 3602


def _abandoned(shared: SharedStore) -> None:
    shared.abandon("r1")
    shared.clock.seconds = 32


_due = pytest.mark.parametrize("make_due", [_decided, _after_its_deadline, _abandoned])


@_due
@_wrong
def test_machine_that_learns_the_time_from_listings_says_that_its_clock_is_wrong(
    offset: timedelta,
    make_due: Callable[[SharedStore], None],
) -> None:
    """Until it looks again, the run costs no request."""
    shared = SharedStore(StoreWithListingTime)
    make_due(shared)
    counting = FaultyStore(shared.store)
    wrong = shared.machine(offset, counting)
    looks: list[int] = []
    for _ in range(600):
        counting.operations.clear()
        swept = wrong.sweep()
        looks.append(swept.runs_checked)
        if swept.runs_checked:
            assert {"r1": ClockOff} == {k: type(e) for k, e in swept.errors.items()}
        else:
            assert ["keys"] == [each.verb for each in counting.operations]
        shared.clock.seconds += 1

    # At 0, 60 and 180 seconds, and then 240 seconds later.
    assert 4 == sum(looks)
    assert [] == effect_log.effects()
    [outcome] = shared.machine().sweep().resumed
    assert "r1" == outcome.run_id


@_due
@pytest.mark.parametrize("seconds", [-5, 5])
def test_clock_that_is_a_little_wrong_stops_no_run(
    seconds: int,
    make_due: Callable[[SharedStore], None],
) -> None:
    """Claims and deadlines end by the store's time."""
    shared = SharedStore(StoreWithListingTime)
    make_due(shared)

    [outcome] = shared.machine(timedelta(seconds=seconds)).sweep().resumed

    assert (Suspended if make_due is _abandoned else Finished) is type(outcome)
    assert len(effect_log.effects()) == (make_due is _decided)


def test_resume_tells_that_the_clock_is_wrong_and_not_that_the_run_is_busy() -> None:
    """Its claim ended hours ago."""
    shared = SharedStore(StoreWithListingTime)
    _abandoned(shared)
    shared.clock.seconds = 7200

    with pytest.raises(ClockOff, match=r"31536000\.0 s"):
        shared.machine(-YEAR).resume("r1")


def test_resume_asks_for_the_time_if_a_claim_seems_to_last_for_days() -> None:
    """The claim ended hours ago; this store tells its time only with creates."""
    shared = SharedStore(store_with_create_time)
    _abandoned(shared)
    shared.clock.seconds = 7200
    before = shared.markers()

    with pytest.raises(ClockOff, match=r"31536000\.0 s"):
        shared.machine(-YEAR).resume("r1")

    assert before == shared.markers()


def test_run_that_works_is_busy_for_a_machine_with_a_slow_clock() -> None:
    """Both clocks say so."""
    shared = SharedStore(StoreWithListingTime)
    shared.abandon("r1")
    shared.clock.seconds = 20

    with pytest.raises(RunBusy):
        shared.machine(-YEAR).resume("r1")


# Markers that a wrong clock dated too late --------------------------------------------


def _date(shared: SharedStore, later: timedelta) -> None:
    """Date all markers later, as a sweep that trusts a wrong clock would."""
    for key in shared.markers():
        marker = present(layout.parse_marker(key))
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


@pytest.mark.parametrize("days", [2, 180, 364])
def test_new_process_with_a_fast_clock_finds_a_marker_that_is_dated_late(
    days: int,
) -> None:
    """Its clock is wrong until the store's first reply; a cron job begins like that."""
    shared = SharedStore(StoreWithListingTime)
    shared.machine().decide(shared.suspend("decided"), Approve())
    shared.abandon("abandoned")
    _date(shared, timedelta(days=days))

    shared.machine(YEAR).sweep()

    assert max(shared.due_times()) < DAY_SECONDS


def test_late_marker_is_found_behind_thousands_of_deadlines(
    shared: SharedStore, environment: RunEnvironment
) -> None:
    """Each look costs two listings, however many deadlines there are."""
    shared.machine().decide(shared.suspend("decided"), Approve())
    _date(shared, timedelta(days=365))

    async def open_deadlines() -> None:
        for number in range(3000):
            due = shared.clock.now() + timedelta(days=2 + number / 100)
            ulid = make_ulid(number, shared.clock.now())
            at = int(due.timestamp() * 1000)
            marker = layout.Marker(at, "e", ulid, "n1", "other")
            await shared.store.create(marker.key, b"")

    asyncio.run(open_deadlines())

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


# What is deleted or ended by its age --------------------------------------------------


@pytest.mark.parametrize("dry_run", [False, True], ids=["erase", "dry run"])
def test_prune_with_a_fast_clock_erases_no_run_that_ended_just_now(
    shared: SharedStore, *, dry_run: bool
) -> None:
    """It asks the store for its time before it decides."""
    _end(shared, "young")
    shared.clock.seconds = 1
    before = shared.keys("")

    pruned = shared.machine(YEAR).prune(older_than=timedelta(days=90), dry_run=dry_run)

    assert ((), {}) == (pruned.run_ids, pruned.errors)
    assert before == shared.keys("")


@_wrong
def test_prune_with_a_wrong_clock_erases_the_runs_that_are_old(
    shared: SharedStore, offset: timedelta
) -> None:
    """Their age counts by the store's time."""
    _end(shared, "old")
    shared.clock.seconds = 91 * DAY_SECONDS
    _end(shared, "young")

    pruned = shared.machine(offset).prune(older_than=timedelta(days=90))

    assert (("old",), {}) == (pruned.run_ids, pruned.errors)
    assert "finished" == shared.machine().look("young").status


def _end(shared: SharedStore, run_id: str) -> None:
    shared.machine().decide(shared.suspend(run_id), Approve())
    assert isinstance(shared.machine().resume(run_id), Finished)


def test_sweeper_with_a_fast_clock_reminds_nobody_too_early(
    shared: SharedStore,
) -> None:
    """The reminders come at their times, from a right machine, each of them once."""
    shared.policy = ApprovalPolicy(remind_after=3600)
    shared.suspend("r1")
    told: list[Wait] = []
    wrong = shared.machine(YEAR, notify=told.append)
    for _ in range(3):
        wrong.sweep()
    assert [] == told

    right = shared.machine(notify=told.append)
    for hour in (1, 2, 3):
        shared.clock.seconds = 3600 * hour + 1
        right.sweep()
        wrong.sweep()

    assert ["reminder-1", "reminder-2", "reminder-3"] == [each.notice for each in told]


def test_sweeper_with_a_fast_clock_deletes_no_event_although_its_deletes_fail(
    shared: SharedStore,
) -> None:
    """The object that it creates to learn the time stays, and comes in its way."""
    event = shared.machine().publish("paid", 1)
    failing = FaultyStore(
        shared.store, on("delete", refused(Denied), prefix=layout.MARKERS_PREFIX)
    )
    shared.machine(YEAR, store=failing).sweep()

    for _ in range(3):
        shared.machine(YEAR).sweep()

    assert [event.id] == [
        key.rpartition("/e-")[2] for key in shared.keys("events/") if "/e-" in key
    ]
    shared.clock.seconds = 3 * DAY_SECONDS
    for _ in range(3):
        shared.machine().sweep()
    assert [] == shared.keys("events/", "markers/")


class _LosesProbes(ForwardingStore):
    """Another sweep deletes each marker before this store tells its time."""

    async def create(self, key: str, body: bytes) -> datetime | None:
        await super().create(key, body)
        return None

    async def created_at(self, key: str) -> datetime | None:
        await self.inner.delete(key)
        raise NotFound(key)


def test_sweeper_that_cannot_learn_the_time_deletes_no_event(
    shared: SharedStore,
) -> None:
    event = shared.machine().publish("paid", 1)

    shared.machine(YEAR, store=_LosesProbes(shared.store)).sweep()

    assert [event.id] == [
        key.rpartition("/e-")[2] for key in shared.keys("events/") if "/e-" in key
    ]


def test_sweeper_with_a_fast_clock_deletes_no_attachment_of_a_start_in_progress(
    shared: SharedStore,
) -> None:
    """The starting process has stored the attachment, and is about to store the run."""
    dying = FaultyStore(
        shared.store,
        on("create", crashed("before"), prefix=layout.versions_prefix("r1")),
    )
    with pytest.raises(Crash):
        shared.machine(store=dying).start(
            ["Read this.", File(b"a file", "text/plain", "a.txt")], run_id="r1"
        )
    before = shared.keys("runs/")
    assert 1 == len(before)
    for key in shared.markers():
        marker = present(layout.parse_marker(key))
        looked_at = replace(marker, due_ms=1, suffix=f"{marker.suffix[:8]}11")
        asyncio.run(shared.store.create(looked_at.key, b""))
        asyncio.run(shared.store.delete(key))

    shared.machine(YEAR).sweep()

    assert before == shared.keys("runs/")


def test_grant_is_revoked_by_a_machine_with_a_fast_clock(shared: SharedStore) -> None:
    """The grant has ended by that clock, and not by the store's."""
    wait = shared.suspend("r1")
    until = shared.clock.now() + timedelta(days=1)
    shared.machine().decide(wait, Approve(remember=Grant("pay", until=until)))
    [grant] = shared.machine().grants("r1")

    shared.machine(YEAR).revoke("r1", grant.id, by="kim")

    assert [True] == [each.revoked for each in shared.machine().grants("r1")]


def test_grant_is_listed_on_a_machine_with_a_fast_clock(shared: SharedStore) -> None:
    """It has ended by that clock, and a person needs its id to revoke it."""
    wait = shared.suspend("r1")
    until = shared.clock.now() + timedelta(days=1)
    shared.machine().decide(wait, Approve(remember=Grant("pay", until=until)))

    assert 1 == len(shared.machine(YEAR).grants("r1"))
    shared.clock.seconds += 2 * DAY_SECONDS
    assert [] == shared.machine(YEAR).grants("r1")
    assert [] == shared.machine().grants("r1")


def test_grant_that_may_have_ended_is_listed_without_the_right_to_write(
    shared: SharedStore,
) -> None:
    """A process that only reads cannot ask a store for its time with a create."""
    wait = shared.suspend("r1")
    until = shared.clock.now() + timedelta(days=1)
    shared.machine().decide(wait, Approve(remember=Grant("pay", until=until)))
    denied = FaultyStore(shared.store, on("create", refused(Denied)))

    assert 1 == len(shared.machine(YEAR, store=denied).grants("r1"))


@_wrong
def test_job_that_is_waited_for_again_does_not_expire_by_a_wrong_clock(
    shared: SharedStore, offset: timedelta
) -> None:
    """The id of the next wait follows from the first one, in each process."""
    scan = wait_tool("scan", lambda: external("scan", within=60), ToolWait[Any])

    @scan.on_answer
    def scanned(answer: str) -> str:
        return answer

    model = ScriptedModel([ToolCall("scan"), "end"])
    boss = Agent("boss", tools=[scan], model=model)
    first = single_wait(shared.machine(agents=boss).start("go", run_id="r1"))
    shared.machine(agents=[]).decide(first.id, Answer(9))

    with suppress(ClockOff):
        shared.machine(offset, agents=boss).resume("r1")
    again = single_wait(shared.machine(agents=boss).resume("r1"))

    assert "external" == again.kind
    shared.machine(agents=[]).decide(again.id, Answer("7 pages"))
    ended = expect(shared.machine(agents=boss).resume("r1"), Finished)
    assert ["7 pages"] == root_tool_results(ended)


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


@_wrong
def test_doctor_with_a_wrong_clock_repairs_a_run_after_its_claim(
    shared: SharedStore, offset: timedelta
) -> None:
    """The claim lasts by the store's time, and so does the time of the repair."""
    shared.abandon("r1")
    asyncio.run(_damage_by_a_second_version(shared, layout.version_key("r1", 1)))
    shared.clock.seconds = 32
    clock = ShiftedClock(shared.clock, offset)

    repaired = asyncio.run(
        doctor.repair(
            Objects(shared.store),
            "r1",
            now=clock.now(),
            new_ulid=lambda: make_ulid(9, clock.now()),
        )
    )

    header = present(asyncio.run(Versions(Objects(shared.store), "r1").newest_header()))
    assert ("suspended", 3) == (header.status, repaired.number)
    assert shared.clock.now() == header.at


async def _damage_by_a_second_version(shared: SharedStore, key: str) -> None:
    body = await shared.store.read(key)
    await shared.store.create(layout.version_key("r1", 2), body[:-1] + b"x")
