"""The ends of calls: their texts, their events, and calls that the code gives up."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import datetime, timedelta
from typing import Any, Literal

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Flow,
    Runner,
    Suspended,
    ask,
    run,
    sleep,
    wait_for,
    workflow,
)
from continuations.authoring.workflow.drive import FlowDrive
from continuations.errors import CallError, InvalidInput, WorkflowChanged
from continuations.events import CallEnded, CallProposed, CallStarted
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from continuations_storage.faults import ForwardingStore
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.workflows.flow_tools import (
    RUN,
    add,
    clerk,
    fail,
    make_runner,
    objects,
    pay,
    the_wait,
)
from tests.outcomes import expect, single_wait
from tests.present.schema_check import assert_matches_schema
from tests.run_environment import RunEnvironment
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.test_run_pages import show

# Texts -------------------------------------------------------------------------------


@workflow(tools=[pay, fail])
async def with_texts(flow: Flow) -> list[str]:
    """Return what the code reads about calls that did not return."""
    texts: list[str] = []
    calls: list[Any] = [
        flow.call(fail, "no paper"),
        flow.call(pay, 1),
        flow.call(pay, 2),
    ]
    for call in calls:
        try:
            await call
        except CallError as error:
            texts.append(error.text)
    try:
        await ask("Well?")
    except CallError as error:
        texts.append(error.text)
    return texts


def test_code_reads_texts_without_the_words_for_models(
    environment: RunEnvironment,
) -> None:
    del environment
    runner = make_runner(with_texts)
    runner.start(with_texts.bind(), run_id=RUN)
    runner.decide(the_wait(runner.resume(RUN)), Deny(by="kim", reason="Too dear."))
    runner.cancel(RUN, call=single_wait(runner.resume(RUN)).call_id, by="kim")
    third = expect(runner.resume(RUN), Suspended)
    runner.cancel(RUN, call=third.waits[0].call_id, by="kim")

    assert [
        "the tool failed: ValueError: no paper",
        "a person refused this call. It was not executed. Reason: Too dear.",
        "it was not executed. An operator cancelled it.",
        "it was cancelled while it waited. An operator cancelled it.",
    ] == runner.resume(RUN).result()
    stored = [each.text for each in third.continuation.run_state.logs["f1"].messages]
    assert any("no paper" in text for text in stored)
    assert not [text for text in stored if "ERROR: " in text or "DENIED: " in text]


def test_answer_that_no_longer_fits_its_type_fails_the_call(
    environment: RunEnvironment,
) -> None:
    """It fitted when it was given, and the code of the next process takes less."""
    del environment

    def asks_for(type_: Any) -> Any:
        @workflow(name="work")
        async def work(_flow: Flow) -> str:
            try:
                return str(await ask("How many?", type_))
            except CallError as error:
                return f"{error.code}: {error.text}"

        return work

    store, wide, narrow = MemoryStore(), asks_for(int), asks_for(Literal[1, 2])
    waiting = make_runner(wide, store=store).start(wide.bind(), run_id=RUN)
    make_runner(wide, store=store).decide(the_wait(waiting, "question"), Answer(7))

    output = make_runner(narrow, store=store).resume(RUN).result()
    assert output.startswith("result: the result does not fit its type: ")


# Events ------------------------------------------------------------------------------


@workflow(tools=[add])
async def anew(flow: Flow, number: int = 0) -> int:
    """Begin anew in the version that has the outcome of a call."""
    await flow.call(add, number, 1)
    if number < 2:
        flow.restart(number + 1)
    return number


def test_call_that_ended_before_a_restart_has_an_event(
    environment: RunEnvironment,
) -> None:
    """The version has no result of it: its history has begun anew."""
    del environment
    runner = make_runner(anew)
    assert 2 == runner.start(anew.bind(), run_id=RUN).result()

    events = [*runner.events(RUN)]
    started = [each.call for each in events if isinstance(each, CallStarted)]
    assert started == [each.call for each in events if isinstance(each, CallEnded)]
    assert 3 == len(started)


def test_function_begins_anew_in_the_body_of_a_group(
    environment: RunEnvironment, clock: ManualClock
) -> None:
    """A TaskGroup raises what its body raises in a group."""

    @workflow(tools=[add])
    async def grouped(flow: Flow, number: int = 0) -> int:
        async with asyncio.TaskGroup() as group:
            group.create_task(sleep(timedelta(days=1)))  # pyright: ignore[reportArgumentType]
            await flow.call(add, number, 1)
            if number < 2:
                flow.restart(number + 1)
            return number

    runner = make_runner(grouped, clock=clock)
    runner.start(grouped.bind(), run_id=RUN)
    clock.seconds += timedelta(days=2).total_seconds()

    assert isinstance(runner.resume(RUN), Finished)
    assert ["add 0+1", "add 1+1", "add 2+1"] == environment.effect_names()


# Calls that the code gives up --------------------------------------------------------


def test_call_that_is_given_up_in_its_own_step_never_begins(
    environment: RunEnvironment, caplog: pytest.LogCaptureFixture, store: MemoryStore
) -> None:
    """No warning says that a call was not awaited: the code awaits its task."""

    @workflow(tools=[add])
    async def gives_up(flow: Flow) -> str:
        never = asyncio.create_task(flow.call(add, 1, 1))
        never.cancel()
        begun = asyncio.create_task(flow.call(add, 2, 2))
        await asyncio.sleep(0)
        begun.cancel()
        await flow.call(add, 3, 3)
        return await ask("Well?")

    runner = make_runner(gives_up, store=store)
    waiting = runner.start(gives_up.bind(), run_id=RUN)
    make_runner(gives_up, store=store).decide(
        the_wait(waiting, "question"), Answer("yes")
    )
    assert "yes" == make_runner(gives_up, store=store).resume(RUN).result()

    assert ["add 3+3"] == environment.effect_names()
    assert not [each for each in caplog.messages if "never awaited" in each]


def test_call_below_an_agent_that_is_given_up_never_begins(clock: ManualClock) -> None:
    """The limit of time passes while the worker writes that it works on the run."""

    class SlowStore(ForwardingStore):
        """A version takes two minutes."""

        async def create(self, key: str, body: bytes) -> datetime | None:
            done = await self.inner.create(key, body)
            clock.seconds += 120 if "/v/" in key else 0
            return done

    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "done"])
    boss = Agent("boss", tools=[pay], model=model)

    @workflow(agents=[boss])
    async def limited(flow: Flow) -> str:
        try:
            async with asyncio.timeout(100):
                return str(await flow.call(boss, "go"))
        except TimeoutError:
            return "too late"

    store = MemoryStore(clock.now)
    runner = make_runner(limited, store=store, clock=clock)
    waiting = runner.start(limited.bind(), run_id=RUN)
    runner.decide(the_wait(waiting), Approve(by="kim"))

    slow = make_runner(limited, store=SlowStore(store), clock=clock, lease=3600)
    assert "too late" == slow.resume(RUN).result()
    assert [] == effect_log.names()


def test_operator_cancels_one_branch_and_the_other_goes_on() -> None:
    @workflow(tools=[pay])
    async def both(flow: Flow) -> list[str]:
        calls = [flow.call(pay, cents) for cents in (1, 2)]
        done = await asyncio.gather(*calls, return_exceptions=True)
        return [str(each) for each in done]

    runner = make_runner(both)
    waiting = expect(runner.start(both.bind(), run_id=RUN), Suspended)
    first, second = waiting.waits
    runner.cancel(RUN, call=first.call_id, by="kim")
    runner.decide(second.id, Approve(by="kim"))

    cancelled, paid = runner.resume(RUN).result()
    assert "An operator cancelled it." in cancelled
    assert "paid 2" == paid
    assert ["pay 2"] == effect_log.names()


# What the developer is told ----------------------------------------------------------


def test_forgotten_await_of_a_wait_is_logged(
    environment: RunEnvironment, caplog: pytest.LogCaptureFixture, store: MemoryStore
) -> None:
    """A wait that is awaited later, in another process too, is no mistake."""
    del environment

    @workflow
    async def forgets(_flow: Flow) -> str:
        later = ask("First?")
        sleep(timedelta(days=30))
        answer = await ask("Second?")
        return answer + await later

    waiting = make_runner(forgets, store=store).start(forgets.bind(), run_id=RUN)
    text = (
        "sleep(...) was called in a workflow and never awaited, so it did not wait. "
        "Write: await sleep(...)."
    )
    assert [text] == [each for each in caplog.messages if "awaited" in each]
    for answer in ("a", "b"):
        make_runner(forgets, store=store).decide(
            the_wait(waiting, "question"), Answer(answer)
        )
        waiting = make_runner(forgets, store=store).resume(RUN)
    assert "ab" == waiting.output
    assert {text} == {each for each in caplog.messages if "awaited" in each}


def test_slow_step_is_logged(
    environment: RunEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    del environment

    @workflow(tools=[add])
    async def slow(flow: Flow) -> int:
        number = await flow.call(add, 1, 1)
        time.sleep(1.01)  # noqa: ASYNC251 - what a workflow must not do
        return number

    assert 2 == make_runner(slow).start(slow.bind(), run_id=RUN).result()
    text = next(each for each in caplog.messages if "a step took" in each)
    assert text.startswith("workflow slow: a step took ")
    assert text.endswith("Move the work to a tool.")


def test_run_takes_no_input_beside_the_arguments() -> None:
    @workflow
    async def echo(_flow: Flow, number: int) -> int:
        return number

    with pytest.raises(InvalidInput, match="an input was given too"):
        run(echo.bind(3), "x")
    assert 3 == run(echo.bind(3)).result()


# Replays -----------------------------------------------------------------------------


def test_drift_refuses_a_new_run_whose_arguments_do_not_fit(store: MemoryStore) -> None:
    """Its code has never run, so only its arguments can differ."""

    @workflow(name="work")
    async def before(_flow: Flow, first: int) -> int:
        return first

    @workflow(name="work")
    async def after(_flow: Flow, first: int, second: int) -> int:
        return first + second

    make_runner(before, store=store).start(before.bind(1), run_id=RUN, work=False)
    stored = objects(store)

    [row] = make_runner(after, store=store).drift(run=RUN)
    assert ["refuse"] == [why.verdict for why in row.why]
    with pytest.raises(WorkflowChanged, match="a new parameter needs a default"):
        make_runner(after, store=store).resume(RUN)
    assert stored == objects(store)
    assert 1 == make_runner(before, store=store).resume(RUN).result()


@pytest.mark.parametrize(("event", "key"), [("paid", "b"), ("sent", "a")])
def test_event_and_its_key_are_compared(event: str, key: str) -> None:
    def waits_for(event: str, key: str) -> Any:
        @workflow(name="work")
        async def work(_flow: Flow) -> Any:
            return await wait_for(event, int, key=key)

        return work

    store, first = MemoryStore(), waits_for("paid", "a")
    make_runner(first, store=store).start(first.bind(), run_id=RUN)

    with pytest.raises(WorkflowChanged, match="other arguments than the history"):
        make_runner(waits_for(event, key), store=store).resume(RUN)
    assert isinstance(make_runner(first, store=store).resume(RUN), Suspended)


async def test_outer_loop_comes_back_after_an_exception() -> None:
    """A replay that fails leaves the loop of its caller as it was."""

    outer = asyncio.get_running_loop()
    drive = FlowDrive(anew, 1)
    with pytest.raises(RuntimeError, match="broken"), drive.loop.running():
        raise RuntimeError("broken")
    assert asyncio.get_running_loop() is outer


# Tasks of calls ---------------------------------------------------------------


async def buy(flow: Flow, cents: int) -> str:
    total = await flow.call(add, cents, 1)
    return str(await flow.call(pay, total))


@workflow(tools=[add, pay])
async def shop(flow: Flow) -> list[Any]:
    """Buy in tasks: named, unnamed, nested, and one that is a call."""

    async def both() -> list[str]:
        return [*await asyncio.gather(buy(flow, 30), buy(flow, 40))]

    async with asyncio.TaskGroup() as group:
        named = group.create_task(buy(flow, 10), name="the lamp")
        plain = group.create_task(buy(flow, 20))
        nested = group.create_task(both())
        call = group.create_task(flow.call(pay, 50))
    last = await flow.call(pay, 60)
    return [named.result(), plain.result(), nested.result(), call.result(), last]


def tasks_of(runner: Runner[Any], run_id: str = RUN) -> dict[int, tuple[str, ...]]:
    """Return the tasks of each payment that waits, by its amount."""
    calls = runner.look(run_id).root.calls
    return {call.arguments["cents"]: call.tasks for call in calls if call.tool == "pay"}


EXPECTED = {
    11: ("the lamp",),
    21: ("buy 2",),
    31: ("both 1", "buy 3"),
    41: ("both 1", "buy 4"),
    50: (),
}


def test_a_call_has_the_names_of_its_tasks() -> None:
    """A task that runs one call is no level of its own."""
    runner = make_runner(shop)
    runner.start(shop.bind(), run_id=RUN)

    assert EXPECTED == tasks_of(runner)
    proposed = [e for e in runner.events(RUN) if isinstance(e, CallProposed)]
    assert [
        ("the lamp",),
        ("buy 2",),
        (),
        ("both 1", "buy 3"),
        ("both 1", "buy 4"),
    ] == [each.tasks for each in proposed[:5]]


def test_json_of_the_run_has_its_history_and_the_tasks() -> None:
    runner = make_runner(shop)
    runner.start(shop.bind(), run_id=RUN)

    report = json.loads(runner.look(RUN).to_json())

    assert_matches_schema("continuation", report)
    tasks = [tuple(each["tasks"]) for each in report["calls"]]
    assert sorted(EXPECTED.values()) == sorted(tasks)
    [frame] = report["frames"]
    assert ["user", "assistant"] == [each["role"] for each in frame["messages"][:2]]
    assert "returned" in {facts.get("end") for facts in frame["metadata"].values()}


def test_names_are_the_same_in_every_process() -> None:
    """Each process replays the code, and a fork and a rewind have the same names."""
    store, clock = MemoryStore(), ManualClock()
    outcome = make_runner(shop, store=store, clock=clock).start(shop.bind(), run_id=RUN)
    assert isinstance(outcome, Suspended)
    version = outcome.continuation.version
    seen: dict[int, tuple[str, ...]] = {}
    runner = make_runner(shop, store=store, clock=clock)
    for _ in range(5):
        runner = make_runner(shop, store=store, clock=clock)
        seen |= tasks_of(runner)
        runner.decide(runner.look(RUN).waits[0].id, Approve(by="kim"))
        runner.resume(RUN)
    runner.fork(RUN, version, run_id="fork")
    runner.resume("fork")

    assert EXPECTED == seen
    assert {60: ()} == tasks_of(runner)
    assert EXPECTED == tasks_of(runner, "fork")
    runner.rewind(RUN, version)
    assert EXPECTED == tasks_of(runner)


def test_task_of_a_wait_is_no_level() -> None:
    @workflow
    async def asks(_flow: Flow) -> list[str]:
        """Ask in a task, in a gather and in a named task of several waits."""

        async def twice() -> str:
            return await ask("Third?") + await ask("Fourth?")

        first = asyncio.create_task(ask("First?"))
        second = asyncio.gather(ask("Second?"), asyncio.create_task(twice()))
        return [await first, *await second]

    runner = make_runner(asks)
    runner.start(asks.bind(), run_id=RUN)

    calls = runner.look(RUN).root.calls
    assert {"First?": (), "Second?": (), "Third?": ("twice 1",)} == {
        call.arguments["question"]: call.tasks for call in calls
    }


def test_long_and_deep_names_are_cut() -> None:
    @workflow(tools=[pay])
    async def deep(flow: Flow) -> str:
        async def below(level: int) -> str:
            if level == 20:
                return str(await flow.call(pay, 1))
            return await asyncio.create_task(below(level + 1), name="x" * 100)

        return await below(0)

    runner = make_runner(deep)
    runner.start(deep.bind(), run_id=RUN)

    assert {1: ("x" * 60,) * 6} == tasks_of(runner)


def test_calls_of_models_have_no_tasks() -> None:
    model = ScriptedModel([ToolCall("pay", {"cents": 5})])
    runner = make_runner(Agent("boss", tools=[pay], model=model))
    runner.start("go", run_id=RUN)

    assert {5: ()} == tasks_of(runner)


def test_console_shows_calls_below_their_tasks() -> None:
    """A task waits while a call below it waits, and its calls have links."""
    store, clock = MemoryStore(), ManualClock()
    runner = make_runner(shop, clerk(), store=store, clock=clock)
    runner.start(shop.bind(), run_id=RUN)
    console = ConsoleClient(AsyncRunner([], store=store, clock=clock), {"clock": clock})

    [page] = show(console, f"/runs/{RUN}?open={RUN}")

    tree = page.partition("Agents and calls of this run")[2]
    assert "level 2: the lamp" in tree
    assert "level 3: add first: 10, second: 1" in tree
    assert "level 2: both 1" in tree
    assert "level 3: buy 3" in tree
    assert "level 2: pay 50" in tree
    assert "level 4: pay 31 waits" in tree
