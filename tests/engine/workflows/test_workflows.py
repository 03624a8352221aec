"""Workflows: their calls, waits, timers, errors and results."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    AsyncRunner,
    Deny,
    Fail,
    Failed,
    Flow,
    Suspended,
    ask,
    errors,
    external,
    resume,
    run,
    sleep,
    sleep_until,
    tool,
    wait_for,
    workflow,
)
from continuations.core.reading.run_stream import event_words
from continuations.events import CallProposed, CallsLeftOpen, RunEnded
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.workflows.flow_tools import (
    RUN,
    add,
    clerk,
    fail,
    make_runner,
    objects,
    order,
    pay,
    the_wait,
)
from tests.outcomes import expect

# One after another, and at the same time ---------------------------------------------


def test_calls_run_once_over_a_suspension(store: MemoryStore) -> None:
    @workflow(tools=[add, pay])
    async def bill(flow: Flow, items: int) -> str:
        total = 0
        for item in range(items):
            total = await flow.call(add, total, second=item)
        return await flow.call(pay, total)

    waiting = make_runner(bill, store=store).start(bill.bind(3), run_id=RUN)
    make_runner(bill, store=store).decide(the_wait(waiting), Approve(by="kim"))

    assert "paid 3" == make_runner(bill, store=store).resume(RUN).result()
    assert ["add 0+0", "add 0+1", "add 1+2", "pay 3"] == effect_log.names()


def test_branches_wait_at_the_same_time() -> None:
    @workflow(tools=[pay])
    async def both(flow: Flow) -> list[str]:
        async with asyncio.TaskGroup() as group:
            paid = [group.create_task(flow.call(pay, cents)) for cents in (1, 2)]
        return [task.result() for task in paid]

    runner = make_runner(both)
    waiting = expect(runner.start(both.bind(), run_id=RUN), Suspended)
    assert 2 == len(waiting.waits)

    runner.decide(waiting.waits[1].id, Approve(by="kim"))
    assert isinstance(runner.resume(RUN), Suspended)
    assert ["pay 2"] == effect_log.names()

    runner.decide(waiting.waits[0].id, Approve(by="kim"))
    assert ["paid 1", "paid 2"] == runner.resume(RUN).result()
    assert ["pay 2", "pay 1"] == effect_log.names()


def test_agents_and_workflows_are_called_like_tools() -> None:
    @workflow(tools=[add])
    async def sum_up(flow: Flow, numbers: list[int]) -> dict[str, int]:
        total = 0
        for number in numbers:
            total = await flow.call(add, total, number)
        return {"total": total}

    helper = clerk()

    @workflow(agents=[helper, sum_up])
    async def report(flow: Flow) -> str:
        text, sums = await asyncio.gather(
            flow.call(helper, "go"), flow.call(sum_up, [1, 2, 3])
        )
        return f"{text}: {sums['total']}"

    assert "hello: 6" == run(report.bind()).result()


def test_workflow_is_a_tool_of_an_agent() -> None:
    @workflow(tools=[pay])
    async def payroll(flow: Flow, cents: int) -> dict[str, str]:
        """Pay everybody."""
        return {"receipt": await flow.call(pay, cents)}

    model = ScriptedModel([ToolCall("payroll", {"cents": 7}), "done"])
    boss = Agent("boss", tools=[payroll], model=model)
    runner = make_runner(boss)

    waiting = expect(runner.start("go", run_id=RUN), Suspended)
    assert ("boss", "payroll", "pay") == waiting.waits[0].path
    runner.decide(waiting.waits[0].id, Approve(by="kim"))

    assert "done" == runner.resume(RUN).result()
    assert ["pay 7"] == effect_log.names()
    messages = runner.look(RUN).root.messages
    assert '{"receipt":"paid 7"}' in [each.get("content") for each in messages]
    offered = payroll.as_tool()
    assert "Pay everybody." == offered.description
    assert ["cents"] == list(offered.parameters["properties"])


def test_first_of_several_cancels_the_others() -> None:
    @workflow
    async def first(_flow: Flow) -> str:
        asked = {asyncio.create_task(ask(text)) for text in ("A?", "B?", "C?")}
        done, pending = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        (answer,) = done
        return answer.result()

    runner = make_runner(first)
    waiting = expect(runner.start(first.bind(), run_id=RUN), Suspended)
    by_text = {wait.question: wait.id for wait in waiting.waits}

    runner.decide(by_text["B?"], Answer("b"))

    assert "b" == runner.resume(RUN).result()
    assert [] == list(runner.waiting())
    with pytest.raises(errors.Cancelled):
        runner.decide(by_text["A?"], Answer("a"))
    lines = [each for each in runner.audit(RUN) if each.verdict == "cancel"]
    assert {by_text["A?"], by_text["C?"]} == {line.wait for line in lines}
    assert ["The workflow cancelled it."] * 2 == [line.reason for line in lines]


def test_outcomes_come_in_the_order_of_their_decisions(clock: ManualClock) -> None:
    """Not in the order in which the waits were opened."""

    @workflow
    async def race(_flow: Flow) -> list[str]:
        tasks = [asyncio.create_task(ask(text)) for text in ("A?", "B?")]
        return [await each for each in asyncio.as_completed(tasks)]

    runner = make_runner(race, clock=clock)
    waiting = expect(runner.start(race.bind(), run_id=RUN), Suspended)
    for wait in reversed(waiting.waits):
        clock.seconds += 1
        runner.decide(wait.id, Answer(f"to {wait.question}"))

    assert ["to B?", "to A?"] == runner.resume(RUN).result()


# Waits and time ----------------------------------------------------------------------


def test_every_wait_is_awaited() -> None:
    @workflow
    async def waits(_flow: Flow) -> list[Any]:
        return [
            await ask("How many?", int),
            await wait_for("receipt", dict[str, int], key="o-1"),
            await external("render"),
        ]

    runner = make_runner(waits)
    outcome = runner.start(waits.bind(), run_id=RUN)

    question = the_wait(outcome, "question")
    assert ("waits",) == runner.wait(question).path
    with pytest.raises(errors.DecisionRefused):
        runner.decide(question, Answer("many"))
    runner.decide(question, Answer(3))
    outcome = runner.resume(RUN)
    runner.publish("receipt", {"cents": 5}, key="o-1")
    outcome = runner.resume(RUN)
    runner.decide(the_wait(outcome, "external"), Answer(["a.png"]))

    assert [3, {"cents": 5}, ["a.png"]] == runner.resume(RUN).result()


@pytest.mark.parametrize(
    ("verdict", "error"),
    [
        (Deny(by="kim", reason="no"), errors.CallDenied),
        (None, errors.CallExpired),
    ],
)
def test_refused_wait_raises_where_it_is_awaited(
    verdict: Deny | None, error: type[errors.CallError], clock: ManualClock
) -> None:
    @workflow
    async def asks(_flow: Flow) -> str:
        try:
            return await ask("Well?", within=60)
        except errors.CallError as caught:
            return f"{type(caught).__name__} {caught.tool} {caught.call}"

    runner = make_runner(asks, clock=clock)
    waiting = runner.start(asks.bind(), run_id=RUN)
    if verdict is not None:
        runner.decide(the_wait(waiting, "question"), verdict)
    clock.seconds = 61

    call_id = runner.look(RUN).waits[0].call_id
    assert f"{error.__name__} .ask {call_id}" == runner.resume(RUN).result()


def test_failed_job_raises_with_its_error() -> None:
    @workflow
    async def renders(_flow: Flow) -> str:
        try:
            return str(await external("render"))
        except errors.CallFailed as caught:
            return f"{caught.code}: {caught.text}"

    runner = make_runner(renders)
    waiting = runner.start(renders.bind(), run_id=RUN)
    runner.decide(the_wait(waiting, "external"), Fail("no paper"))

    assert "failed: no paper" == runner.resume(RUN).result()


def test_sleeping_workflow_costs_nothing_and_goes_on_at_its_time() -> None:
    moment = datetime(2026, 1, 3, tzinfo=UTC)

    @workflow
    async def sleeps(flow: Flow) -> list[str]:
        seen = [flow.now().isoformat()]
        await sleep(timedelta(hours=1))
        seen.append(flow.now().isoformat())
        await asyncio.sleep(0.25)
        seen.append(flow.now().isoformat())
        await sleep_until(moment)
        return [*seen, flow.now().isoformat()]

    clock, store = ManualClock(), MemoryStore()
    runner = make_runner(sleeps, store=store, clock=clock)
    outcome = runner.start(sleeps.bind(), run_id=RUN)
    for seconds in (3601, 2 * 86_400 + 5):
        assert isinstance(outcome, Suspended)
        assert ["alarm"] == [wait.kind for wait in outcome.waits]
        before = objects(store)
        assert isinstance(runner.resume(RUN), Suspended)
        assert before == objects(store)
        clock.seconds = seconds
        swept = runner.sweep()
        (outcome,) = swept.resumed

    assert [
        "2026-01-01T00:00:00+00:00",
        "2026-01-01T01:00:00+00:00",
        "2026-01-01T01:00:00.250000+00:00",
        "2026-01-03T00:00:00+00:00",
    ] == outcome.result()


def test_limit_of_time_ends_an_approval_that_nobody_gives(clock: ManualClock) -> None:
    @workflow(tools=[pay, add])
    async def limited(flow: Flow) -> str:
        try:
            async with asyncio.timeout(60):
                return await flow.call(pay, 5)
        except TimeoutError:
            return str(await flow.call(add, 1, 1))

    runner = make_runner(limited, clock=clock)
    waiting = runner.start(limited.bind(), run_id=RUN)
    wait_id = the_wait(waiting)
    clock.seconds = 61

    assert "2" == runner.resume(RUN).result()
    assert ["add 1+1"] == effect_log.names()
    with pytest.raises(errors.Cancelled):
        runner.decide(wait_id, Approve(by="kim"))
    (line,) = runner.audit(RUN)
    assert (wait_id, "cancel") == (line.wait, line.verdict)
    assert "The workflow cancelled it." == line.reason


def test_answer_that_comes_after_the_timer_is_late(clock: ManualClock) -> None:
    """The code saw the timer first, also if no process looked in between."""

    @workflow
    async def limited(_flow: Flow) -> str:
        try:
            async with asyncio.timeout(60):
                return await ask("A?")
        except TimeoutError:
            return "late"

    runner = make_runner(limited, clock=clock)
    waiting = runner.start(limited.bind(), run_id=RUN)
    clock.seconds = 100
    runner.decide(the_wait(waiting, "question"), Answer("a"))

    assert "late" == runner.resume(RUN).result()


# Errors and results ------------------------------------------------------------------


def test_errors_of_calls_are_exceptions(caplog: pytest.LogCaptureFixture) -> None:
    @workflow(tools=[fail, pay, order])
    async def tries(flow: Flow) -> list[str]:
        seen: list[str] = []
        for made in (flow.call(fail, "no"), flow.call(pay, 1), flow.call(order, "x")):
            try:
                await made
            except errors.CallError as error:
                seen.append(f"{type(error).__name__} {error.tool} {error.code}")
        return seen

    clock = ManualClock()
    runner = make_runner(tries, clock=clock)
    with caplog.at_level(logging.CRITICAL):
        waiting = runner.start(tries.bind(), run_id=RUN)
    runner.decide(the_wait(waiting), Deny(by="kim"))
    runner.resume(RUN)
    clock.seconds = 3601

    assert [
        "CallFailed fail exception",
        "CallDenied pay denied",
        "CallExpired order expired",
    ] == runner.resume(RUN).result()
    assert [] == effect_log.names()


@pytest.mark.parametrize("catches", [True, False])
def test_operator_cancels_one_call(catches: bool) -> None:
    @workflow(tools=[pay])
    async def pays(flow: Flow) -> str:
        try:
            return await flow.call(pay, 1)
        except errors.CallCancelled as error:
            if catches:
                return error.code
            raise

    runner = make_runner(pays)
    runner.start(pays.bind(), run_id=RUN)
    runner.cancel(RUN, call="pays/pay")

    ended = runner.resume(RUN)

    if catches:
        assert "cancelled" == ended.result()
    else:
        assert isinstance(ended, Failed)
        assert "call" == ended.error.code
    assert [] == effect_log.names()


def test_exception_of_the_code_fails_the_run_and_is_not_retried() -> None:
    seen: list[int] = []

    @workflow
    async def breaks(_flow: Flow) -> None:
        seen.append(1)
        raise LookupError("nothing there")

    runner = make_runner(breaks)
    ended = expect(runner.start(breaks.bind(), run_id=RUN), Failed)

    assert ("exception", "LookupError: nothing there") == (
        ended.error.code,
        ended.error.message,
    )
    assert isinstance(runner.resume(RUN), Failed)
    assert [1] == seen


def test_exit_of_the_code_fails_the_run() -> None:
    @workflow
    async def leaves(_flow: Flow) -> None:
        raise SystemExit(3)

    ended = expect(make_runner(leaves).start(leaves.bind(), run_id=RUN), Failed)

    assert "SystemExit: 3" == ended.error.message


@tool
def text_or_number(text: str) -> str | int:
    """Return a text that looks like a number."""
    return text


@tool
def anything(flag: bool) -> object:
    """Return a text or a truth value."""
    return "true" if flag else True


def test_results_keep_their_types() -> None:
    """A text that looks like JSON stays a text."""

    @workflow(tools=[text_or_number, anything])
    async def types(flow: Flow) -> list[Any]:
        return [
            await flow.call(text_or_number, "5"),
            await flow.call(anything, flag=True),
            await flow.call(anything, flag=False),
        ]

    assert ["5", "true", True] == run(types.bind()).result()


def test_answer_instead_of_a_call_has_its_type() -> None:
    @tool(approval=True)
    def count(what: str) -> int:
        """Count."""
        return len(what)

    @workflow(tools=[count])
    async def counts(flow: Flow) -> int:
        return 1 + await flow.call(count, "abc")

    runner = make_runner(counts)
    wait_id = the_wait(runner.start(counts.bind(), run_id=RUN))
    with pytest.raises(errors.DecisionRefused):
        runner.decide(wait_id, Answer("many"))
    runner.decide(wait_id, Answer(41))

    assert 42 == runner.resume(RUN).result()
    assert [] == effect_log.effects()


def test_result_without_json_fails_the_run() -> None:
    @workflow
    async def returns(_flow: Flow) -> Any:
        return object()

    ended = expect(make_runner(returns).start(returns.bind(), run_id=RUN), Failed)

    assert "result" == ended.error.code


# Without a store ---------------------------------------------------------------------


def test_workflow_runs_without_a_store(clock: ManualClock) -> None:
    @workflow(tools=[pay])
    async def pays(flow: Flow, cents: int) -> str:
        receipt = await flow.call(pay, cents)
        await sleep(60)
        return receipt

    waiting = run(pays.bind(5), clock=clock)
    answers = {the_wait(waiting): Approve(by="kim")}
    slept = resume(waiting.continuation.to_bytes(), pays, answers=answers, clock=clock)
    assert isinstance(slept, Suspended)
    clock.seconds = 61

    ended = resume(slept.continuation.to_bytes(), pays, clock=clock)

    assert "paid 5" == ended.result()
    assert ["pay 5"] == effect_log.names()


def test_event_names_the_calls_that_outlive_their_function() -> None:
    """They are no error, and the workflow ends with the last of them."""
    released = asyncio.Event()

    @tool
    async def slow() -> str:
        """Work for a while."""
        await released.wait()
        return "late"

    @tool
    async def quick() -> str:
        """Return at once."""
        return "quick"

    @workflow(tools=[slow, quick])
    async def race(flow: Flow) -> str:
        tasks = [asyncio.create_task(flow.call(each)) for each in (slow, quick)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()

    async def scenario() -> list[Any]:
        runner = AsyncRunner(race, store=MemoryStore())
        work = asyncio.create_task(runner.start(race.bind(), run_id=RUN))
        events: list[Any] = []
        while not any(isinstance(each, CallsLeftOpen) for each in events):
            await asyncio.sleep(0.01)
            with suppress(errors.RunNotFound):
                events = [each async for each in runner.events(RUN)]
        released.set()
        assert "quick" == (await work).result()
        return [each async for each in runner.events(RUN)]

    events = asyncio.run(asyncio.wait_for(scenario(), 60))

    [left] = [each for each in events if isinstance(each, CallsLeftOpen)]
    [proposed] = [
        each.call
        for each in events
        if isinstance(each, CallProposed) and each.tool == "slow"
    ]
    assert (proposed,) == left.calls
    assert f"function ends before {proposed}" == event_words(left)
    assert [RunEnded] == [type(each) for each in events[-1:]]
