"""Processes of workflows that die at any storage operation; fresh interpreters."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Finished,
    Flow,
    Runner,
    Suspended,
    Wait,
    ask,
    sleep,
    workflow,
)
from continuations.errors import AlreadyDecided, RunBusy, RunNotFound
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore, Store
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.engine.workflows.flow_tools import RUN, add, make_runner, pay
from tests.outcomes import expect
from tests.python_path import python_path
from tests.run_environment import ROOT, RunEnvironment


def make_nested() -> Any:
    """Return an agent that calls a workflow that calls an agent and a workflow."""

    def boss_reply(request: ModelRequest) -> Any:
        result = request.messages[-1]
        if result.role == "tool":
            return result.content
        return ToolCall("outer", {"cents": 5})

    teller = Agent(
        "teller",
        tools=[pay],
        model=ScriptedModel([ToolCall("pay", {"cents": 3}), "told"]),
    )

    @workflow(tools=[add])
    async def inner(flow: Flow, number: int) -> int:
        return await flow.call(add, number, 10)

    @workflow(tools=[add, pay], agents=[teller, inner])
    async def outer(flow: Flow, cents: int) -> str:
        async with asyncio.TaskGroup() as group:
            told = group.create_task(flow.call(teller, "go"))
            paid = group.create_task(flow.call(pay, cents))
            total = group.create_task(flow.call(inner, cents))
        laptop = await ask("Which laptop?")
        await sleep(timedelta(minutes=1))
        return f"{told.result()}, {paid.result()}, {total.result()}, {laptop}"

    return Agent("boss", tools=[outer], model=ScriptedModel(boss_reply))


def make_race() -> Any:
    """Return a workflow that gives up an approval and a nested one."""
    teller = Agent(
        "teller",
        tools=[pay],
        model=ScriptedModel([ToolCall("pay", {"cents": 3}), "told"]),
    )

    @workflow(tools=[add, pay], agents=[teller])
    async def race(flow: Flow) -> str:
        waiting = [
            asyncio.create_task(flow.call(pay, 1)),
            asyncio.create_task(flow.call(teller, "go")),
        ]
        answer = await ask("Stop?")
        for task in waiting:
            task.cancel()
        done = await asyncio.gather(*waiting, return_exceptions=True)
        total = await flow.call(add, 2, 3)
        return f"{answer} {[type(each).__name__ for each in done]} {total}"

    return race


def finish(
    make: Callable[[], Any],
    store: Store,
    clock: ManualClock,
    effect_names: Callable[[], list[str]],
) -> Any:
    """Let fresh processes finish a run; approve and answer whatever is asked."""
    for _ in range(40):
        runner = make_runner(make(), store=store, clock=clock)
        try:
            outcome = runner.resume(RUN)
        except RunNotFound:
            outcome = runner.start("go", run_id=RUN)
        except RunBusy:
            clock.seconds += 120
            continue
        if not isinstance(outcome, Suspended):
            return outcome
        for wait in outcome.waits:
            decide(runner, wait, clock, effect_names)
    pytest.fail("the run does not end")


def decide(
    runner: Runner,
    wait: Wait,
    clock: ManualClock,
    effect_names: Callable[[], list[str]],
) -> None:
    """End a wait, as a person who knows the effects does, or the clock."""
    try:
        if wait.kind == "question":
            runner.decide(wait.id, Answer("mac"))
        elif wait.kind == "approval":
            runner.decide(wait.id, Approve(by="kim"))
        elif wait.kind == "unknown":
            clock.seconds += 120
            numbers = [*wait.arguments.values()]
            ran = f"{wait.tool} {'+'.join(map(str, numbers))}" in effect_names()
            result = sum(numbers) if wait.tool == "add" else f"paid {numbers[0]}"
            runner.decide(wait.id, Answer(result) if ran else Approve(by="kim"))
        else:
            clock.seconds += 61
    except AlreadyDecided:
        pass


@pytest.mark.parametrize("moment", ["before", "after"])
def test_nested_workflow_survives_a_crash_at_every_operation(moment: Any) -> None:
    for point in every_crash(moment, more_than=5, step=5):
        effect_log.clear()
        store, clock = MemoryStore(), ManualClock()
        with point.process(store) as dying:
            runner = make_runner(make_nested(), store=dying, clock=clock)
            outcome = expect(runner.start("go", run_id=RUN), Suspended)
            for wait in outcome.waits:
                decide(runner, wait, clock, effect_log.names)
            runner.resume(RUN)
        clock.seconds += 120

        ended = expect(finish(make_nested, store, clock, effect_log.names), Finished)

        assert "told, paid 5, 15, mac" == ended.result(), point
        done = effect_log.names()
        assert ["add 5+10", "pay 3", "pay 5"] == sorted(done), point
        clock.seconds += 3600
        make_runner(make_nested(), store=store, clock=clock).sweep()
        clock.seconds += 86_400
        make_runner(make_nested(), store=store, clock=clock).sweep()
        assert [] == remaining_keys(store)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_given_up_calls_never_begin_after_a_crash(moment: Any) -> None:
    """No process takes the decision "cancel" for a denial by a person."""
    for point in every_crash(moment, more_than=5, step=5):
        effect_log.clear()
        store, clock = MemoryStore(), ManualClock()
        runner = make_runner(make_race(), store=store, clock=clock)
        waiting = expect(runner.start({}, run_id=RUN), Suspended)
        (question,) = [w for w in waiting.waits if w.kind == "question"]
        assert 3 == len(waiting.waits)
        runner.decide(question.id, Answer("stop"))
        with point.process(store) as dying:
            make_runner(make_race(), store=dying, clock=clock).resume(RUN)
        clock.seconds += 120

        ended = expect(finish(make_race, store, clock, effect_log.names), Finished)

        assert "stop ['CancelledError', 'CancelledError'] 5" == ended.result()
        assert ["add 2+3"] == effect_log.names(), point
        runner = make_runner(make_race(), store=store, clock=clock)
        assert [] == list(runner.waiting())


PROGRAM = """
import json, sys
from continuations import Answer, Approve, Runner
from tests.clocks import OffsetClock
from tests.engine.workflows.test_crashes import make_nested

clock = OffsetClock(120 if sys.argv[2] == "later" else 0)
# A quarter of the lease is how much the clock may be ahead of the store.
runner = Runner(make_nested(), store=sys.argv[1], clock=clock, lease=600)
match sys.argv[2]:
    case "start":
        outcome = runner.start("go", run_id="r1")
    case "resume" | "later":
        outcome = runner.resume("r1")
    case wait_id:
        is_question = wait_id.startswith("question")
        runner.decide(wait_id, Answer("mac") if is_question else Approve(by="kim"))
        sys.exit()
waits = getattr(outcome, "waits", ())
output = getattr(outcome, "output", None)
print(json.dumps([output, [w.id for w in waits if w.kind != "alarm"]]))
"""


@pytest.mark.fresh_interpreters
def test_workflow_goes_on_in_fresh_interpreters(environment: RunEnvironment) -> None:
    """They share only the store; each decision and each resume is a process."""

    def process(command: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, environment.store, command],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": python_path(ROOT, ROOT / "storage")},
        )
        return json.loads(done.stdout or "null")

    output, waits = process("start")
    for _ in range(4):
        if not waits:
            break
        for wait_id in waits:
            process(wait_id)
        output, waits = process("resume")
    assert output is None  # it sleeps for a minute

    assert ["told, paid 5, 15, mac", []] == process("later")
    assert ["add 5+10", "pay 3", "pay 5"] == sorted(environment.effect_names())
