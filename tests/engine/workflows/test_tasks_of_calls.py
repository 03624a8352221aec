"""People see in which task of the code of a workflow each call was made."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Flow,
    Runner,
    Suspended,
    ask,
    workflow,
)
from continuations.events import CallProposed
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.engine.workflows.flow_tools import RUN, add, clerk, make_runner, pay
from tests.present.schema_check import assert_matches_schema
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.test_run_pages import show


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
