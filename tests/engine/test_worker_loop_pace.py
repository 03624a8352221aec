"""When the worker loop looks for due runs, in virtual time."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    AsyncRunner,
    Suspended,
    ask,
    sleep,
    sleep_until,
    tool,
)
from continuations.engine.sweep.sweeping import Sweeper
from continuations.tools import ToolWait
from continuations_storage.faults import FaultyStore
from tests.outcomes import expect
from tests.sampling import RUNS_ALL_CASES
from tests.scripts import call, scripted_model
from tests.simulation.virtual_loop import VirtualLoop
from tests.stores import OneByOneStore

LATENCY = 0.01
START = datetime(2026, 1, 1, tzinfo=UTC)


class LoopClock:
    """A clock that shows the time of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> datetime:
        """Return the wall clock's time."""
        return START + timedelta(seconds=self.elapsed())

    def elapsed(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class SlowStore(OneByOneStore):
    """A store that takes time for each create, and records when each was done."""

    def __init__(self, clock: LoopClock) -> None:
        super().__init__(clock.now)
        self._loop_clock = clock
        self.created_at: dict[str, float] = {}
        self.looked_at: list[float] = []
        self.at_once = self.most_at_once = 0
        self.reports = True

    def watch(self, prefix: str) -> Any:
        """Report creates, unless the test says otherwise."""
        return super().watch(prefix) if self.reports else None

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """List keys, and record when the due markers were listed."""
        if prefix == "markers/":
            self.looked_at.append(self._loop_clock.elapsed())
        return await super().keys(prefix, after, limit)

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put an object after a while."""
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(LATENCY)
        self.at_once -= 1
        self.created_at[key] = self._loop_clock.elapsed()
        return await super().create(key, body)


@tool
async def nap(seconds: float) -> ToolWait[str]:
    """Wait for a time."""
    return sleep(seconds)


@tool
async def rest() -> ToolWait[str]:
    """Wait until the time that all calls wait for."""
    return sleep_until(START + timedelta(seconds=5000))


@tool
async def question() -> ToolWait[str]:
    """Ask a person."""
    return ask("Which?")


def make_agent(*calls: Any) -> Agent:
    script: Any = {"go": [list(calls), "end"] if calls else ["end"]}
    return Agent("boss", tools=[nap, rest, question], model=scripted_model(script))


class World:
    """A store in virtual time, and runners on it."""

    def __init__(self, agent: Agent) -> None:
        self.loop = VirtualLoop()
        self.clock = LoopClock(self.loop)
        self.slow_store = SlowStore(self.clock)
        self.store = FaultyStore(self.slow_store)
        self.runner = self.another_runner(agent)
        self.stop = asyncio.Event()

    def another_runner(self, *agents: Agent) -> AsyncRunner:
        return AsyncRunner(agents, store=self.store, clock=self.clock)

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Run a scenario and the worker loop until both end."""

        async def both() -> None:
            serving = self.loop.create_task(self.runner.serve_forever(stop=self.stop))
            try:
                await scenario
            finally:
                self.stop.set()
                await serving

        asyncio.set_event_loop(self.loop)
        try:
            main = self.loop.create_task(both())
            self.loop.run_until_idle()
            main.result()
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()

    def ended_at(self, run_id: str) -> float:
        """Return when the last version of a run was stored."""
        prefix = f"runs/{run_id}/v/"
        created = self.slow_store.created_at.items()
        return max(at for key, at in created if key.startswith(prefix))

    async def is_finished(self, run_id: str) -> bool:
        return (await self.runner.look(run_id)).status == "finished"


def test_idle_loop_looks_at_most_each_ten_seconds() -> None:
    """An idle hour costs 360 listings and not 3,600."""
    world = World(make_agent())

    async def an_hour() -> None:
        await asyncio.sleep(3600)

    world.run(an_hour())

    listings = [each for each in world.store.operations if each.verb == "keys"]
    assert 360 <= len(listings) < 400


def test_timer_ends_at_its_time_and_not_at_the_next_look() -> None:
    """The loop sleeps until the next marker is due."""
    world = World(make_agent(call("nap", seconds=95.5)))

    async def scenario() -> None:
        await world.runner.start("go", run_id="r1")
        await asyncio.sleep(200)
        assert await world.is_finished("r1")

    world.run(scenario())

    assert 95.5 <= world.ended_at("r1") < 95.5 + 20 * LATENCY


def decided_at_1000(world: World, decider: AsyncRunner) -> float:
    """Let a runner decide at second 1000; return when the run has ended."""

    async def scenario() -> None:
        outcome = expect(await world.runner.start("go", run_id="r1"), Suspended)
        await asyncio.sleep(1000 - world.loop.time())
        await decider.decide(outcome.waits[0].id, Answer("blue"))
        await asyncio.sleep(20)
        assert await world.is_finished("r1")

    world.run(scenario())
    return world.ended_at("r1")


def test_decision_by_the_same_runner_is_noticed_at_once() -> None:
    """A web application with a worker loop keeps no user waiting."""
    world = World(make_agent(call("question")))

    assert decided_at_1000(world, world.runner) < 1000 + 20 * LATENCY


def test_decision_is_noticed_at_once_after_another_loop_of_the_runner_ended() -> None:
    world = World(make_agent(call("question")))

    async def scenario() -> None:
        outcome = expect(await world.runner.start("go", run_id="r1"), Suspended)
        first_stop, second_stop = asyncio.Event(), asyncio.Event()
        first = asyncio.ensure_future(world.runner.serve_forever(stop=first_stop))
        await asyncio.sleep(1)
        second = asyncio.ensure_future(world.runner.serve_forever(stop=second_stop))
        await asyncio.sleep(1)
        first_stop.set()
        await first
        world.stop.set()
        await asyncio.sleep(1000 - world.loop.time())
        await world.runner.decide(outcome.waits[0].id, Answer("blue"))
        await asyncio.sleep(20)
        assert await world.is_finished("r1")
        second_stop.set()
        await second

    world.run(scenario())

    assert world.ended_at("r1") < 1000 + 20 * LATENCY


def test_decision_while_the_task_of_its_run_ends_is_noticed_at_once() -> None:
    """The loop sees its marker while the run has a task, and looks again after it."""
    world = World(make_agent(call("question")))
    try_run = Sweeper.try_run
    decided = asyncio.Event()

    async def slow_to_end(self: Any, run_id: str, due: Any, **options: Any) -> Any:
        report = await try_run(self, run_id, due, **options)
        if report.outcome is not None and not decided.is_set():
            decided.set()
            [wait] = (await world.runner.look("r1")).waits
            await world.runner.decide(wait.id, Answer("blue"))
            await asyncio.sleep(3 * LATENCY)
        return report

    async def scenario() -> None:
        await asyncio.sleep(1000)
        await world.runner.start("go", run_id="r1", work=False)
        await asyncio.sleep(20)
        assert await world.is_finished("r1")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sweeper, "try_run", slow_to_end)
        world.run(scenario())

    assert world.ended_at("r1") < 1000 + 40 * LATENCY


def test_decision_by_another_process_is_found_within_the_interval() -> None:
    """The store reports nothing."""
    world = World(make_agent(call("question")))
    world.slow_store.reports = False

    ended_at = decided_at_1000(world, world.another_runner())
    assert 1000 < ended_at <= 1010 + 20 * LATENCY


def test_decision_by_another_process_is_noticed_at_once_if_the_store_reports() -> None:
    """The loop wakes for the marker, and looks again for the decision."""
    world = World(make_agent(call("question")))

    # Two creates of the decision, and those of the end of the run.
    assert decided_at_1000(world, world.another_runner()) < 1000 + 10 * LATENCY


def test_hundred_decisions_a_second_make_few_looks() -> None:
    """A look comes 20 ms after the one before, and takes all that is due by then."""
    world, count = World(make_agent(call("question"))), 200

    async def scenario() -> None:
        other = world.another_runner()
        starts = (world.runner.start("go", run_id=f"r{n}") for n in range(count))
        outcomes = await asyncio.gather(*starts)
        await asyncio.sleep(1000 - world.loop.time())
        for outcome in outcomes:
            assert isinstance(outcome, Suspended)
            decision = other.decide(outcome.waits[0].id, Answer("blue"))
            world.loop.create_task(decision)
            await asyncio.sleep(0.01)
        await asyncio.sleep(20)
        for number in range(count):
            assert await world.is_finished(f"r{number}")

    world.run(scenario())

    looks = [at for at in world.slow_store.looked_at if at >= 1000]
    assert max(bisect_left(looks, at + 1) - n for n, at in enumerate(looks)) <= 55
    # Then the looks become rare.
    ended_at = max(world.ended_at(f"r{number}") for number in range(count))
    assert sum(at > ended_at for at in looks) <= 12


def test_stored_run_begins_at_once() -> None:
    """`start(work=False)` leaves the work to the loop."""
    world = World(make_agent())

    async def scenario() -> None:
        await asyncio.sleep(1000)
        await world.runner.start("go", run_id="r1", work=False)
        await asyncio.sleep(20)
        assert await world.is_finished("r1")

    world.run(scenario())

    assert world.ended_at("r1") < 1000 + 20 * LATENCY


def test_timers_that_are_due_at_once_end_concurrently() -> None:
    """With TORTURE=1 there are a thousand. Eight runs are worked on at a time."""
    count = 1000 if RUNS_ALL_CASES else 200
    world = World(make_agent(call("rest")))

    async def scenario() -> None:
        for number in range(count):
            await world.runner.start("go", run_id=f"r{number}")
        await asyncio.sleep(5000)

    world.run(scenario())

    ends = [world.ended_at(f"r{number}") for number in range(count)]
    late = [at for at in world.slow_store.created_at.values() if at > 5000]
    assert 5000 < min(ends)
    assert 8 == world.slow_store.most_at_once
    assert max(ends) - 5000 < 1.5 * len(late) * LATENCY / 8
