"""Claims: renewed while the worker is alive, lost when it is not, and their limits."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    ContinuationsError,
    Failed,
    Finished,
    Outcome,
    Runner,
    Suspended,
    ToolContext,
    tool,
)
from continuations.aio import run as run_async
from continuations.authoring.tool import call_gate
from continuations.authoring.tool.call_gate import CallGate, CallNotBegun
from continuations.authoring.tool.tool_options import OnTimeout
from continuations.engine import side_task
from continuations.engine.ports import SystemClock
from continuations.errors import Cancelled, ClockOff, RunBusy, StoreUnavailable
from continuations.ledger import claims, layout, markers
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.claims import Lease
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.models.interface import ModelReply, ModelRequest
from continuations.results import Decision
from continuations.tools import Tool
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, crashed, on, refused
from tests import effect_log
from tests.authoring.test_tool_protocol import OwnTool
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.engine.agent_builders import text_tool
from tests.engine.payment_agent import make_payment_runner, start_and_get_wait
from tests.ledger.interleaving import InterleavingStore
from tests.outcomes import expect, single_wait
from tests.run_environment import RunEnvironment, wait_until
from tests.scripts import Script, call
from tests.stores import OneByOneStore, StoreWithListingTime


def test_claim_is_renewed_while_a_long_tool_runs(environment: RunEnvironment) -> None:
    script: Script = {
        "go": [[call("left", input="A")], "end"],
        "A": [[call("act", what="x", then="sleep:6")], "A done"],
    }
    # Given a tool that takes three claims
    holder = environment.spawn("start", "r1", "go", script=script, lease="2.0")
    wait_until(environment.effect_names)
    began = time.monotonic()

    # When others try to resume and to sweep it all the time
    busy_count = 0
    while time.monotonic() - began < 2.5:
        assert "RunBusy" == environment.resume(script)["raised"]
        busy_count += 1
    swept = environment.run("sweep", script=script)

    # Then no other worker gets the claim
    assert (([], {}), True) == ((swept["resumed"], swept["failed"]), busy_count > 0)
    assert "Finished" == holder.wait_for_result()["kind"]
    assert ["act x"] == environment.effect_names()
    assert ["go 0", "A 0", "A 1", "go 1"] == environment.turns()


def test_a_frozen_worker_that_was_replaced_writes_nothing(
    environment: RunEnvironment,
) -> None:
    """It wakes up, finds that its claim is over, and stops."""
    script: Script = {
        "go": [[call("left", input="A")], [call("act", what="3")], "end"],
        "A": [
            [call("pay", what="1", then="sleep:0.5")],
            [call("act", what="2")],
            "A done",
        ],
    }
    # Given a worker that is frozen in a tool for longer than its claim
    environment.approve(environment.start(script)["waits"][0])
    frozen = environment.spawn("resume", "r1", script=script, lease="1.0")
    wait_until(environment.effect_names)
    frozen.send(signal.SIGSTOP)
    time.sleep(1.1)

    # When another worker takes over and the unknown outcome is settled
    result = environment.resume(script, lease="5")
    [wait] = result["waits"]
    assert "unknown" == wait["kind"]
    environment.decide(wait, {"answer": {"value": "paid 1"}})
    assert "Finished" == environment.resume(script, lease="5")["kind"]
    stored, turns = environment.objects(), environment.turns()

    # And the frozen worker wakes up
    frozen.send(signal.SIGCONT)
    woken = frozen.wait_for_result()

    # Then it gets StaleRun, and has written and called nothing
    assert "StaleRun" == woken["raised"]
    after = environment.objects()
    assert {key: stored[key] for key in stored if key in after} == stored
    assert [] == [key for key in after if key not in stored]
    assert turns == environment.turns()
    assert ["pay 1", "act 2", "act 3"] == environment.effect_names()
    fences = [line["fence"] for line in environment.effects()]
    assert sorted(set(fences)) == fences


def test_a_frozen_worker_that_nobody_replaced_goes_on(
    environment: RunEnvironment,
) -> None:
    """Its claim is over, but no other worker took the run, so it claims it again."""
    script: Script = {
        "go": [
            [call("act", what="1", then="sleep:0.4")],
            [call("act", what="2")],
            "end",
        ]
    }
    frozen = environment.spawn("start", "r1", "go", script=script, lease="0.8")
    wait_until(environment.effect_names)
    frozen.send(signal.SIGSTOP)
    time.sleep(1.2)
    frozen.send(signal.SIGCONT)

    assert "Finished" == frozen.wait_for_result()["kind"]
    assert ["act 1", "act 2"] == environment.effect_names()


def test_a_failed_renewal_stops_the_work(environment: RunEnvironment) -> None:
    """Committed work is kept, and another worker continues from it."""
    script: Script = {"go": [[call("nap")], "end"]}

    @tool(read_only=True)
    async def nap() -> str:
        """Sleep over a renewal."""
        import asyncio  # noqa: PLC0415 - only here

        effect_log.append_effect("nap")
        await asyncio.sleep(0.6)
        return "slept"

    inner = MemoryStore()
    failing = FaultyStore(
        inner, on("create", refused(), prefix="runs/", skip=2, times=9)
    )
    with pytest.raises(StoreUnavailable):
        Runner(agent_builders.make_boss(script, nap), store=failing, lease=0.6).start(
            "go", run_id="r"
        )
    assert ["go 0"] == environment.turns()

    runner = Runner(agent_builders.make_boss(script, nap), store=inner, lease=5)
    wait_until(lambda: is_claim_over(runner))
    assert isinstance(runner.resume("r"), Finished)
    assert (["nap ", "nap "], ["go 0", "go 1"]) == (
        environment.effect_names(),
        environment.turns(),
    )


def is_claim_over(runner: Runner) -> bool:
    claim = runner.look("r").run_state.run.claim
    return claim is None or claim.until < SystemClock().now()


def test_claim_works_without_a_store_time() -> None:
    """The worker's clock decides, and the end of the claim is exact."""
    clock = ManualClock()
    script: Script = {"go": [[call("peek")], "end"]}
    store = MemoryStore()
    busy: list[Any] = []

    @tool
    def peek() -> str:
        """Try to resume the run that this is."""
        other = Runner(agent_builders.make_boss(script, peek), store=store, clock=clock)
        with pytest.raises(RunBusy) as raised:
            other.resume("r")
        busy.append(raised.value)
        return "busy"

    Runner(agent_builders.make_boss(script, peek), store=store, clock=clock).start(
        "go", run_id="r"
    )

    [error] = busy
    assert ("r", 30) == (error.run_id, (error.until - clock.now()).total_seconds())
    assert [] == effect_log.effects()


def test_claim_is_renewed_before_a_call_begins_late() -> None:
    """If too little of the claim is left for a call, it is renewed first."""
    clock = ManualClock()
    script: Script = {"go": [*([call("late", n=n)] for n in range(3)), "end"]}
    store = MemoryStore()

    @tool
    def late(n: int) -> str:
        """Use up nearly all of a claim."""
        claim: Any = Runner([], store=store).look("r").run_state.run.claim
        left = (claim.until - clock.now()).total_seconds()
        effect_log.append_effect("late", str(left > 3))
        clock.seconds += 29.5
        return str(n)

    outcome = Runner(
        agent_builders.make_boss(script, late), store=store, clock=clock
    ).start("go", run_id="r")

    assert isinstance(outcome, Finished)
    assert ["late True"] * 3 == effect_log.names()


# Slow stores, wrong clocks, faster competitors --------------------------------


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


def test_slow_store_with_time_is_too_slow_for_a_claim(clock: ManualClock) -> None:
    """The store gave its time in a 12 s request: the clocks may differ by 12 s."""
    store = SlowStore(clock, tells_time=True)

    with pytest.raises(StoreUnavailable, match="too slow"):
        agent_builders.make_runner(SCRIPT, store=store, clock=clock).start("go")

    assert [] == effect_log.turns()


def test_second_worker_leaves_no_marker_and_asks_no_model() -> None:
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
        turns = len(effect_log.turns())

        # When it has ended
        outcome = agent_builders.make_runner(
            SCRIPT, store=interleaved, clock=clock
        ).start("go", run_id="r1")

        # Then the model was asked once, and no marker is left
        assert isinstance(outcome, Finished), number
        assert turns + 1 == len(effect_log.turns()), number
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


# Calls that begin late --------------------------------------------------------


def seconds_left(store: MemoryStore, clock: ManualClock) -> float:
    """Return how long the claim of the run still lasts."""
    claim = Runner([], store=store, clock=clock).look("r1").run_state.run.claim
    assert claim is not None
    return (claim.until - clock.now()).total_seconds()


def test_call_behind_a_blocked_event_loop_begins_with_a_fresh_claim() -> None:
    """One tool blocks the loop for 20 s; the other one's task starts after that."""
    clock, store = ManualClock(), MemoryStore()
    left: list[float] = []

    @tool(read_only=True)
    async def block() -> str:
        """Block the event loop."""
        clock.seconds += 20
        return "blocked"

    @tool
    def pay() -> str:
        """Pay, with the claim of that time."""
        left.append(seconds_left(store, clock))
        return "paid"

    script: Script = {"go": [[call("block"), call("pay")], "end"]}
    runner = agent_builders.make_runner(script, block, pay, store=store, clock=clock)
    outcome = expect(runner.start("go", run_id="r1"), Finished)

    assert ["blocked", "paid"] == agent_builders.root_tool_results(outcome)
    [seconds] = left
    assert seconds > 15


@pytest.mark.usefixtures("waiting_threads")
def test_call_whose_thread_starts_late_begins_with_a_fresh_claim(
    monkeypatch: pytest.MonkeyPatch, clock: ManualClock, store: MemoryStore
) -> None:
    """The claim is checked in the thread, and a late call is not made."""
    left: list[float] = []
    delays = [20.0]

    class LateThread(threading.Thread):
        """A thread that waits for a processor."""

        def run(self) -> None:
            if self.name == "continuations-tool" and delays:
                clock.seconds += delays.pop()
            super().run()

    @tool
    def pay() -> str:
        """Pay."""
        left.append(seconds_left(store, clock))
        return "paid"

    script: Script = {"go": [[call("pay")], "end"]}
    runner = agent_builders.make_runner(script, pay, store=store, clock=clock)
    monkeypatch.setattr(threading, "Thread", LateThread)
    outcome = expect(runner.start("go", run_id="r1"), Finished)

    assert (["paid"], []) == (agent_builders.root_tool_results(outcome), delays)
    [seconds] = left
    assert seconds > 15


@pytest.mark.usefixtures("waiting_threads")
@pytest.mark.parametrize("with_store", [False, True])
@pytest.mark.parametrize("on_timeout", ["unknown", "tell_model"])
def test_time_limit_counts_from_the_begin_of_the_call(
    monkeypatch: pytest.MonkeyPatch,
    on_timeout: OnTimeout,
    *,
    with_store: bool,
) -> None:
    """The thread starts 100 s late; the limit is 30 s, and the call begins after it."""
    pay = text_tool(
        "pay", "paid", {"cents": int}, logs=True, timeout=30, on_timeout=on_timeout
    )

    async def scenario() -> Outcome:
        loop = asyncio.get_running_loop()
        skipped = 0
        time = loop.time
        monkeypatch.setattr(loop, "time", lambda: time() + skipped)

        class LateThread(threading.Thread):
            """A thread that waits until every timer of the loop was looked at."""

            def run(self) -> None:
                nonlocal skipped
                if self.name == "continuations-tool":
                    skipped += 100
                    # A timer is called one turn after the time at which it is due.
                    for _ in range(4):
                        turned = threading.Event()
                        loop.call_soon_threadsafe(turned.set)
                        assert turned.wait(60)
                super().run()

        monkeypatch.setattr(threading, "Thread", LateThread)
        boss = agent_builders.make_boss({"go": [[call("pay", cents=5)], "end"]}, pay)
        if not with_store:
            return await run_async(boss, "go")
        runner = AsyncRunner(boss, store=MemoryStore(), clock=ManualClock())
        return await runner.start("go", run_id="r1")

    outcome = expect(asyncio.run(scenario()), Finished)

    assert ["paid"] == agent_builders.root_tool_results(outcome)
    assert ["pay 5"] == effect_log.names()


async def test_nothing_begins_after_the_call_has_returned() -> None:
    """A tool returns, and its function would begin in a task of its own later."""
    begun: list[asyncio.Task[Any]] = []

    class HastyTool(Tool[..., Any]):
        """A tool that does not wait for its function."""

        async def invoke(self, arguments_json: str, ctx: ToolContext) -> str:
            begun.append(asyncio.create_task(super().invoke(arguments_json, ctx)))
            return "returned"

    async def pay(cents: int) -> None:
        """Pay."""
        effect_log.append_effect("pay", cents)

    boss = agent_builders.make_boss(
        {"go": [[call("pay", cents=5)], "end"]}, HastyTool(pay)
    )
    outcome = await run_async(boss, "go")
    assert ["returned"] == agent_builders.root_tool_results(outcome)
    with pytest.raises(CallNotBegun):
        await begun[0]
    assert [] == effect_log.names()


class UngatedTool(OwnTool):
    """A tool of another class, whose calls may not be repeated."""

    read_only = repeatable = False
    invoked: asyncio.Event

    async def invoke(self, arguments_json: str, ctx: ToolContext) -> str:
        effect_log.append_effect("pay", arguments_json)
        if not self.invoked.is_set():
            self.invoked.set()
            await asyncio.Event().wait()
        return ctx.call_id


async def test_call_of_a_tool_of_another_class_has_begun_when_it_is_invoked(
    monkeypatch: pytest.MonkeyPatch, clock: ManualClock, store: MemoryStore
) -> None:
    """A worker is cancelled during the call; the next one asks about its outcome."""
    monkeypatch.setattr(side_task, "INTERRUPT_GRACE_SECONDS", 0.05)
    own = UngatedTool("pay")

    def runner() -> AsyncRunner:
        boss = agent_builders.make_boss({"go": [[call("pay")], "end"]}, own)
        return AsyncRunner(boss, store=store, clock=clock)

    own.invoked = asyncio.Event()
    starting = asyncio.create_task(runner().start("go", run_id="r1"))
    await own.invoked.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    clock.seconds += 31
    outcome = await runner().resume("r1")
    assert "unknown" == single_wait(outcome).kind
    assert ["pay {}"] == effect_log.names()


@pytest.mark.parametrize("is_async", [False, True])
def test_closed_gate_lets_no_call_begin(*, is_async: bool) -> None:
    """A call that was given up before it began never begins."""
    made: list[str] = []

    def plain() -> None:
        made.append("plain")

    async def coroutine() -> None:
        made.append("async")

    async def scenario(function: Any) -> None:
        gate = CallGate(lambda: True)
        gate.close()
        with gate.as_current(), pytest.raises(CallNotBegun):
            await call_gate.begin_call(function)
        assert not gate.has_begun

    asyncio.run(scenario(coroutine if is_async else plain))

    assert [] == made


def test_gate_is_not_asked_by_calls_inside_the_call() -> None:
    """A tool may run other agents, whose calls have claims of their own."""

    async def inner() -> str:
        return "inner"

    async def outer() -> str:
        gate.close()
        result: str = await call_gate.begin_call(inner)
        return result

    gate = CallGate(lambda: True)

    async def scenario() -> str:
        with gate.as_current():
            result: str = await call_gate.begin_call(outer)
            return result

    assert "inner" == asyncio.run(scenario())
    assert gate.has_begun


# Threads that cannot be stopped -----------------------------------------------


HELD_SCRIPT: Script = {"go": [[call("pay")], "end"]}


async def test_verify_is_not_called_before_the_claim_is_over(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore, clock: ManualClock
) -> None:
    """A bank that is asked while a payment is in progress does not know of it yet."""
    monkeypatch.setattr(side_task, "INTERRUPT_GRACE_SECONDS", 0.05)
    sending, sent = threading.Event(), threading.Event()
    bank: list[str] = []
    asked: list[int] = []

    def look_it_up() -> Answer | Approve:
        asked.append(len(bank))
        return Answer("it was paid") if bank else Approve()

    @tool(approval=True, verify=look_it_up)
    def pay() -> str:
        """Pay, slowly."""
        sending.set()
        assert sent.wait(60)
        bank.append("paid")
        return "paid"

    def runner() -> AsyncRunner:
        return AsyncRunner(
            agent_builders.make_boss(HELD_SCRIPT, pay), store=store, clock=clock
        )

    outcome = expect(await runner().start("go", run_id="r1"), Suspended)
    await runner().decide(outcome.waits[0].id, Approve(by="kim"))

    # Given a request that is cancelled while the payment is in progress
    resuming = asyncio.create_task(runner().resume("r1"))
    await asyncio.to_thread(sending.wait, 10)
    resuming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await resuming

    # When another process resumes the run at once, it gets RunBusy
    with pytest.raises(RunBusy):
        await runner().resume("r1")
    assert () == (await runner().sweep()).resumed
    assert [] == asked

    # Then, after the claim, the bank knows of the payment, and it is paid once
    sent.set()
    await asyncio.to_thread(wait_until, lambda: bank)
    clock.seconds += 31
    (ended,) = (await runner().sweep()).resumed
    assert isinstance(ended, Finished)
    assert (["paid"], [1]) == (bank, asked)


async def test_cancelled_model_call_releases_the_claim(store: MemoryStore) -> None:
    """A model call may be repeated, so the claim is released at once."""
    asking = asyncio.Event()

    class Slow:
        name = "slow"

        async def reply(self, request: ModelRequest) -> ModelReply:
            del request
            asking.set()
            await asyncio.Event().wait()
            raise AssertionError

    slow = AsyncRunner(Agent("boss", model=Slow()), store=store)
    starting = asyncio.create_task(slow.start("go", run_id="r1"))
    await asking.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting

    quick = AsyncRunner(agent_builders.make_boss({"go": ["end"]}), store=store)
    assert isinstance(await quick.resume("r1"), Finished)
