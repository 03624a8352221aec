"""A sweep deletes nothing that a worker at the same time relies on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

import pytest

from continuations import Approve, AsyncRunner, Finished, Runner
from continuations.ledger import markers
from continuations.ledger.decisions.decisions import build_decision, record_decision
from continuations.ledger.index.run_index import INDEX_PREFIX, LIVE_PREFIX
from continuations.ledger.objects import Objects
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed, on
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.engine.payment_agent import PAY_SCRIPT, make_pay_tool, start_and_get_wait
from tests.ledger.fake_clock import make_ulid
from tests.ledger.interleaving import InterleavingStore
from tests.stores import StoreWithListingTime


class DecisionInProgress:
    """A wait, the marker of its next decision, and the processes that follow."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = StoreWithListingTime(self.clock)
        self.agent = make_boss(PAY_SCRIPT, make_pay_tool())
        self.runner = Runner(self.agent, store=self.store, clock=self.clock)
        wait = start_and_get_wait(self.runner)
        ulid = make_ulid(1, self.clock.now())
        self._marker = markers.for_decision(wait.id, ulid)
        said = build_decision(
            wait, Approve(by="kim"), now=self.clock.now(), decision_id=ulid
        )
        self._decision = replace(said, marker=self._marker.key)
        asyncio.run(markers.create(Objects(self.store), self._marker))

    async def decide_and_claim(self, operations: int) -> None:
        """Let the slow decider decide, and a worker die after so many operations."""
        await record_decision(Objects(self.store), self._decision)
        dying = FaultyStore(self.store, at(operations, crashed("after")))
        worker = AsyncRunner(self.agent, store=dying, clock=self.clock)
        with suppress(Crash):
            await worker.resume("r1")

    def sweep(self) -> None:
        """Sweep several times, and approve the open waits."""
        for _ in range(3):
            self.clock.seconds += 120
            self.runner.sweep()
            for summary in list(self.runner.waiting()):
                self.runner.decide(summary.id, Approve(by="kim"))


@pytest.mark.parametrize("operations", range(3, 9))
def test_a_marker_that_guards_a_claim_outlives_a_sweep(operations: int) -> None:
    """The marker of a decision also guards the next claim.

    A sweep finds the marker while the run cannot progress. Before the sweep checks
    whether the marker is needed, another process claims the run and dies.
    """
    for number in range(1, 12):
        race = DecisionInProgress()

        async def interfere(race: DecisionInProgress = race) -> None:
            await race.decide_and_claim(operations)

        interleaved = InterleavingStore(race.store, number, interfere)
        Runner(race.agent, store=interleaved, clock=race.clock).sweep()
        if interleaved.request_count < number:
            assert number > 4
            return
        race.sweep()

        assert isinstance(race.runner.resume("r1"), Finished), number
        assert [] == asyncio.run(race.store.keys("markers/")), number
    pytest.fail("it was never left alone")


@pytest.mark.parametrize("operations", [3, 6])
def test_run_that_another_process_ends_during_a_sweep_is_listed(
    operations: int,
) -> None:
    """The process dies before it lists the run that it ended as cancelled.

    The sweep read an earlier version, so the marker of the request is all that leads to
    the run.
    """
    for number in range(1, 60):
        clock = ManualClock()
        store = StoreWithListingTime(clock)
        agent = make_boss(PAY_SCRIPT, make_pay_tool())
        runner = Runner(agent, store=store, clock=clock)
        start_and_get_wait(runner)
        dying = on("create", crashed("after"), prefix="runs/r1/in/stop")
        with suppress(Crash):
            Runner(agent, store=FaultyStore(store, dying), clock=clock).cancel("r1")

        async def interfere() -> None:
            faulty = FaultyStore(store, at(operations, crashed("after")))  # noqa: B023 - called in this round
            with suppress(Crash):
                await AsyncRunner(agent, store=faulty, clock=clock).resume("r1")  # noqa: B023

        interleaved = InterleavingStore(store, number, interfere)
        Runner(agent, store=interleaved, clock=clock).sweep()
        for _ in range(3):
            clock.seconds += 120
            runner.sweep()

        assert "cancelled" == runner.look("r1").status
        listed = asyncio.run(store.keys(INDEX_PREFIX))
        assert [f"{INDEX_PREFIX}ended/2026-01-01/r1"] == listed, number
        assert [] == asyncio.run(store.keys("markers/")), number
        assert [] == asyncio.run(store.keys("waits/")), number
        if interleaved.request_count < number:
            return
    pytest.fail("the sweep made more requests")


class StoreWithVisitor(InterleavingStore):
    """A store in which another process acts before the next key of a live run."""

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Let the other process act first, once."""
        if key.startswith(LIVE_PREFIX) and self.request_count >= 0:
            self.request_count = -1000
            await self.other_actor()
        return await self.inner.create(key, body)


def test_a_slow_process_lists_no_wait_of_a_version_that_was_followed() -> None:
    """The process publishes the waits of a version whose worker died.

    Before it creates their objects, another process decides and resumes the run. Then
    the slow process dies: no marker would lead to an object that it left.
    """
    store, agent = MemoryStore(), make_boss(PAY_SCRIPT, make_pay_tool())
    dying = on("create", crashed("after"), prefix="waits/")
    with suppress(Crash):
        Runner(agent, store=FaultyStore(store, dying)).start("go", run_id="r1")
    [key] = asyncio.run(store.keys("waits/"))

    async def decide_and_resume() -> None:
        other = AsyncRunner(agent, store=store)
        await other.decide(key.removeprefix("waits/"), Approve(by="kim"))
        await other.resume("r1")

    slow = FaultyStore(
        StoreWithVisitor(store, 0, decide_and_resume),
        on("create", crashed("after"), prefix="waits/"),
    )
    with suppress(Crash):
        Runner(agent, store=slow).resume("r1")

    assert "finished" == Runner(agent, store=store).look("r1").status
    assert [] == asyncio.run(store.keys("waits/"))
