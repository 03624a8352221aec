"""Waits that a crash, an older process or a faster decision left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    AsyncRunner,
    Fail,
    Finished,
    Flow,
    Outcome,
    Runner,
    Suspended,
    ToolContext,
    ask,
    external,
    sleep,
    tool,
    wait_for,
    workflow,
)
from continuations.core import ulid
from continuations.errors import AlreadyDecided, Corrupt, ModelError
from continuations.ledger import layout
from continuations.ledger.arrivals.arrivals import read_arrivals
from continuations.ledger.objects import Objects
from continuations.ledger.repair import doctor
from continuations.ledger.repair.doctor import repair
from continuations.ledger.versions import Versions
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import ToolWait
from continuations.wire.fields import to_milliseconds
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import (
    Crash,
    FaultyStore,
    ForwardingStore,
    crashed,
    on,
)
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.engine.agent_builders import make_boss
from tests.engine.payment_agent import pay
from tests.hostile.editable_store import EditableStore
from tests.outcomes import expect, single_wait
from tests.scripts import Line, call


def make_runner(
    store: EditableStore,
    clock: ManualClock,
    wait: Callable[[], ToolWait[Any]],
    *trips: str,
) -> Runner:
    """Return a runner whose tool waits, with a function that gets the answer."""

    @tool
    def receipt(trip: str, ctx: ToolContext) -> ToolWait[Any]:
        """Get a receipt."""
        effect_log.append_effect("receipt", trip, wait=ctx.wait_id)
        return wait()

    @receipt.on_answer
    def received(answer: str, trip: str) -> str:
        effect_log.append_effect("received", trip)
        return f"{trip}: {answer}"

    calls = [call("receipt", trip=trip) for trip in trips or ("Rome",)]
    boss = make_boss({"go": [calls, "end"]}, receipt)
    return Runner(boss, store=store, clock=clock)


def lose_versions_after(
    store: EditableStore, clock: ManualClock, good: int, newest: int
) -> None:
    """Damage the versions after a good one, and repair the run."""
    clock.seconds += 600
    for number in range(good + 1, newest + 1):
        store.replace_body(layout.version_key("r1", number), b"")
    numbers = iter(range(1, 99))

    def new_ulid() -> str:
        milliseconds = to_milliseconds(clock.now())
        return ulid.encode_ulid(milliseconds, next(numbers).to_bytes(10, "big"))

    asyncio.run(repair(Objects(store), "r1", now=clock.now(), new_ulid=new_ulid))


def newest_version(runner: Runner) -> int:
    return runner.look("r1").version


@pytest.mark.parametrize(
    "wait", [lambda: ask("Which?"), lambda: external("scan"), lambda: sleep(60)]
)
def test_function_that_may_have_run_in_lost_versions_is_asked_about(
    wait: Callable[[], ToolWait[Any]],
) -> None:
    store, clock = EditableStore(), ManualClock()
    runner = make_runner(store, clock, wait)
    outcome = expect(runner.start("go", run_id="r1"), Suspended)
    good = newest_version(runner)
    clock.seconds += 61
    if outcome.waits[0].rules.has_object:
        runner.decide(outcome.waits[0].id, Answer("blue"))
    assert isinstance(runner.resume("r1"), Finished)

    lose_versions_after(store, clock, good, newest_version(runner))
    again = expect(runner.resume("r1"), Suspended)

    assert [("unknown", 1)] == [(each.kind, each.stage) for each in again.waits]
    assert ["receipt Rome", "received Rome"] == effect_log.names()


def test_later_stage_that_may_have_run_in_lost_versions_is_asked_about() -> None:
    stages: list[tuple[int, str, object]] = []

    @tool
    def order(what: str) -> ToolWait[str]:
        """Order something."""
        return ask(f"How many {what}?", memo="asked")

    @order.on_answer
    def next_step(answer: str, ctx: ToolContext) -> ToolWait[str] | str:
        stages.append((ctx.stage, answer, ctx.memo))
        return ask("Paid?", memo="ordered") if ctx.stage == 1 else "done"

    store, clock = EditableStore(), ManualClock()
    boss = make_boss({"go": [[call("order", what="pens")], "end"]}, order)
    runner = Runner(boss, store=store, clock=clock)
    runner.start("go", run_id="r1")
    [first] = runner.look("r1").waits
    runner.decide(first.id, Answer("3"))
    runner.resume("r1")
    good = newest_version(runner)
    [second] = runner.look("r1").waits
    runner.decide(second.id, Answer("yes"))
    assert isinstance(runner.resume("r1"), Finished)

    lose_versions_after(store, clock, good, newest_version(runner))
    again = expect(runner.resume("r1"), Suspended)

    assert [("unknown", 2)] == [(each.kind, each.stage) for each in again.waits]
    assert [1, 2] == [stage for stage, _, _ in stages]
    runner.decide(again.waits[0].id, Approve())
    assert isinstance(runner.resume("r1"), Finished)
    assert (2, "yes", "ordered") == stages[-1]


def test_job_keeps_the_id_that_the_other_system_has() -> None:
    store, clock = EditableStore(), ManualClock()
    runner = make_runner(store, clock, lambda: external("scan"), "Rome", "Oslo")
    runner.start("go", run_id="r1")
    good = newest_version(runner)
    rome, oslo = effect_log.effects()
    runner.decide(oslo["wait"], Answer("2 pages"))
    runner.resume("r1")

    lose_versions_after(store, clock, good, newest_version(runner))
    runner.decide(rome["wait"], Answer("7 pages"))
    outcome = runner.resume("r1")

    # The function of the other job may have run in a lost version: it did.
    assert isinstance(outcome, Suspended)
    assert ["unknown"] == [wait.kind for wait in outcome.waits]
    runner.decide(outcome.waits[0].id, Answer("Oslo: 2 pages"))
    assert isinstance(runner.resume("r1"), Finished)
    assert sorted(
        ["receipt Rome", "receipt Oslo", "received Oslo", "received Rome"]
    ) == sorted(effect_log.names())


def test_answer_of_a_wait_that_is_lost_leaves_the_run_resumable() -> None:
    """Its digest is that of the lost wait, and the call counts as started again."""
    store, clock = EditableStore(), ManualClock()
    runner = make_runner(store, clock, lambda: external("scan"))
    runner.decide(single_wait(runner.start("go", run_id="r1")).id, Answer("7 pages"))
    parked = newest_version(runner)

    lose_versions_after(store, clock, parked - 1, parked)
    again: Outcome = runner.resume("r1")

    assert isinstance(again, Suspended)
    assert ["unknown"] == [each.kind for each in again.waits]
    assert ["receipt Rome"] == effect_log.names()


def test_second_verdict_after_an_error_is_told_what_was_recorded() -> None:
    store = EditableStore()
    runner = make_runner(store, ManualClock(), lambda: external("scan"))
    wait = single_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Fail("the paper jammed", by="scanner"))
    assert ["receipt Rome"] == effect_log.names()

    with pytest.raises(AlreadyDecided, match="it was ended with an error by scanner"):
        runner.decide(wait.id, Answer("7 pages"))


# Old versions -----------------------------------------------------------------


@pytest.mark.parametrize("is_early", [True, False])
def test_only_an_early_answer_counts_for_a_version_without_the_wait(
    store: MemoryStore, clock: ManualClock, *, is_early: bool
) -> None:
    """A later version opened the wait, and the other answer has the wait's digest."""
    ids: list[str] = []
    agent = agent_whose_worker_died(store, clock, ids)
    runner = Runner(agent, store=store, clock=clock)
    asked = expect(runner.resume("r1"), Suspended)
    assert ["unknown"] == [wait.kind for wait in asked.waits]
    objects = Objects(store)
    old = asyncio.run(Versions(objects, "r1").load_newest()).state

    # When another process goes on, and the other system answers
    if is_early:
        runner.decide(ids[0], Answer(7))
    runner.decide(asked.waits[0].id, Approve())
    if not is_early:
        runner.resume("r1")
        runner.decide(ids[0], Answer(7))

    arrived = asyncio.run(read_arrivals(objects, old))
    assert is_early == (ids[0] in arrived.decisions)
    assert asked.waits[0].id in arrived.decisions
    assert isinstance(runner.resume("r1"), Finished)


def agent_whose_worker_died(
    store: MemoryStore, clock: ManualClock, ids: list[str]
) -> Agent:
    """Return the agent of a run whose worker died in a tool; note the ids of its waits.

    The claim of the worker has ended.
    """
    dying = FaultyStore(store)

    @tool
    def scan(document: str, ctx: ToolContext) -> ToolWait[int]:
        """Scan a document."""
        del document
        ids.append(ctx.wait_id)
        dying.has_crashed = True
        return external("scan", int)

    model = ScriptedModel([ToolCall("scan", {"document": "a"}), "end"])
    agent = Agent("boss", tools=[scan], model=model)
    with pytest.raises(Crash):
        Runner(agent, store=dying, clock=clock).start("go", run_id="r1")
    clock.seconds += 61
    return agent


def test_no_object_of_an_unknown_outcome_is_left_after_an_early_answer() -> None:
    """The answer tells the outcome, and a worker dies at each operation after that."""
    for point in every_crash("before", "after", more_than=8):
        store, clock = MemoryStore(), ManualClock()
        ids: list[str] = []
        agent = agent_whose_worker_died(store, clock, ids)
        runner = Runner(agent, store=store, clock=clock)
        assert isinstance(runner.resume("r1"), Suspended)
        runner.decide(ids[0], Answer(7))
        with point.process(store) as again:
            Runner(agent, store=again, clock=clock).resume("r1")

        for _ in range(3):
            clock.seconds += 86_400
            assert {} == runner.sweep().errors
        assert isinstance(runner.resume("r1"), Finished)
        assert [] == remaining_keys(store)


# Waits that are created again -------------------------------------------------


class DecidingStore:
    """A store in which a wait is decided just before its object is created again."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner = inner
        self._armed = False
        self._resumer: AsyncRunner | None = None
        self.has_decided = False
        self.read, self.keys = inner.read, inner.keys
        self.delete, self.probe = inner.delete, inner.probe

    def arm(self, resumer: AsyncRunner | None = None) -> None:
        """Decide the next wait that is created; then resume its run, if asked to."""
        self._armed, self._resumer = True, resumer

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Decide the wait if this creates one, then create the object."""
        if self._armed and key.startswith("waits/"):
            self._armed = False
            wait_id = key.removeprefix("waits/")
            await AsyncRunner([], store=self._inner).decide(wait_id, Approve())
            if self._resumer is not None:
                await self._resumer.resume("r")
            self.has_decided = True
        return await self._inner.create(key, body)


def make_two_children(reply: Line) -> Agent:
    """Return an agent with two children: one waits, the other gets this reply."""
    model = scripts.scripted_model(
        {
            "go": [[call("a", input="A"), call("b", input="B")], "end"],
            "A": [[call("pay")], "A end"],
            "B": [reply],
        }
    )
    children = [Agent(name, tools=[pay], model=model) for name in "ab"]
    return Agent("boss", tools=children, model=model)


def test_wait_decided_while_it_is_recreated_is_not_listed(store: MemoryStore) -> None:
    """A decided wait is never shown as open again."""
    deciding = DecidingStore(store)
    runner = Runner(make_two_children(ModelError("down")), store=deciding)
    with pytest.raises(ModelError):
        runner.start("go", run_id="r")

    # When a resume that stops for a model creates the other child's wait object again
    deciding.arm()
    with pytest.raises(ModelError):
        runner.resume("r")
    assert deciding.has_decided

    # Then the wait is not listed, and the decision is used
    assert [] == list(runner.waiting())
    assert isinstance(
        Runner(make_two_children("B end"), store=store).resume("r"), Finished
    )
    assert ["pay "] == effect_log.names()


def test_sweep_removes_the_wait_object_that_a_dead_process_recreated() -> None:
    """A sweep deletes the object, also if the run has ended."""
    clock = ManualClock()
    store = MemoryStore(clock.now)
    deciding = DecidingStore(store)
    dying = FaultyStore(deciding, on("create", crashed("after"), prefix="waits/"))
    other = Runner(make_two_children("B end"), store=store, clock=clock)
    with pytest.raises(ModelError):
        Runner(make_two_children(ModelError("down")), store=store, clock=clock).start(
            "go", run_id="r"
        )

    # When a process creates the object again and dies, after another ended the run
    deciding.arm(other.async_runner)
    with suppress(Crash):
        Runner(make_two_children(ModelError("down")), store=dying, clock=clock).resume(
            "r"
        )
    assert deciding.has_decided
    assert dying.has_crashed
    assert "finished" == other.look("r").status
    assert 1 == len(list(other.waiting()))

    # Then no sweep leaves it listed
    for _ in range(3):
        clock.seconds += 3600
        other.sweep()
    assert [] == list(other.waiting())
    assert ["pay "] == effect_log.names()


# A start that died ------------------------------------------------------------


@workflow
async def clerk(_flow: Flow) -> str:
    """Wait for a receipt."""
    return await wait_for("receipt", str)


class DyingStore(ForwardingStore):
    """The process dies before it creates version 1."""

    async def create(self, key: str, body: bytes) -> datetime | None:
        if "/v/" in key:
            raise Crash
        return await self.inner.create(key, body)


def make_event_runner(store: Store, clock: ManualClock) -> Runner[str]:
    return Runner(clerk, store=store, clock=clock)


def repair_run(store: Store, clock: ManualClock, new_ulid: Callable[[], str]) -> Any:
    objects = Objects(store)
    return asyncio.run(doctor.repair(objects, "r1", now=clock.now(), new_ulid=new_ulid))


def test_repair_of_a_run_without_versions_says_to_start_it_again() -> None:
    clock = ManualClock()
    store = MemoryStore(clock.now)
    with pytest.raises(Crash):
        make_event_runner(DyingStore(store), clock).start(clerk.bind(), run_id="r1")
    Runner([], store=store, clock=clock).publish("receipt", "r-7")
    arrived = asyncio.run(store.keys(layout.arrivals_prefix("r1")))

    with pytest.raises(Corrupt, match="has no version of this run, only decisions"):
        repair_run(store, clock, lambda: "01kdvdna00q7q5nqp61n9f7e3p")
    assert arrived == asyncio.run(store.keys(layout.arrivals_prefix("r1")))

    # The new wait takes the event, which is kept for two days.
    outcome = make_event_runner(store, clock).start(clerk.bind(), run_id="r1")
    assert "r-7" == outcome.result()
