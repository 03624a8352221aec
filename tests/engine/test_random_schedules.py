"""Workers, deciders and sweepers at once, in schedules that a seed determines.

These schedules found that a wait object was created again while its wait was decided;
`test_recreated_waits.py` has that case without randomness.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Answer,
    Approve,
    AsyncRunner,
    Finished,
    Suspended,
    ToolContext,
    tool,
)
from continuations.errors import (
    AlreadyDecided,
    InvalidInput,
    ModelError,
    RunBusy,
    RunNotFound,
    StaleRun,
    WaitNotFound,
)
from continuations.models.scripted import ScriptedModel
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests import sample_app, scripts
from tests.clocks import ManualClock
from tests.effect_log import Effect

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.models.interface import ModelRequest
    from continuations.models.scripted import ScriptedReply
    from continuations_storage import Store
    from tests.sample_app import Record


@dataclass
class RandomSchedule:
    """One run on which several workers work, some of which die, as a seed says."""

    rng: random.Random
    clock: ManualClock = field(default_factory=ManualClock)
    effects: list[Effect] = field(default_factory=list[Effect])
    accepted_messages: set[str] = field(default_factory=set[str])
    attempted_messages: set[str] = field(default_factory=set[str])
    flaky: bool = True

    async def yield_randomly(self) -> None:
        """Let the others go first, sometimes."""
        if self.rng.random() < 0.4:
            await asyncio.sleep(self.rng.random() * 0.004)

    def make_tool(self, name: str, record: Record, **options: Any) -> Any:
        """Return a tool that records its effect and then takes a random time."""

        async def effect(what: str, ctx: ToolContext) -> str:
            record(Effect.of(name, what, ctx))
            await self.yield_randomly()
            return f"{name} {what}"

        return tool(effect, name=name, description="Work.", **options)

    async def reply(self, request: ModelRequest) -> ScriptedReply:
        """Return the next reply, or an error."""
        messages = [message.data for message in request.messages]
        await self.yield_randomly()
        if self.flaky and self.rng.random() < 0.08:
            return ModelError("down")
        turn = scripts.turn_count(messages)
        line = scripts.next_line(sample_app.FULL_SCRIPT, messages)
        return scripts.assistant_message(line, turn)

    def make_runner(self, store: Store) -> AsyncRunner:
        """Return a runner of the sample application, with this schedule's tools."""
        agents = sample_app.make_agents(
            ScriptedModel(self.reply),
            record=self.effects.append,
            tools=[
                partial(self.make_tool, "act"),
                partial(self.make_tool, "pay", approval=True),
                partial(self.make_tool, "read", read_only=True),
                partial(self.make_tool, "push", idempotent=True),
                partial(self.make_tool, "book"),
            ],
        )
        return AsyncRunner(agents, store=store, clock=self.clock)

    async def run_worker(self, number: int, inner: MemoryStore) -> None:
        """Do random actions with the run; perhaps crash in one."""
        store: Store = RandomlySlowStore(inner, self)
        if self.rng.random() < 0.7:
            moment = crashed(self.rng.choice(["before", "after"]))
            store = FaultyStore(store, at(self.rng.randint(1, 60), moment))
        runner = self.make_runner(store)
        for _ in range(self.rng.randint(1, 6)):
            try:
                await self.perform_random_action(runner, number)
            except Crash:
                return
            except (RunBusy, StaleRun, RunNotFound, AlreadyDecided, WaitNotFound):
                pass
            except (ModelError, InvalidInput):
                pass
            await self.yield_randomly()
            if self.rng.random() < 0.2:
                self.clock.seconds += self.rng.choice([1, 10, 31])

    async def perform_random_action(self, runner: AsyncRunner, number: int) -> None:
        """Start, resume, send, sweep or decide."""
        match self.rng.choice(["start", "start", "resume", "send", "sweep", "decide"]):
            case "start":
                await runner.start("go", run_id="r")
            case "resume":
                await runner.resume("r")
            case "send":
                text = f"{number} {self.rng.random()}"
                self.attempted_messages.add(text)
                await runner.send("r", text)
                self.accepted_messages.add(text)
            case "sweep":
                swept = await runner.sweep()
                kinds = {type(error) for error in swept.errors.values()}
                assert {ModelError} >= kinds
            case _:
                async for summary in runner.waiting():
                    asked = summary.kind == "approval"
                    await runner.decide(summary.id, Approve() if asked else Answer("x"))

    async def finish(self, runner: AsyncRunner) -> Finished:
        """Bring the run to its end with this worker alone."""
        self.flaky = False
        for _ in range(60):
            self.clock.seconds += 31
            try:
                outcome = await runner.start("go", run_id="r")
            except (RunBusy, StaleRun):
                continue
            if isinstance(outcome, Finished):
                return outcome
            assert isinstance(outcome, Suspended)
            for wait in outcome.waits:
                asked = wait.kind == "approval"
                with suppress(AlreadyDecided):
                    await runner.decide(wait.id, Approve() if asked else Answer("x"))
        raise AssertionError


class RandomlySlowStore:
    """A store whose operations take a random time."""

    def __init__(self, inner: MemoryStore, schedule: RandomSchedule) -> None:
        self._inner = inner
        self._pause = schedule.yield_randomly
        self.probe = inner.probe

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Create the object, with a pause before and after."""
        await self._pause()
        store_time = await self._inner.create(key, body)
        await self._pause()
        return store_time

    async def read(self, key: str) -> bytes:
        """Read the object, then pause."""
        found = await self._inner.read(key)
        await self._pause()
        return found

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """List the keys, then pause."""
        found = await self._inner.keys(prefix, after, limit)
        await self._pause()
        return found

    async def delete(self, key: str) -> None:
        """Pause, then delete the object."""
        await self._pause()
        await self._inner.delete(key)


async def run_schedule(schedule: RandomSchedule) -> None:
    """Run the schedule, then check every promise."""
    store = MemoryStore(schedule.clock.now)
    workers = range(schedule.rng.randint(2, 5))
    await asyncio.gather(*(schedule.run_worker(n, store) for n in workers))
    runner = schedule.make_runner(store)
    outcome = await schedule.finish(runner)

    # Each effect happens once; a repeatable one may repeat, with the same key
    once = [e.name for e in schedule.effects if e.tool not in ("push", "read")]
    assert sorted(set(once)) == sorted(once)
    assert 8 >= len({effect.key for effect in schedule.effects})
    # Each accepted message is read once
    read = [m for m in outcome.continuation.root.messages if m["role"] == "user"]
    texts = [str(message["content"]) for message in read[1:]]
    assert len(set(texts)) == len(texts)
    assert schedule.accepted_messages <= set(texts) <= schedule.attempted_messages
    # No marker and no wait object is left
    for _ in range(3):
        schedule.clock.seconds += 3600
        assert {} == (await runner.sweep()).errors
    keys = await store.keys("markers/") + await store.keys("waits/")
    assert [] == keys


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_random_schedules_keep_every_promise(seed: int) -> None:
    """No seed is known that breaks a promise."""
    for each in range(seed, seed + 10):
        schedule = RandomSchedule(random.Random(each))  # noqa: S311 - repeatable
        asyncio.run(asyncio.wait_for(run_schedule(schedule), 60))
