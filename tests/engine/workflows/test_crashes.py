"""Processes of workflows that die at any storage operation; fresh interpreters."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Finished,
    Flow,
    Suspended,
    ask,
    sleep,
    workflow,
)
from continuations.errors import AlreadyDecided, RunBusy, RunNotFound
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.engine.workflows.flow_tools import RUN, add, make_runner, pay
from tests.python_path import python_path
from tests.run_environment import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Runner
    from continuations_storage import Store
    from tests.run_environment import RunEnvironment


def make_nested() -> Any:
    """Return an agent that calls a workflow that calls an agent and a workflow."""
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

    return outer


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
    make: Callable[[], Any], store: Store, clock: ManualClock, start: Any
) -> Any:
    """Let fresh processes finish a run; approve and answer whatever is asked."""
    for _ in range(40):
        runner = make_runner(make(), store=store, clock=clock)
        try:
            outcome = runner.resume(RUN)
        except RunNotFound:
            outcome = runner.start(start(runner), run_id=RUN)
        except RunBusy:
            clock.seconds += 120
            continue
        if not isinstance(outcome, Suspended):
            return outcome
        for wait in outcome.waits:
            decide(runner, wait, clock)
    pytest.fail("the run does not end")


def decide(runner: Runner, wait: Any, clock: ManualClock) -> None:
    """End a wait, as a person or the clock does."""
    try:
        if wait.kind == "question":
            runner.decide(wait.id, Answer("mac"))
        elif wait.kind == "approval":
            runner.decide(wait.id, Approve(by="kim"))
        elif wait.kind == "unknown":
            clock.seconds += 120
            runner.decide(wait.id, Answer(5 if wait.tool == "add" else "paid"))
        else:
            clock.seconds += 61
    except AlreadyDecided:
        pass


@pytest.mark.parametrize("moment", ["before", "after"])
def test_nested_workflow_survives_a_crash_at_every_operation(
    moment: Any, environment: RunEnvironment
) -> None:
    def start(runner: Runner) -> Any:
        return runner.root_agent().bind(5)  # type: ignore[attr-defined]

    for point in every_crash(moment, more_than=5, step=5):
        store, clock = MemoryStore(), ManualClock()
        effects = len(environment.effects())
        with point.process(store) as dying:
            runner = make_runner(make_nested(), store=dying, clock=clock)
            outcome = runner.start(start(runner), run_id=RUN)
            assert isinstance(outcome, Suspended)
            for wait in outcome.waits:
                decide(runner, wait, clock)
            runner.resume(RUN)
        clock.seconds += 120

        ended = finish(make_nested, store, clock, start)

        assert isinstance(ended, Finished)
        assert "told, paid" in ended.result()
        done = environment.effect_names()[effects:]
        # A call whose outcome is unknown is said to have happened, and runs no more.
        assert {"add 5+10", "pay 3", "pay 5"} >= {*done}, point
        assert len(done) == len({*done}), point
        clock.seconds += 3600
        make_runner(make_nested(), store=store, clock=clock).sweep()
        clock.seconds += 86_400
        make_runner(make_nested(), store=store, clock=clock).sweep()
        assert [] == remaining_keys(store)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_given_up_calls_never_begin_after_a_crash(
    moment: Any, environment: RunEnvironment
) -> None:
    """No process takes the decision "cancel" for a denial by a person."""

    def start(runner: Runner) -> Any:
        return runner.root_agent().bind()  # type: ignore[attr-defined]

    for point in every_crash(moment, more_than=5, step=5):
        store, clock = MemoryStore(), ManualClock()
        runner = make_runner(make_race(), store=store, clock=clock)
        waiting = runner.start(start(runner), run_id=RUN)
        assert isinstance(waiting, Suspended)
        (question,) = [w for w in waiting.waits if w.kind == "question"]
        assert 3 == len(waiting.waits)
        effects = len(environment.effects())
        runner.decide(question.id, Answer("stop"))
        with point.process(store) as dying:
            make_runner(make_race(), store=dying, clock=clock).resume(RUN)
        clock.seconds += 120

        ended = finish(make_race, store, clock, start)

        assert isinstance(ended, Finished)
        assert "stop ['CancelledError', 'CancelledError'] 5" == ended.result()
        done = environment.effect_names()[effects:]
        assert "pay 1" not in done
        assert "pay 3" not in done
        runner = make_runner(make_race(), store=store, clock=clock)
        assert [] == list(runner.waiting())


PROGRAM = """
import asyncio, json, os, sys
from continuations import Agent, Answer, Approve, Flow, Runner, ask, workflow
from tests.engine.workflows.flow_tools import add, pay
from tests.engine.workflows.test_crashes import make_nested

runner = Runner(make_nested(), store=sys.argv[1])
match sys.argv[2]:
    case "start":
        outcome = runner.start(runner.root_agent().bind(5), run_id="r1")
    case "resume":
        outcome = runner.resume("r1")
    case wait_id:
        is_question = wait_id.startswith("question")
        runner.decide(wait_id, Answer("mac") if is_question else Approve(by="kim"))
        sys.exit()
waits = getattr(outcome, "waits", ())
print(json.dumps([type(outcome).__name__, [w.id for w in waits if w.call_id]]))
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
            env={**os.environ, "PYTHONPATH": python_path(ROOT)},
        )
        return json.loads(done.stdout or "null")

    status, waits = process("start")
    for _ in range(4):
        if not waits:
            break
        for wait_id in waits:
            process(wait_id)
        status, waits = process("resume")

    assert "Suspended" == status  # it sleeps for a minute
    assert ["add 5+10", "pay 3", "pay 5"] == sorted(environment.effect_names())
