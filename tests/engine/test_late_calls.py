"""Calls that begin late because the machine is busy: the claim is checked again."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from continuations import Finished, Runner, tool
from continuations.authoring import call_gate
from continuations.authoring.call_gate import CallGate, CallNotBegun
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine import agent_builders
from tests.scripts import call

if TYPE_CHECKING:
    from tests.scripts import Script


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
    outcome = runner.start("go", run_id="r1")

    assert isinstance(outcome, Finished)
    assert ["blocked", "paid"] == agent_builders.root_tool_results(outcome)
    [seconds] = left
    assert seconds > 15


def test_call_whose_thread_starts_late_begins_with_a_fresh_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The claim is checked in the thread, and a late call is not made."""
    clock, store = ManualClock(), MemoryStore()
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
    outcome = runner.start("go", run_id="r1")

    assert isinstance(outcome, Finished)
    assert (["paid"], []) == (agent_builders.root_tool_results(outcome), delays)
    [seconds] = left
    assert seconds > 15


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
