"""`Runner` and `AsyncRunner` have the same methods."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import TYPE_CHECKING, Any

import pytest

from continuations import (
    Approve,
    AsyncRunner,
    ContinuationsError,
    Finished,
    Runner,
    Suspended,
    run,
    tool,
)
from continuations.engine.storeless import resume_async, run_async
from continuations_storage import MemoryStore
from tests.engine import agent_builders
from tests.engine.agent_builders import root_tool_results
from tests.engine.payment_agent import ONE_PAY_SCRIPT, pay
from tests.scripts import call

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Wait
    from tests.run_environment import RunEnvironment


def test_sync_call_inside_a_running_loop_names_the_async_runner(
    environment: RunEnvironment,
) -> None:
    """It would block the loop: nothing is called, and the error says what to use."""
    runner = agent_builders.make_runner(ONE_PAY_SCRIPT, pay)

    async def inside() -> None:
        calls: list[Callable[[], object]] = [
            lambda: runner.start("go", run_id="r"),
            lambda: list(runner.waiting()),
            lambda: runner.decide("approval-x@r", Approve()),
            lambda: run(agent_builders.make_boss(ONE_PAY_SCRIPT, pay), "go"),
        ]
        for each in calls:
            with pytest.raises(ContinuationsError, match="Use AsyncRunner"):
                each()

    asyncio.run(inside())

    assert [] == environment.effect_names()
    assert isinstance(runner.start("go", run_id="r"), Suspended)


def test_sync_call_in_a_callback_of_a_loop_names_the_async_runner() -> None:
    """No task runs there, as at the prompt of `python -m asyncio`."""
    runner = agent_builders.make_runner(ONE_PAY_SCRIPT, pay)
    calls: list[Callable[[], object]] = [
        lambda: runner.start("go"),
        runner.sweep,
        runner.serve_forever,
        lambda: list(runner.runs()),
    ]

    async def call(function: Callable[[], object]) -> object:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()

        def callback() -> None:
            try:
                done.set_result(function())
            except ContinuationsError as error:
                done.set_result(error)

        loop.call_soon(callback)
        return await done

    for function in calls:
        told = asyncio.run(call(function))
        assert isinstance(told, ContinuationsError)
        assert "Use AsyncRunner" in str(told)


def test_async_runner_works_in_two_event_loops(environment: RunEnvironment) -> None:
    """One event loop may follow another."""
    store = MemoryStore()

    async def first() -> Wait:
        runner = AsyncRunner(agent_builders.make_boss(ONE_PAY_SCRIPT, pay), store=store)
        outcome = await runner.start("go", run_id="r")
        assert isinstance(outcome, Suspended)
        [summary] = [each async for each in runner.waiting()]
        wait = await runner.wait(summary.id)
        await runner.decide(wait.id, Approve())
        assert 1 == await runner.send("r", "And?")
        assert {} == (await runner.sweep()).errors
        return wait

    async def second() -> None:
        runner = AsyncRunner(agent_builders.make_boss(ONE_PAY_SCRIPT, pay), store=store)
        assert isinstance(await runner.resume("r"), Finished)
        assert "finished" == (await runner.look("r")).status
        assert "finished" == (await runner.cancel("r")).status

    assert "pay" == asyncio.run(first()).tool
    asyncio.run(second())
    assert ["pay "] == environment.effect_names()


def test_run_async_and_resume_async_work_without_a_store() -> None:
    """`run` and `resume` exist as coroutines."""
    agent = agent_builders.make_boss(ONE_PAY_SCRIPT, pay)

    async def both() -> Any:
        outcome = await run_async(agent, "go")
        assert isinstance(outcome, Suspended)
        answers = {outcome.waits[0].id: Approve()}
        return await resume_async(outcome.continuation, agent, answers=answers)

    assert isinstance(asyncio.run(both()), Finished)


def test_many_threads_share_one_runner(environment: RunEnvironment) -> None:
    """A runner may be called from any thread."""
    runner = agent_builders.make_runner(ONE_PAY_SCRIPT, pay)

    def one(number: int) -> None:
        outcome = runner.start("go", run_id=f"r{number}")
        assert isinstance(outcome, Suspended)
        runner.decide(outcome.waits[0].id, Approve())
        assert isinstance(runner.resume(f"r{number}"), Finished)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert 16 == len(environment.effect_names())


@pytest.mark.parametrize("how", ["sync tool", "async tool"])
def test_sync_run_inside_a_tool_works_only_in_a_thread(how: str) -> None:
    """In an async tool, it would block the loop that it waits for, so it raises."""
    inner = agent_builders.make_boss({"go": ["inner end"]})

    def within() -> str:
        outcome = run(inner, "go")
        assert isinstance(outcome, Finished)
        return str(outcome.output)

    @tool(name="nest")
    def nest() -> str:
        """Run an agent."""
        return within()

    @tool(name="nest")
    async def nest_async() -> str:
        """Run an agent, the wrong way."""
        return within()

    chosen = nest if how == "sync tool" else nest_async
    outcome = agent_builders.make_runner({"go": [[call("nest")], "end"]}, chosen).start(
        "go"
    )

    assert isinstance(outcome, Finished)
    [text] = root_tool_results(outcome)
    assert text == "inner end" or (how == "async tool" and text.startswith("ERROR"))


def public_methods(runner: type[object]) -> dict[str, Any]:
    """Return the public methods of a class by name."""
    return {
        name: member
        for name, member in inspect.getmembers(runner, inspect.isfunction)
        if not name.startswith("_")
    }


# The sync method has no `stop` event, and handles signals by default.
LOOP_PARAMETERS = {("serve_forever", "stop"), ("serve_forever", "handle_signals")}


def test_runner_and_async_runner_have_the_same_methods_and_parameters() -> None:
    """Only `serve_forever` differs: the sync one has an event loop of its own."""
    sync, coroutines = public_methods(Runner), public_methods(AsyncRunner)

    assert sync.keys() == coroutines.keys()
    for name in sync:
        ours, theirs = (
            [
                parameter
                for parameter in inspect.signature(methods[name]).parameters.values()
                if (name, parameter.name) not in LOOP_PARAMETERS
            ]
            for methods in (sync, coroutines)
        )
        assert ours == theirs


# Their docstrings name the kind of iterator.
ITERATORS = {"drift", "events", "history", "open_waits", "runs", "waiting"}


@pytest.mark.parametrize(
    "name", sorted(public_methods(Runner).keys() - {"serve_forever"} - ITERATORS)
)
def test_runner_and_async_runner_have_the_same_docstrings(name: str) -> None:
    """Neither page of the reference sends the reader to the other."""
    assert inspect.getdoc(getattr(Runner, name)) == inspect.getdoc(
        getattr(AsyncRunner, name)
    )
