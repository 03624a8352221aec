"""Publish an event to many runs, and sweep many timers that are due."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from benchmarks.counting_store import CountingStore
from benchmarks.result_row import Row
from continuations import Agent, AsyncRunner, Suspended, sleep, tool, wait_for
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.testing import FrozenClock, memory_store
from continuations.tools import ToolWait

if TYPE_CHECKING:
    from collections.abc import Iterator

_FEW, _MANY = 100, 1_000
_AT_ONCE = 50  # runs that are started at the same time


@tool(idempotent=True)
def price() -> ToolWait[Any]:
    """Wait for the price."""
    return wait_for("price")


@tool(idempotent=True)
def tomorrow() -> ToolWait[str]:
    """Wait for a day."""
    return sleep(timedelta(days=1))


def rows() -> Iterator[Row]:
    """Measure in memory, so that requests and Python's work count."""
    requests: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for count in (1, _FEW, _MANY):
        requests[count], seconds[count] = asyncio.run(_publish(count))
    for count, used in requests.items():
        yield Row(
            what=f"requests of publish, {count:,} waiting",
            ours=used,
            compared_with="3 a run, and 7",
            theirs=3 * count + 7,
            unit="",
            max_ratio=1,
        )
    yield _linear_row(f"publish to {_MANY:,} waiting runs, in memory", seconds)
    for count in (_FEW, _MANY):
        requests[count], seconds[count] = asyncio.run(_sweep_timers(count))
    yield Row(
        what=f"requests of a sweep that ends {_MANY:,} timers, a run",
        ours=requests[_MANY] / _MANY,
        compared_with=f"the same of {_FEW} timers",
        theirs=requests[_FEW] / _FEW,
        unit="",
        max_ratio=1.1,
    )
    yield _linear_row(f"a sweep that ends {_MANY:,} timers, in memory", seconds)


def _linear_row(what: str, seconds: dict[int, float]) -> Row:
    return Row(
        what=what,
        ours=seconds[_MANY] * 1000,
        compared_with=f"{_MANY // _FEW} times those of {_FEW}",
        theirs=seconds[_FEW] * 1000 * (_MANY // _FEW),
        unit="ms",
        max_ratio=1.3,
    )


async def _publish(count: int) -> tuple[int, float]:
    """Return the requests and the seconds of one publication."""
    clock = FrozenClock()
    store = CountingStore(memory_store(clock))
    runner = await _waiting_runs(price, count, store, clock)
    before, started = _requests(store), time.perf_counter()
    event = await runner.publish("price", 100)
    spent = time.perf_counter() - started
    assert len(event.run_ids) == count  # noqa: S101 - every run waited
    return _requests(store) - before, spent


async def _sweep_timers(count: int) -> tuple[int, float]:
    """Return the requests and the seconds of the sweep that ends all runs."""
    clock = FrozenClock()
    store = CountingStore(memory_store(clock))
    runner = await _waiting_runs(tomorrow, count, store, clock)
    clock.advance(days=1, seconds=1)
    before, started = _requests(store), time.perf_counter()
    result = await runner.sweep()
    spent = time.perf_counter() - started
    assert len(result.resumed) == count, result  # noqa: S101 - every timer was due
    return _requests(store) - before, spent


async def _waiting_runs(
    waiting_tool: Any, count: int, store: CountingStore, clock: FrozenClock
) -> AsyncRunner:
    model = ScriptedModel([ToolCall(waiting_tool.name, {}), "end"])
    agent = Agent("waits", tools=[waiting_tool], model=model)
    runner = AsyncRunner(agent, store=store, clock=clock)
    for first in range(0, count, _AT_ONCE):
        batch = range(first, min(count, first + _AT_ONCE))
        outcomes = await asyncio.gather(*(runner.start("go") for _ in batch))
        assert all(isinstance(each, Suspended) for each in outcomes)  # noqa: S101
    return runner


def _requests(store: CountingStore) -> int:
    return store.creates + store.reads + store.misses + store.listings
