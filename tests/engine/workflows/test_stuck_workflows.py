"""A workflow that nothing wakes any more fails, and every other one waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations import Answer, Approve, Failed, Flow, Suspended, ask, workflow
from continuations.errors import CallFailed
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.workflows.flow_tools import RUN, add, make_runner, pay, the_wait
from tests.outcomes import expect
from tests.run_environment import RunEnvironment


@workflow
async def event(_flow: Flow) -> None:
    """Await what no task sets."""
    await asyncio.Event().wait()


@workflow
async def lock(_flow: Flow) -> None:
    """Take a lock twice."""
    taken = asyncio.Lock()
    await taken.acquire()
    await taken.acquire()


@workflow
async def queue(_flow: Flow) -> None:
    """Read what no task writes."""
    await asyncio.Queue[int]().get()


@workflow
async def ages(_flow: Flow) -> None:
    """Sleep for ten thousand years."""
    await asyncio.sleep(10_000 * 365 * 86_400)


@pytest.mark.parametrize("code", [event, lock, queue, ages], ids=lambda each: each.name)
def test_function_that_nothing_wakes_fails(code: Any) -> None:
    ended = expect(make_runner(code).start(code.bind(), run_id=RUN), Failed)

    assert "stuck" == ended.error.code
    assert "no call, wait or timer" in ended.error.message


def test_function_is_stuck_after_its_last_outcome(store: MemoryStore) -> None:
    @workflow(tools=[add])
    async def late(flow: Flow) -> None:
        await flow.call(add, 1, 1)
        asking = asyncio.create_task(ask("Well?"))
        await asyncio.Event().wait()
        await asking

    waiting = make_runner(late, store=store).start(late.bind(), run_id=RUN)
    assert isinstance(make_runner(late, store=store).resume(RUN), Suspended)
    runner = make_runner(late, store=store)
    runner.decide(the_wait(waiting, "question"), Answer("yes"))

    for _ in range(2):
        ended = expect(make_runner(late, store=store).resume(RUN), Failed)
        assert "stuck" == ended.error.code
    assert ["add 1+1"] == effect_log.names()


def test_caller_of_a_stuck_workflow_goes_on() -> None:
    @workflow(agents=[event])
    async def outer(flow: Flow) -> str:
        try:
            await flow.call(event)
        except CallFailed as error:
            return error.code
        return "woken"

    assert "stuck" == make_runner(outer).start(outer.bind(), run_id=RUN).result()


def test_task_that_awaits_a_call_wakes_the_function(store: MemoryStore) -> None:
    @workflow(tools=[pay])
    async def woken(flow: Flow) -> str:
        paid = asyncio.Event()

        async def pays() -> None:
            await flow.call(pay, 1)
            paid.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(pays())
            await paid.wait()
        return "woken"

    waiting = make_runner(woken, store=store).start(woken.bind(), run_id=RUN)
    assert isinstance(make_runner(woken, store=store).resume(RUN), Suspended)
    runner = make_runner(woken, store=store)
    runner.decide(the_wait(waiting), Approve(by="kim"))

    assert "woken" == runner.resume(RUN).result()
    assert ["pay 1"] == effect_log.names()


def test_call_that_the_code_cancelled_wakes_nothing(
    environment: RunEnvironment,
) -> None:
    """It is closed, also if a process dies there, and it never begins."""

    @workflow(tools=[add, pay])
    async def cancels(flow: Flow) -> None:
        paying = asyncio.create_task(flow.call(pay, 1))
        await ask("Stop?")
        paying.cancel()
        await asyncio.Event().wait()

    for point in every_crash("before", "after", more_than=5):
        environment.clear_logs()
        store, clock = MemoryStore(), ManualClock()
        runner = make_runner(cancels, store=store, clock=clock)
        waiting = runner.start(cancels.bind(), run_id=RUN)
        runner.decide(the_wait(waiting, "question"), Answer("yes"))
        with point.process(store) as dying:
            make_runner(cancels, store=dying, clock=clock).resume(RUN)
        clock.seconds += 120

        runner = make_runner(cancels, store=store, clock=clock)
        ended = runner.resume(RUN)

        assert isinstance(ended, Failed), point
        assert "stuck" == ended.error.code
        assert [] == environment.effect_names()
        runner.sweep()
        assert [] == list(runner.waiting()), point
