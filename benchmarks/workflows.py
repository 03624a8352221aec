"""Workflows: a replayed step, and what a step costs in the store.

Everything runs in one process on a store in memory. The tools return at once.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.counting_store import CountingStore
from benchmarks.result_row import Row
from continuations import AsyncRunner, Flow, ask, tool, workflow
from continuations.authoring.registry import AgentRegistry
from continuations.engine.ports import Ports
from continuations.engine.stack.stack_binding import StackBinding
from continuations.engine.workflow.flow_drives import FlowDrives
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.rows.state import RunState

_STEPS, _BRANCHES, _REPLAYS = 1000, 1000, 15
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
    """Replay a step; count versions and bytes of steps, and of a gather."""
    few, many = (
        asyncio.run(_run(in_sequence.bind(1))),
        asyncio.run(_run(in_sequence.bind(1 + _STEPS))),
    )
    yield Row(
        what=f"replay of a step, {_STEPS:,} steps",
        ours=_replay_us(many.state) / _STEPS,
        compared_with="the goal",
        theirs=25,
        unit="µs",
        max_ratio=1,
    )
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


class _Done:
    """A run that waits, and its store."""

    def __init__(self, store: CountingStore, state: RunState) -> None:
        self.store, self.state = store, state


async def _run(bound: Any) -> _Done:
    store = CountingStore()
    await AsyncRunner([in_sequence, at_once], store=store).start(bound, run_id=_RUN)
    loaded = await Versions(Objects(store), _RUN).load_newest()
    return _Done(store, loaded.state)


def _replay_us(state: RunState) -> float:
    """Return the time of a replay of the workflow of a run."""
    times: list[float] = []
    for _ in range(_REPLAYS):
        drives = FlowDrives(StackBinding(AgentRegistry([in_sequence])), Ports())
        started = time.perf_counter()
        drives.replayed(state)
        times.append(time.perf_counter() - started)
        drives.close()
    return median(times) * 1e6
