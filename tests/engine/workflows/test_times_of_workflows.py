"""Timeouts and what comes after them: approvals, answers and events."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Answer,
    Approve,
    Fail,
    Failed,
    Flow,
    Runner,
    Suspended,
    ask,
    external,
    wait_for,
    workflow,
)
from continuations.errors import CallError, CallExpired, CallFailed, WaitExpired
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.workflows.flow_tools import RUN, add, fail, make_runner, pay, the_wait
from tests.outcomes import expect


def limited(seconds: int) -> Any:
    """Return a workflow that pays within a time, or adds."""

    @workflow(tools=[pay, add], name="limited")
    async def code(flow: Flow) -> str:
        try:
            async with asyncio.timeout(seconds):
                return await flow.call(pay, 5)
        except TimeoutError:
            return str(await flow.call(add, 1, 1))

    return code


def test_due_timeout_wins_against_an_approved_call() -> None:
    clock, code = ManualClock(), limited(60)
    runner = make_runner(code, clock=clock)
    waiting = runner.start(code.bind(), run_id=RUN)
    clock.seconds = 30
    runner.decide(the_wait(waiting), Approve(by="kim"))
    clock.seconds = 61

    assert "2" == runner.resume(RUN).result()
    assert ["add 1+1"] == effect_log.names()


@pytest.mark.parametrize(
    ("seconds", "due", "effects"), [(30, 31, ["add 1+1"]), (600, 599, ["pay 5"])]
)
def test_length_of_a_timeout_that_has_not_ended_may_change(
    seconds: int, due: int, effects: list[str], store: MemoryStore, clock: ManualClock
) -> None:
    old, new = limited(60), limited(seconds)
    waiting = make_runner(old, store=store, clock=clock).start(old.bind(), run_id=RUN)
    runner = make_runner(new, store=store, clock=clock)
    runner.resume(RUN)
    alarm = next(each for each in runner.look(RUN).waits if each.kind == "alarm")
    assert clock.now() + timedelta(seconds=seconds) == alarm.deadline

    clock.seconds = due
    runner.decide(the_wait(waiting), Approve(by="kim"))
    runner.resume(RUN)

    assert effects == effect_log.names()


def test_same_limit_for_people_refuses_late_answers(clock: ManualClock) -> None:
    @workflow
    async def asks(_flow: Flow) -> str:
        try:
            async with asyncio.timeout(60):
                return await ask("A?", within=60)
        except (TimeoutError, CallExpired):
            return "late"

    runner = make_runner(asks, clock=clock)
    waiting = runner.start(asks.bind(), run_id=RUN)
    clock.seconds = 61

    with pytest.raises(WaitExpired):
        runner.decide(the_wait(waiting, "question"), Answer("a"))

    assert "late" == runner.resume(RUN).result()


@workflow
async def rounds(_flow: Flow) -> list[str]:
    """Await an event twice, for a minute each."""
    seen: list[str] = []
    for _ in range(2):
        try:
            async with asyncio.timeout(60):
                seen.append(await wait_for("news", str))
        except TimeoutError:
            seen.append("none")
    return seen


@workflow
async def one_task(_flow: Flow) -> list[str]:
    """Await an event in one task, for two rounds of a minute."""
    news = asyncio.create_task(wait_for("news", str))
    seen: list[str] = []
    while len(seen) < 2:
        done, _ = await asyncio.wait({news}, timeout=60)
        seen.append(news.result() if done else "none")
    return seen


@pytest.mark.parametrize(
    ("code", "seen"), [(rounds, ["none", "none"]), (one_task, ["none", "now"])]
)
@pytest.mark.parametrize("sends", ["publish", "signal"])
def test_event_after_a_due_timeout_belongs_to_the_wait_before(
    code: Any, seen: list[str], sends: str, clock: ManualClock
) -> None:
    """A task that outlives the round gets it."""

    def send(runner: Runner) -> None:
        if sends == "publish":
            runner.publish("news", "now")
        else:
            runner.signal(RUN, "news", data="now", by="kim")

    runner = make_runner(code, clock=clock)
    runner.start(code.bind(), run_id=RUN)
    clock.seconds = 70
    send(runner)

    outcome = runner.resume(RUN)
    if isinstance(outcome, Suspended):
        clock.seconds = 200
        outcome = runner.resume(RUN)

    assert seen == outcome.result()


def test_failing_task_closes_the_waits_of_its_group(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @workflow(tools=[pay, fail])
    async def groups(flow: Flow) -> str:
        async def fails() -> None:
            await ask("Fail?")
            await flow.call(fail, "no")

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(flow.call(pay, 1))
                group.create_task(ask("Well?"))
                group.create_task(fails())
        except* CallFailed:
            pass
        return await ask("Over?")

    runner = make_runner(groups)
    waiting = expect(runner.start(groups.bind(), run_id=RUN), Suspended)
    ids = {wait.question or wait.kind: wait.id for wait in waiting.waits}
    runner.decide(ids["Fail?"], Answer("yes"))
    with caplog.at_level("CRITICAL"):
        outcome = runner.resume(RUN)

    assert [the_wait(outcome, "question")] == [wait.id for wait in runner.waiting()]
    closed = {each.wait: each.reason for each in runner.audit(RUN)}
    assert "The workflow cancelled it." == closed[ids["approval"]]
    assert "The workflow cancelled it." == closed[ids["Well?"]]
    assert [] == effect_log.names()


@pytest.mark.parametrize(
    ("wait", "end"),
    [
        (lambda: ask("Well?", within=60), "CallExpired expired"),
        (lambda: wait_for("paid", within=60), "CallExpired expired"),
        (lambda: external("scan", within=60), "CallExpired expired"),
        (
            lambda: wait_for("paid", within=60, on_deadline=Fail("unpaid")),
            "CallFailed failed",
        ),
    ],
    ids=["ask", "wait_for", "external", "declared"],
)
def test_wait_without_an_end_in_time_is_expired(wait: Any, end: str) -> None:
    """A declared failure is a failure."""

    @workflow
    async def waits(_flow: Flow) -> str:
        try:
            await wait()
        except CallError as error:
            return f"{type(error).__name__} {error.code}"
        return "came"

    clock, store = ManualClock(), MemoryStore()
    runner = make_runner(waits, store=store, clock=clock)
    runner.start(waits.bind(), run_id=RUN)
    clock.seconds = 61

    assert end == make_runner(waits, store=store, clock=clock).resume(RUN).result()


# Workflows that nothing wakes -------------------------------------------------


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


def test_call_that_the_code_cancelled_wakes_nothing() -> None:
    """It is closed, also if a process dies there, and it never begins."""

    @workflow(tools=[add, pay])
    async def cancels(flow: Flow) -> None:
        paying = asyncio.create_task(flow.call(pay, 1))
        await ask("Stop?")
        paying.cancel()
        await asyncio.Event().wait()

    for point in every_crash("before", "after", more_than=5):
        effect_log.clear()
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
        assert [] == effect_log.names()
        runner.sweep()
        assert [] == list(runner.waiting()), point
