"""Workflows: a replayed step, and what a step costs in the store.

Everything runs in one process on a store in memory. The tools return at once. The times
are those of the processor, beside floors of the same run: neither another program nor a
slow machine changes the ratios.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any

from benchmarks.counting_store import CountingStore
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from continuations import AsyncRunner, Flow, ask, tool, workflow
from continuations.authoring.registry import AgentRegistry
from continuations.core.messages import Message
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.core.rows.workflow_history import entries_of, find_violation
from continuations.engine.ports import Ports
from continuations.engine.stack.stack_binding import StackBinding
from continuations.engine.workflow.flow_drives import FlowDrives
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from continuations.core.rows.state import RunState

_STEPS, _BRANCHES, _ROUNDS = 1000, 1000, 25
_RUNS, _DRIFTS = 300, 3
_RUN = "run"


@tool
async def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


@workflow(tools=[add])
async def in_sequence(flow: Flow, steps: int) -> str:
    """Add numbers one after another, then ask a person."""
    total = 0
    for number in range(steps):
        total = await flow.call(add, total, number)
    return await ask(f"Is {total} right?")


@workflow(tools=[add])
async def at_once(flow: Flow, branches: int) -> str:
    """Add numbers at the same time, then ask a person."""
    calls = [flow.call(add, 0, number) for number in range(branches)]
    return await ask(f"Is {sum(await asyncio.gather(*calls))} right?")


def rows() -> Iterator[Row]:
    """Replay and read steps; count versions and bytes; look for drift in many runs."""
    few, many = (
        asyncio.run(_run(in_sequence.bind(1))),
        asyncio.run(_run(in_sequence.bind(1 + _STEPS))),
    )
    yield from _time_rows(many.state)
    yield Row(
        what="creates of a sequential step",
        ours=(many.store.creates - few.store.creates) / _STEPS,
        compared_with="the goal",
        theirs=1.05,
        unit="",
        max_ratio=1,
    )
    values = len('{"first":123456,"second":123}') + len("123456")
    yield Row(
        what="bytes of a sequential step beside its values",
        ours=(many.store.bytes_written - few.store.bytes_written) / _STEPS - values,
        compared_with="the goal",
        theirs=600,
        unit="B",
        max_ratio=1,
    )
    one, all_ = (
        asyncio.run(_run(at_once.bind(1))),
        asyncio.run(_run(at_once.bind(1 + _BRANCHES))),
    )
    yield Row(
        what=f"bytes of a branch of a gather of {_BRANCHES:,}",
        ours=(all_.store.bytes_written - one.store.bytes_written) / _BRANCHES,
        compared_with="the goal",
        theirs=20,
        unit="B",
        max_ratio=1,
    )
    yield _drift_row()


class _Done:
    """A run that waits, and its store."""

    def __init__(self, store: CountingStore, state: RunState) -> None:
        self.store, self.state = store, state


async def _run(bound: Any) -> _Done:
    store = CountingStore()
    await AsyncRunner([in_sequence, at_once], store=store).start(bound, run_id=_RUN)
    loaded = await Versions(Objects(store), _RUN).load_newest()
    return _Done(store, loaded.state)


def _time_rows(state: RunState) -> Iterator[Row]:
    """Measure the steps of a history: their replay, and their reading before it."""
    messages = state.logs[ROOT_FRAME_ID].messages
    replay, futures, reading, parsing = interleaved_medians(
        _ROUNDS,
        lambda: _step_us(lambda: _replay(state)),
        lambda: _step_us(lambda: asyncio.run(_await_futures())),
        lambda: _step_us(lambda: _read(messages)),
        lambda: _step_us(lambda: _parse(messages)),
    )
    what = f"replay of a step, {_STEPS:,} steps"
    yield Row(
        what=what,
        ours=replay,
        compared_with="the goal on a quiet machine",
        theirs=25,
        unit="µs",
        max_ratio=1,
    )
    yield Row(
        what=what,
        ours=replay,
        compared_with="its floor: asyncio.run awaits a future that is set",
        theirs=futures,
        unit="µs",
        max_ratio=4,
    )
    yield Row(
        what="a step of a history read and checked",
        ours=reading,
        compared_with="its floor: json.loads of each text",
        theirs=parsing,
        unit="µs",
    )


def _drift_row() -> Row:
    """Measure the drift of many waiting workflows, beside a look at each of them."""
    runner = asyncio.run(_waiting_runs())
    drift, looks = interleaved_medians(
        _DRIFTS,
        lambda: _run_ms(_drift(runner)),
        lambda: _run_ms(_look_at_each(runner)),
    )
    return Row(
        what=f"drift of a waiting workflow of five steps, of {_RUNS:,}",
        ours=drift,
        compared_with="a look at the run",
        theirs=looks,
        unit="ms",
    )


async def _waiting_runs() -> AsyncRunner[Any]:
    runner = AsyncRunner([in_sequence], store="memory:")
    for _ in range(_RUNS):
        await runner.start(in_sequence.bind(5))
    # Another process has nothing in memory.
    return AsyncRunner([in_sequence], store=runner.store)


async def _drift(runner: AsyncRunner[Any]) -> None:
    verdicts = {row.verdict async for row in runner.drift()}
    if verdicts != {"accept"}:
        raise AssertionError(verdicts)


async def _look_at_each(runner: AsyncRunner[Any]) -> None:
    async for run in runner.runs():
        await runner.look(run.run_id)


def _run_ms(work: Coroutine[Any, Any, None]) -> float:
    """Return the time of some work for one of the runs, in milliseconds."""
    started = time.thread_time()
    asyncio.run(work)
    return (time.thread_time() - started) * 1e3 / _RUNS


def _step_us(work: Callable[[], object]) -> float:
    """Return the time of one step of some work, in microseconds."""
    started = time.thread_time()
    work()
    return (time.thread_time() - started) * 1e6 / _STEPS


def _replay(state: RunState) -> None:
    drives = FlowDrives(StackBinding(AgentRegistry([in_sequence])), Ports())
    drives.replayed(state)
    drives.close()


async def _await_futures() -> None:
    loop = asyncio.get_running_loop()
    for number in range(_STEPS):
        future = loop.create_future()
        loop.call_soon(future.set_result, number)
        await future


def _read(messages: tuple[Message, ...]) -> None:
    """Read messages as they come from the store."""
    unread = [
        Message(each.text, None, metadata_json=each.metadata_json) for each in messages
    ]
    # The last call is the question.
    violation = find_violation(entries_of(unread), unread[-1].tool_call_ids)
    if violation is not None:
        raise AssertionError(violation)


def _parse(messages: tuple[Message, ...]) -> None:
    for each in messages:
        json.loads(each.text)
        if each.metadata_json is not None:
            json.loads(each.metadata_json)
