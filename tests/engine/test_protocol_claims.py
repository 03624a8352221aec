"""Claims in the narrow places: a slow store, and somebody else who was faster."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from continuations import (
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Cancelled,
    ClockOff,
    ContinuationsError,
    Failed,
    Finished,
    Runner,
    StoreUnavailable,
)
from continuations.ledger import layout
from continuations.ledger.arrivals import read_decision
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, crashed, on
from tests.engine import offices
from tests.engine.offices import Clock
from tests.engine.payers import office, waiting
from tests.engine.test_one_look import Bucket
from tests.ledger.visits import VisitedStore

if TYPE_CHECKING:
    from datetime import datetime

    from tests.engine.scripts import Script
    from tests.engine.world import World

SCRIPT: Script = {"go": ["end"]}


class Slow(MemoryStore):
    """A store whose creates take twelve seconds, and that may tell its time."""

    def __init__(self, clock: Clock, *, tells: bool) -> None:
        super().__init__(clock.now if tells else None)
        self._time = clock

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body, and take long to say so."""
        told = await super().create(key, body)
        self._time.seconds += 12
        return told


def test_a_slow_store_that_tells_no_time_leaves_a_claim_as_long_as_it_is(
    world: World,
) -> None:
    """Section 5 "Claim": 18 of 30 s are left, more than the half that a call needs."""
    clock = Clock()
    store = Slow(clock, tells=False)

    outcome = offices.runner(SCRIPT, store=store, clock=clock).start("go")

    assert isinstance(outcome, Finished)
    assert ["go 0"] == world.turns()


def test_what_a_slow_store_tells_of_our_clock_is_worth_less(world: World) -> None:
    """R-A12: somewhere in twelve seconds it was that time, so nothing is begun."""
    clock = Clock()
    store = Slow(clock, tells=True)

    with pytest.raises(StoreUnavailable, match="too slow"):
        offices.runner(SCRIPT, store=store, clock=clock).start("go")

    assert [] == world.turns()


def test_who_comes_second_leaves_no_marker_and_asks_nothing(world: World) -> None:
    """R-A5, R-E9: the guard of a claim that was never taken guards nothing."""
    for number in range(1, 20):
        # Given a start that another process begins as well, right before a request
        store, clock = MemoryStore(), Clock()
        agent = offices.boss(SCRIPT)
        other = AsyncRunner(agent, store=store, clock=clock)

        async def comes(other: AsyncRunner = other) -> None:
            with suppress(ContinuationsError):
                await other.start("go", run_id="r1")

        visited = VisitedStore(store, number, comes)
        turns = len(world.turns())

        # When it has come to its end
        outcome = offices.runner(SCRIPT, store=visited, clock=clock).start(
            "go", run_id="r1"
        )

        # Then the model was asked once, and nothing is left to be looked at
        assert isinstance(outcome, Finished), number
        assert turns + 1 == len(world.turns()), number
        assert [] == asyncio.run(store.keys("markers/")), number
        if visited.requests < number:
            assert number > 5
            return
    pytest.fail("it was never left alone")


def telling(clock: Clock, *, listings: bool) -> MemoryStore:
    """Return a store that tells its time with its creates, or with listings too."""
    return Bucket(clock) if listings else MemoryStore(clock.now)


@pytest.mark.parametrize("seconds", [-60, 60])
@pytest.mark.parametrize("listings", [False, True])
def test_a_worker_whose_clock_is_off_closes_no_wait(
    *, listings: bool, seconds: int
) -> None:
    """Section 5 "Clocks", R-F6: also of a cancelled run nothing is written."""
    # Given a wish to cancel, whose maker died right after it
    clock = Clock()
    store = telling(clock, listings=listings)
    runner = office(store=store, clock=clock)
    wait = waiting(runner)
    wished = on("create", crashed("after"), prefix=layout.cancellation("r1"))
    with pytest.raises(Crash):
        Runner([], store=FaultyStore(store, wished), clock=clock).cancel("r1")
    before = asyncio.run(store.keys(""))

    # When one comes whose clock is wrong
    off = Clock()
    off.seconds = clock.seconds + seconds
    with pytest.raises(ClockOff):
        office(store=store, clock=off).resume("r1")

    # Then all is as it was
    assert before == asyncio.run(store.keys(""))

    # And whose clock is right ends the run
    outcome = runner.resume("r1")
    assert isinstance(outcome, Failed)
    with pytest.raises(Cancelled):
        runner.decide(wait.id, Approve())


@pytest.mark.parametrize("listings", [False, True])
def test_a_worker_whose_clock_is_ahead_expires_no_wait(*, listings: bool) -> None:
    """Section 5 "Clocks", R-F4: a deadline that only seems to have passed has not."""
    # Given a wait with a minute left, and one whose clock is two minutes ahead
    clock, ahead = Clock(), Clock()
    store = telling(clock, listings=listings)
    policy = ApprovalPolicy(expires_after=60)
    runner = office(policy, store=store, clock=clock)
    wait = waiting(runner)
    before = asyncio.run(store.keys(""))
    ahead.seconds = clock.seconds + 120

    # When it comes
    with pytest.raises(ClockOff):
        office(policy, store=store, clock=ahead).resume("r1")

    # Then nothing was written, and the wait can still be approved
    assert before == asyncio.run(store.keys(""))
    runner.decide(wait.id, Approve())
    assert isinstance(runner.resume("r1"), Finished)


@pytest.mark.parametrize("seconds", [-60, 60])
def test_who_cancels_with_a_clock_that_is_off_closes_no_wait(seconds: int) -> None:
    """Section 5 "Clocks", R-F6: the wish is kept; others, who know the time, do it."""
    clock, off = Clock(), Clock()
    store = MemoryStore(clock.now)
    runner = office(store=store, clock=clock)
    wait = waiting(runner)
    off.seconds = clock.seconds + seconds

    with pytest.raises(ClockOff):
        Runner([], store=store, clock=off).cancel("r1", reason="Enough.")

    assert asyncio.run(read_decision(Objects(store), wait.id)) is None
    assert "suspended" == runner.look("r1").status
    outcome = runner.resume("r1")
    assert isinstance(outcome, Failed)
    assert "Enough." == outcome.error.message


@pytest.mark.parametrize("listings", [False, True])
def test_every_version_names_the_marker_that_guards_it(*, listings: bool) -> None:
    """Section 5 "Erase": a plain header names them, so erasing needs no keys."""
    clock = Clock()
    store = telling(clock, listings=listings)
    runner = office(store=store, clock=clock)
    made = runner.decide(waiting(runner).id, Approve())
    before = runner.look("r1").version
    last = runner.resume("r1").continuation.version

    versions = Versions(Objects(store), "r1")
    for number in range(1, last + 1):
        named = asyncio.run(versions.load(number)).markers
        assert 1 == len(named), number
        # What was made for the decision serves where the store told its time.
        serves = listings and number > before
        assert serves == (named == (made.marker,)), number
