"""Workers, deciders and sweepers at once, in schedules that a seed determines.

These schedules found that a wait object was created again while its wait was decided.
The two tests at the top repeat that without randomness.
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
    Agent,
    AlreadyDecided,
    Answer,
    Approve,
    AsyncRunner,
    Finished,
    InvalidInput,
    ModelError,
    RunBusy,
    Runner,
    RunNotFound,
    StaleRun,
    Suspended,
    ToolContext,
    WaitNotFound,
    tool,
)
from continuations.models.scripted import ScriptedModel
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed, on
from tests import effect_log, sample_app, scripts
from tests.clocks import ManualClock
from tests.effect_log import Effect
from tests.scripts import call

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.models.interface import ModelRequest
    from continuations.models.scripted import ScriptedReply
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment
    from tests.sample_app import Record


# Without dice -----------------------------------------------------------------------


class DecidingStore:
    """A store in which a wait is decided just before it is announced again."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner = inner
        self.armed = False
        self.resumes: AsyncRunner | None = None
        self.read, self.keys = inner.read, inner.keys
        self.delete, self.probe = inner.delete, inner.probe

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Decide the wait that is to be made, once, and then make it."""
        if self.armed and key.startswith("waits/"):
            self.armed = False
            wait_id = key.removeprefix("waits/")
            await AsyncRunner([], store=self._inner).decide(wait_id, Approve())
            if self.resumes is not None:
                await self.resumes.resume("r")
        return await self._inner.create(key, body)


@tool(approval=True)
def pay() -> str:
    """Pay."""
    effect_log.append_effect("pay")
    return "paid"


def make_agents_with_reply(line: ScriptedReply) -> Agent:
    """Return a boss with a child that waits and one whose model says this."""
    model = scripts.scripted_model({
        "go": [[call("a", input="A"), call("b", input="B")], "end"],
        "A": [[call("pay")], "A end"],
        "B": [line],  # type: ignore[list-item]
    })  # fmt: skip
    children = [Agent(name, tools=[pay], model=model) for name in "ab"]
    return Agent("boss", tools=children, model=model)


def test_wait_decided_during_a_second_publish_is_not_open(
    environment: RunEnvironment,
) -> None:
    """R-F3, R-F9: it is not shown as open."""
    below = MemoryStore()
    meddled = DecidingStore(below)
    runner = Runner(make_agents_with_reply(ModelError("down")), store=meddled)
    with pytest.raises(ModelError):
        runner.start("go", run_id="r")

    # When a resume that stops for its model announces the wait of the other child
    meddled.armed = True
    with pytest.raises(ModelError):
        runner.resume("r")
    if meddled.armed:
        return  # it was not announced again at all: as good

    # Then it is not listed any more, and the decision stands
    assert [] == list(runner.waiting())
    ended = Runner(make_agents_with_reply("B end"), store=below).resume("r")
    assert (True, ["pay "]) == (isinstance(ended, Finished), environment.effect_names())


def test_sweep_removes_a_stale_wait_object_of_a_dead_process(
    environment: RunEnvironment,
) -> None:
    """R-F3, R-F9: the sweep removes it, also when the run has ended."""
    clock = ManualClock()
    below = MemoryStore(clock.now)
    with pytest.raises(ModelError):
        Runner(
            make_agents_with_reply(ModelError("down")), store=below, clock=clock
        ).start("go", run_id="r")
    meddled = DecidingStore(below)
    other = Runner(make_agents_with_reply("B end"), store=below, clock=clock)

    # When another process decides it and brings the run to its end in between
    meddled.armed = True
    meddled.resumes = other.async_runner
    dying = FaultyStore(meddled, on("create", crashed("after"), prefix="waits/"))
    with suppress(Crash, ModelError):
        Runner(
            make_agents_with_reply(ModelError("down")), store=dying, clock=clock
        ).resume("r")
    if meddled.armed:
        return  # it was not announced again at all: as good

    # Then nothing shows it as open once it was swept
    runner = other
    clock.seconds = 60
    assert isinstance(runner.resume("r"), Finished)
    for _ in range(3):
        clock.seconds += 3600
        runner.sweep()

    assert [] == list(runner.waiting())
    assert ["pay "] == environment.effect_names()


# With dice --------------------------------------------------------------------------


@dataclass
class RandomSchedule:
    """One run that several workers, some of which die, work on as a seed says."""

    dice: random.Random
    clock: ManualClock = field(default_factory=ManualClock)
    effects: list[Effect] = field(default_factory=list[Effect])
    accepted_messages: set[str] = field(default_factory=set[str])
    attempted_messages: set[str] = field(default_factory=set[str])
    flaky: bool = True

    async def yield_randomly(self) -> None:
        """Let the others go first, now and then."""
        if self.dice.random() < 0.4:
            await asyncio.sleep(self.dice.random() * 0.004)

    def make_tool(self, name: str, record: Record, **options: Any) -> Any:
        """Return a tool that records its effect and then takes a random time."""

        async def effect(what: str, ctx: ToolContext) -> str:
            record(Effect.of(name, what, ctx))
            await self.yield_randomly()
            return f"{name} {what}"

        return tool(effect, name=name, description="Work.", **options)

    async def reply(self, request: ModelRequest) -> ScriptedReply:
        """Say the next line, or nothing."""
        messages = [message.data for message in request.messages]
        await self.yield_randomly()
        if self.flaky and self.dice.random() < 0.08:
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

    async def run_worker(self, number: int, below: MemoryStore) -> None:
        """Do some things with the run, and perhaps die of one."""
        store: Store = RandomlySlowStore(below, self)
        if self.dice.random() < 0.7:
            moment = crashed(self.dice.choice(["before", "after"]))
            store = FaultyStore(store, at(self.dice.randint(1, 60), moment))
        runner = self.make_runner(store)
        for _ in range(self.dice.randint(1, 6)):
            try:
                await self.perform_random_action(runner, number)
            except Crash:
                return
            except (RunBusy, StaleRun, RunNotFound, AlreadyDecided, WaitNotFound):
                pass
            except (ModelError, InvalidInput):
                pass
            await self.yield_randomly()
            if self.dice.random() < 0.2:
                self.clock.seconds += self.dice.choice([1, 10, 31])

    async def perform_random_action(self, runner: AsyncRunner, number: int) -> None:
        """Start, resume, send, sweep or decide."""
        match self.dice.choice(["start", "start", "resume", "send", "sweep", "decide"]):
            case "start":
                await runner.start("go", run_id="r")
            case "resume":
                await runner.resume("r")
            case "send":
                text = f"{number} {self.dice.random()}"
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
        """Bring the run to its end, alone."""
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
    """A store whose answers come when the dice say so."""

    def __init__(self, inner: MemoryStore, schedule: RandomSchedule) -> None:
        self._inner = inner
        self._pause = schedule.yield_randomly
        self.probe = inner.probe

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Create, with a pause before and after."""
        await self._pause()
        told = await self._inner.create(key, body)
        await self._pause()
        return told

    async def read(self, key: str) -> bytes:
        """Read, and come back late."""
        found = await self._inner.read(key)
        await self._pause()
        return found

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """List, and come back late."""
        found = await self._inner.keys(prefix, after, limit)
        await self._pause()
        return found

    async def delete(self, key: str) -> None:
        """Delete, late."""
        await self._pause()
        await self._inner.delete(key)


async def run_schedule(schedule: RandomSchedule) -> None:
    """Let it happen, and then see whether every promise was kept."""
    below = MemoryStore(schedule.clock.now)
    workers = range(schedule.dice.randint(2, 5))
    await asyncio.gather(*(schedule.run_worker(n, below) for n in workers))
    runner = schedule.make_runner(below)
    outcome = await schedule.finish(runner)

    # Each effect once, but for what may be repeated, and that under one key
    once = [e.name for e in schedule.effects if e.tool not in ("push", "read")]
    assert sorted(set(once)) == sorted(once)
    assert 8 >= len({effect.key for effect in schedule.effects})
    # Each message that was taken is read, and once
    said = [m for m in outcome.continuation.root.messages if m["role"] == "user"]
    texts = [str(message["content"]) for message in said[1:]]
    assert len(set(texts)) == len(texts)
    assert schedule.accepted_messages <= set(texts) <= schedule.attempted_messages
    # Nothing is left to be looked at
    for _ in range(3):
        schedule.clock.seconds += 3600
        assert {} == (await runner.sweep()).errors
    keys = await below.keys("markers/") + await below.keys("waits/")
    assert [] == keys


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_random_schedules_keep_every_promise(seed: int) -> None:
    """No seed is known that breaks a promise."""
    for each in range(seed, seed + 10):
        schedule = RandomSchedule(random.Random(each))  # noqa: S311 - repeatable
        asyncio.run(asyncio.wait_for(run_schedule(schedule), 60))
