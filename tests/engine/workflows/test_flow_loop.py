"""The loop of a workflow: one order of callbacks, and a time that the history says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from continuations.authoring.workflow.flow_loop import FlowLoop


def run_to_end(code: Callable[[], Coroutine[Any, Any, Any]]) -> tuple[Any, list[int]]:
    """Run code on a loop; return its result and the times of its timers."""
    loop, times = FlowLoop(), list[int]()
    task = loop.create_task(code())
    loop.run_ready()
    while not task.done():
        due = loop.next_timer
        assert due is not None, "the code waits for nothing"
        times.append(due)
        loop.advance(due)
    return task.result(), times


def test_time_is_the_time_of_the_timers() -> None:
    async def code() -> list[float]:
        loop = asyncio.get_running_loop()
        await asyncio.gather(asyncio.sleep(2), asyncio.sleep(1))
        seen = [loop.time()]
        async with asyncio.timeout(5):
            await asyncio.sleep(0.5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await asyncio.Event().wait()
        return [*seen, loop.time()]

    assert ([2.0, 5.5], [1000, 2000, 2500, 5500]) == run_to_end(code)


def test_groups_queues_and_locks_are_those_of_asyncio() -> None:
    async def code() -> list[str]:
        queue: asyncio.Queue[str] = asyncio.Queue()
        lock = asyncio.Lock()
        seen: list[str] = []

        async def put(text: str) -> None:
            async with lock:
                await asyncio.sleep(1)
                await queue.put(text)

        async with asyncio.TaskGroup() as group:
            for text in "abc":
                group.create_task(put(text))
            for _ in range(3):
                seen.append(await queue.get())  # noqa: PERF401 - it awaits
        return seen

    assert ["a", "b", "c"] == run_to_end(code)[0]


def test_sets_of_tasks_have_the_order_in_which_they_were_made() -> None:
    async def code() -> list[str]:
        tasks = {asyncio.create_task(asyncio.sleep(0, name)) for name in "abcdefgh"}
        done, _ = await asyncio.wait(tasks)
        return [task.result() for task in done]

    assert [*"abcdefgh"] == run_to_end(code)[0]


def test_as_completed_takes_tasks_and_refuses_coroutines() -> None:
    async def code() -> list[int]:
        with pytest.raises(RuntimeError, match="order of their addresses"):
            next(iter(asyncio.as_completed([asyncio.sleep(1)])))
        tasks = [asyncio.create_task(asyncio.sleep(3 - n, n)) for n in range(3)]
        return [await each for each in asyncio.as_completed(tasks)]

    assert [2, 1, 0] == run_to_end(code)[0]


@pytest.mark.parametrize(
    "refused",
    [
        ("run_in_executor", None, print),
        ("call_soon_threadsafe", print),
        ("add_signal_handler", 2, print),
        ("create_connection", None, "localhost", 1),
        ("subprocess_shell", None, "true"),
        ("add_reader", 0, print),
    ],
    ids=lambda refused: refused[0],
)
def test_what_a_replay_cannot_repeat_is_refused(refused: tuple[Any, ...]) -> None:
    method, *arguments = refused

    async def code() -> str:
        with pytest.raises(RuntimeError, match=r"Do this work in a tool"):
            getattr(asyncio.get_running_loop(), method)(*arguments)
        return "refused"

    assert "refused" == run_to_end(code)[0]


async def test_outer_loop_goes_on_after_the_inner_one() -> None:
    before = asyncio.current_task()
    task = FlowLoop().create_task(asyncio.sleep(0, "inner"))
    loop: Any = task.get_loop()
    loop.run_ready()
    await asyncio.sleep(0)
    assert asyncio.current_task() is before
    assert "inner" == task.result()


def test_exit_of_the_code_is_an_exception_of_its_task() -> None:
    async def code() -> None:
        raise SystemExit(3)

    loop = FlowLoop()
    task = loop.create_task(code())

    loop.run_ready()

    assert isinstance(task.exception(), SystemExit)


def test_code_that_is_put_aside_runs_its_cleanup_and_nothing_more() -> None:
    seen: list[str] = []

    async def code() -> None:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(10))
                await asyncio.Event().wait()
        finally:
            seen.append("finally")
            await asyncio.sleep(1)
            seen.append("never")

    loop = FlowLoop()
    loop.create_task(code())
    loop.run_ready()

    loop.put_aside()

    assert ["finally"] == seen
    assert loop.is_closed()


def test_generators_are_closed_in_the_order_in_which_they_began() -> None:
    closed: list[str] = []

    async def numbers(name: str) -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append(name)

    async def code() -> None:
        for name in "ab":
            async for _ in numbers(name):
                break
        loop: Any = asyncio.get_running_loop()
        await loop.shutdown_asyncgens()

    run_to_end(code)

    assert ["a", "b"] == closed
