"""The work of one cycle of start, approval and resume, counted and not timed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from continuations import Agent, Approve, AsyncRunner, Finished, Suspended, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import FileStore, MemoryStore, Store
from continuations_storage.thread_pool import DaemonThreadPool, PoolCall
from tests.outcomes import expect

# A task costs three rounds of the event loop. One commit of a run that takes its claim,
# one that keeps it, two model calls, one tool and their neighbours need these.
_MAX_TASKS = 17
# Ten creates and eight deletes. Those that wait at the same time share a thread.
_MAX_THREAD_CALLS = 18


async def _one_cycle(runner: AsyncRunner, run_id: str) -> None:
    outcome = expect(await runner.start("Pay 500.", run_id=run_id), Suspended)
    await runner.decide(outcome.waits[0].id, Approve(by="kim"))
    assert isinstance(await runner.resume(run_id), Finished)


def _runner(store: Store) -> AsyncRunner:
    @tool(approval=True)
    async def pay(cents: int) -> str:
        """Pay an amount."""
        return f"Paid {cents}."

    model = ScriptedModel([ToolCall("pay", {"cents": 500}), "It is paid."])
    return AsyncRunner(Agent("payer", tools=[pay], model=model), store=store)


async def test_cycle_makes_few_tasks() -> None:
    """An operation that has no neighbour runs in the task of its caller."""

    runner = _runner(MemoryStore())
    await _one_cycle(runner, "first")
    made: list[str] = []

    def factory(
        loop: asyncio.AbstractEventLoop, coro: Any, **more: Any
    ) -> asyncio.Task[Any]:
        made.append(coro.__qualname__)
        return asyncio.Task(coro, loop=loop, **more)

    asyncio.get_running_loop().set_task_factory(factory)
    await _one_cycle(runner, "second")

    assert len(made) <= _MAX_TASKS, made


async def test_cycle_makes_few_calls_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads and listings need no thread."""
    made: list[str] = []
    start = DaemonThreadPool.start

    def counted(self: DaemonThreadPool, call: PoolCall) -> None:
        made.append(self.name)
        start(self, call)

    runner = _runner(FileStore(tmp_path))
    await _one_cycle(runner, "first")
    monkeypatch.setattr(DaemonThreadPool, "start", counted)
    await _one_cycle(runner, "second")

    assert made.count("continuations-file") <= _MAX_THREAD_CALLS, made
