"""Calls that begin late because the machine is busy: the claim is checked again."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from continuations import AsyncRunner, Finished, Outcome, Runner, ToolContext, tool
from continuations.aio import run as run_async
from continuations.authoring.tool import call_gate
from continuations.authoring.tool.call_gate import CallGate, CallNotBegun
from continuations.authoring.tool.tool_options import OnTimeout
from continuations.engine import side_task
from continuations.tools import Tool
from continuations_storage import MemoryStore
from tests import effect_log
from tests.authoring.test_tool_protocol import OwnTool
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.engine.payment_agent import single_wait
from tests.outcomes import expect
from tests.scripts import Script, call


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

    @tool(timeout=30, on_timeout=on_timeout)
    def pay(cents: int) -> str:
        """Pay."""
        effect_log.append_effect("pay", cents)
        return "paid"

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
