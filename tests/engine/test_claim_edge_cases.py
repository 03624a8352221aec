"""Claims at their limits: slow stores, wrong clocks and faster competitors."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime

import pytest

from continuations import (
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    ContinuationsError,
    Failed,
    Finished,
    Runner,
    Suspended,
)
from continuations.errors import Cancelled, ClockOff, StoreUnavailable
from continuations.ledger import claims, layout, markers
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.claims import Lease
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.results import Decision
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, crashed, on
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.engine.payment_agent import make_payment_runner, start_and_get_wait
from tests.ledger.interleaving import InterleavingStore
from tests.outcomes import expect
from tests.run_environment import RunEnvironment
from tests.scripts import Script
from tests.stores import OneByOneStore, StoreWithListingTime

SCRIPT: Script = {"go": ["end"]}


class SlowStore(OneByOneStore):
    """A store whose creates take twelve seconds, and that may tell its time."""

    def __init__(self, clock: ManualClock, *, tells_time: bool) -> None:
        super().__init__(clock.now if tells_time else None)
        self._time = clock

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Create the object, and take 12 seconds."""
        store_time = await super().create(key, body)
        self._time.seconds += 12
        return store_time


def test_slow_store_without_time_keeps_the_rest_of_the_claim(
    environment: RunEnvironment, clock: ManualClock
) -> None:
    """18 of 30 s are left, more than the half that a call needs."""
    store = SlowStore(clock, tells_time=False)

    outcome = agent_builders.make_runner(SCRIPT, store=store, clock=clock).start("go")

    assert isinstance(outcome, Finished)
    assert ["go 0"] == environment.turns()


def test_slow_store_with_time_is_too_slow_for_a_claim(
    environment: RunEnvironment, clock: ManualClock
) -> None:
    """The store gave its time in a 12 s request: the clocks may differ by 12 s."""
    store = SlowStore(clock, tells_time=True)

    with pytest.raises(StoreUnavailable, match="too slow"):
        agent_builders.make_runner(SCRIPT, store=store, clock=clock).start("go")

    assert [] == environment.turns()


def test_second_worker_leaves_no_marker_and_asks_no_model(
    environment: RunEnvironment,
) -> None:
    """A worker that loses the race for a claim deletes its guard marker."""
    for number in range(1, 20):
        # Given two processes that start one run, the second before some request
        store, clock = MemoryStore(), ManualClock()
        agent = agent_builders.make_boss(SCRIPT)
        other = AsyncRunner(agent, store=store, clock=clock)

        async def interfere(other: AsyncRunner = other) -> None:
            with suppress(ContinuationsError):
                await other.start("go", run_id="r1")

        interleaved = InterleavingStore(store, number, interfere)
        turns = len(environment.turns())

        # When it has ended
        outcome = agent_builders.make_runner(
            SCRIPT, store=interleaved, clock=clock
        ).start("go", run_id="r1")

        # Then the model was asked once, and no marker is left
        assert isinstance(outcome, Finished), number
        assert turns + 1 == len(environment.turns()), number
        assert [] == asyncio.run(store.keys("markers/")), number
        if interleaved.request_count < number:
            assert number > 5
            return
    pytest.fail("it was never left alone")


def store_with_time(clock: ManualClock, *, in_listings: bool) -> MemoryStore:
    """Return a store that tells its time with its creates, or with listings too."""
    return StoreWithListingTime(clock) if in_listings else MemoryStore(clock.now)


@pytest.mark.parametrize("seconds", [-60, 60])
@pytest.mark.parametrize("listings", [False, True])
def test_worker_with_a_wrong_clock_closes_no_wait(
    clock: ManualClock, *, listings: bool, seconds: int
) -> None:
    """It writes nothing, also if the run was cancelled."""
    # Given a cancel request whose process died right after recording it
    store = store_with_time(clock, in_listings=listings)
    runner = make_payment_runner(store=store, clock=clock)
    wait = start_and_get_wait(runner)
    cancel_requested = on(
        "create", crashed("after"), prefix=layout.cancel_request_key("r1")
    )
    with pytest.raises(Crash):
        Runner([], store=FaultyStore(store, cancel_requested), clock=clock).cancel("r1")
    before = asyncio.run(store.keys(""))

    # When a worker with a wrong clock resumes the run
    off = ManualClock()
    off.seconds = clock.seconds + seconds
    with pytest.raises(ClockOff):
        make_payment_runner(store=store, clock=off).resume("r1")

    # Then the store is unchanged
    assert before == asyncio.run(store.keys(""))

    # And a worker with a correct clock ends the run
    assert isinstance(runner.resume("r1"), Failed)
    with pytest.raises(Cancelled):
        runner.decide(wait.id, Approve())


@pytest.mark.parametrize("listings", [False, True])
def test_a_worker_whose_clock_is_ahead_expires_no_wait(*, listings: bool) -> None:
    """A deadline that has passed only by a wrong clock has not passed."""
    # Given a wait with a minute left, and a worker whose clock is two minutes ahead
    clock, ahead = ManualClock(), ManualClock()
    store = store_with_time(clock, in_listings=listings)
    policy = ApprovalPolicy(expires_after=60)
    runner = make_payment_runner(policy, store=store, clock=clock)
    wait = start_and_get_wait(runner)
    before = asyncio.run(store.keys(""))
    ahead.seconds = clock.seconds + 120

    # When it resumes the run
    with pytest.raises(ClockOff):
        make_payment_runner(policy, store=store, clock=ahead).resume("r1")

    # Then nothing was written, and the wait can still be approved
    assert before == asyncio.run(store.keys(""))
    runner.decide(wait.id, Approve())
    assert isinstance(runner.resume("r1"), Finished)


@pytest.mark.parametrize("seconds", [-60, 60])
def test_cancel_with_a_wrong_clock_closes_no_wait(seconds: int) -> None:
    """The cancel request is stored; a process with a correct clock carries it out."""
    clock, off = ManualClock(), ManualClock()
    store = MemoryStore(clock.now)
    runner = make_payment_runner(store=store, clock=clock)
    wait = start_and_get_wait(runner)
    off.seconds = clock.seconds + seconds

    with pytest.raises(ClockOff):
        Runner([], store=store, clock=off).cancel("r1", reason="Enough.")

    assert asyncio.run(read_decision(Objects(store), wait.id)) is None
    assert "suspended" == runner.look("r1").status
    outcome = expect(runner.resume("r1"), Failed)
    assert "Enough." == outcome.error.message


@pytest.mark.parametrize("listings", [False, True])
def test_every_version_names_the_marker_that_guards_it(*, listings: bool) -> None:
    """The plain header names the markers, so that erasing a run needs no keys."""
    clock = ManualClock()
    store = store_with_time(clock, in_listings=listings)
    runner = make_payment_runner(store=store, clock=clock)
    made = expect(runner.decide(start_and_get_wait(runner).id, Approve()), Decision)
    before = runner.look("r1").version
    last = runner.resume("r1").continuation.version

    versions = Versions(Objects(store), "r1")
    for number in range(1, last + 1):
        named = asyncio.run(versions.load(number)).marker_keys
        assert 1 == len(named), number
        # The decision's marker is used if the store's listing gives the time.
        serves = listings and number > before
        assert serves == (named == (made.marker,)), number


def test_claim_of_a_worker_that_died_before_its_release_is_released() -> None:
    """Nothing is planned: the run only waits. The newest version says so after that."""
    clock = ManualClock()
    store = MemoryStore(clock.now)
    runner = make_payment_runner(store=store, clock=clock)
    wait = start_and_get_wait(runner)

    async def renew_and_die() -> None:
        objects = Objects(store)
        versions = Versions(objects, "r1")
        loaded = await versions.load_newest()
        lease = Lease.start_now(clock, 30)
        guard = markers.guard("r1", loaded.number + 1, lease.until, "0" * 26)
        await markers.create(objects, guard)
        state = claims.claimed(loaded.state, worker="dead", lease=lease, attempt=1)
        keys = (guard.key,)
        await versions.append(loaded, state, at=clock.now(), marker_keys=keys)
        await objects.delete(layout.wait_key(wait.id))

    asyncio.run(renew_and_die())
    clock.seconds += 31

    assert isinstance(runner.resume("r1"), Suspended)

    newest = runner.look("r1")
    assert ("suspended", None) == (newest.status, newest.run_state.run.claim)
    assert [wait.id] == [each.id for each in runner.waiting()]
    assert [] == asyncio.run(store.keys("markers/"))
    version = newest.version
    assert isinstance(runner.resume("r1"), Suspended)
    assert version == runner.look("r1").version
