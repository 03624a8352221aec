"""A tool that does not return in time, and whether its call may be repeated."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from continuations import (
    Answer,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Runner,
    Suspended,
    resume,
    run,
    tool,
)
from continuations.errors import DecisionRefused
from continuations.tools import Tool
from continuations.wire.records import WAIT
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results, text_tool
from tests.engine.shared_store import SharedStore
from tests.outcomes import expect, single_wait
from tests.scripts import call

SCRIPT: Any = {"go": [[call("pay", cents=5)], "end"]}
TOLD = (
    "ERROR: the tool did not return within 0.01 s. It is not known whether it had an "
    "effect."
)


def make_slow_tool(**options: Any) -> Any:
    """Return a tool whose first attempt takes too long."""

    @tool(name="pay", timeout=0.01, **options)
    async def pay(cents: int) -> str:
        """Pay."""
        effect_log.append_effect("pay", str(cents))
        await asyncio.Event().wait()
        return "paid"

    return pay


def make_runner(clock: ManualClock | None = None, **options: Any) -> Runner:
    """Return a runner of an agent that calls a slow tool."""
    boss = make_boss(SCRIPT, make_slow_tool(**options))
    return Runner(boss, store=MemoryStore(), clock=clock or ManualClock())


def test_timeout_of_an_unrepeatable_tool_makes_its_outcome_unknown() -> None:
    runner = make_runner()

    wait = single_wait(runner.start("go", run_id="r1"))

    assert ("unknown", {"cents": 5}) == (wait.kind, wait.arguments)
    assert "The tool did not return within 0.01 s." == wait.note
    runner.decide(wait.id, Answer("paid after all"))
    ended = expect(runner.resume("r1"), Finished)
    assert ["paid after all"] == root_tool_results(ended)
    assert ["pay 5"] == effect_log.names()


def test_unknown_outcome_of_a_timeout_is_listed_and_stored(store: MemoryStore) -> None:
    runner = Runner(make_boss(SCRIPT, make_slow_tool()), store=store)

    wait = single_wait(runner.start("go", run_id="r1"))

    assert [wait.id] == [summary.id for summary in runner.waiting()]
    assert runner.wait(wait.id).approve_after == wait.approve_after is not None
    stored = WAIT.decode(asyncio.run(store.read(f"waits/{wait.id}")), wait.id, "r1")
    assert stored.approve_after == wait.approve_after


@pytest.mark.parametrize(
    "options",
    [{"on_timeout": "tell_model"}, {"idempotent": True}, {"read_only": True}],
)
def test_timeout_is_a_tool_message_if_the_tool_says_so_or_may_be_repeated(
    options: dict[str, Any],
) -> None:
    ended = expect(make_runner(**options).start("go", run_id="r1"), Finished)

    assert [TOLD] == root_tool_results(ended)
    assert ["pay 5"] == effect_log.names()


def test_verify_is_asked_before_a_person() -> None:
    ended = make_runner(verify=lambda: Answer("it was paid")).start("go", run_id="r1")

    assert isinstance(ended, Finished)
    assert ["it was paid"] == root_tool_results(ended)
    assert ["pay 5"] == effect_log.names()


def test_verify_cannot_run_the_call_again_while_it_may_be_running() -> None:
    """A person decides after the claim, and nothing runs until then."""
    clock = ManualClock()
    runner = make_runner(clock, verify=Approve)

    wait = single_wait(runner.start("go", run_id="r1"))

    assert "unknown" == wait.kind
    assert ["pay 5"] == effect_log.names()
    clock.seconds = 31
    runner.decide(wait.id, Answer("paid after all"))
    ended = expect(runner.resume("r1"), Finished)
    assert ["paid after all"] == root_tool_results(ended)
    assert ["pay 5"] == effect_log.names()


def test_approval_is_refused_until_the_claim_that_began_the_call_is_over() -> None:
    """The function of a plain tool still runs in its thread, so it would run twice."""
    running, finish = threading.Event(), threading.Event()

    @tool(timeout=0.01)
    def pay(cents: int) -> str:
        """Pay, slowly."""
        effect_log.append_effect("pay", str(cents))
        running.set()
        assert finish.wait(60)
        return "paid"

    shared = SharedStore()
    runner = shared.machine(agents=make_boss(SCRIPT, pay))
    wait = single_wait(runner.start("go", run_id="r1"))
    assert running.wait(60)

    # While the claim lasts, the error names its end
    for seconds in (0, 15, 30):
        shared.clock.seconds = seconds
        with pytest.raises(DecisionRefused, match="until 2026-01-01 00:00:30 UTC"):
            runner.decide(wait.id, Approve(by="kim"))
    assert wait == runner.wait(wait.id)
    assert not [key for key in shared.markers() if "-d-" in key]

    # After it, the call may run again
    finish.set()
    shared.clock.seconds = 30.001
    runner.decide(wait.id, Approve(by="kim"))
    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 5", "pay 5"] == effect_log.names()


@pytest.mark.parametrize("verdict", [Deny(), Answer("paid")])
def test_denial_and_answer_need_not_wait_for_the_claim(verdict: Any) -> None:
    runner = make_runner()
    wait = single_wait(runner.start("go", run_id="r1"))

    runner.decide(wait.id, verdict)

    assert isinstance(runner.resume("r1"), Finished)
    assert ["pay 5"] == effect_log.names()


async def test_siblings_go_on_after_a_timeout() -> None:
    book = text_tool("book", "booked", {"room": str}, logs=True)
    script: Any = {"go": [[call("pay", cents=5), call("book", room="1")], "end"]}

    boss = make_boss(script, make_slow_tool(), book)
    runner = AsyncRunner(boss, store=MemoryStore())
    wait = single_wait(await runner.start("go", run_id="r1"))
    await runner.decide(wait.id, Answer("paid"))
    ended = await runner.resume("r1")
    assert ["paid", "booked"] == root_tool_results(ended)
    assert ["book 1", "pay 5"] == sorted(effect_log.names())


def test_timeout_without_a_store() -> None:
    """Without a store there is no claim to wait for."""
    boss = make_boss(SCRIPT, make_slow_tool())
    outcome = expect(run(boss, "go"), Suspended)

    data = outcome.continuation.to_bytes()
    ended = resume(data, boss, answers={outcome.waits[0].id: Answer("paid")})

    assert isinstance(ended, Finished)
    assert ["pay 5"] == effect_log.names()


def test_schema_tool_has_the_option_too() -> None:
    async def pay(arguments: dict[str, Any]) -> str:
        await asyncio.Event().wait()
        return str(arguments)

    schema = {"type": "object", "properties": {"cents": {"type": "integer"}}}
    made = Tool.from_schema("pay", schema, pay, timeout=0.01, on_timeout="tell_model")

    ended = Runner(make_boss(SCRIPT, made), store="memory:").start("go", run_id="r1")

    assert [TOLD] == root_tool_results(ended)
