"""Stacks of agents that call agents: the cost of a level, and whether it is linear.

Each stack is suspended and resumed twice. Without a store, the continuation gives the
bytes. On files, the turn of every level is a version.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import astuple, dataclass
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.counting_store import CountingStore
from benchmarks.result_row import Row
from benchmarks.sample_text import sample_text
from benchmarks.sizes import compressed_size, transcript_json
from continuations import Agent, Approve, AsyncRunner, Suspended, tool
from continuations.engine.runner.storeless import resume_async, run_async
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import FileStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator

    from continuations import Outcome

_FRAME_BYTES = 100
_TEXT_CHARS = 200
_SHALLOW, _DEEP = 100, 1000
_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StackCosts:
    """The bytes of one stack in kB, and the milliseconds to suspend and resume it."""

    size: float
    messages: float
    suspend: float
    resume: float
    written: float
    start: float
    finish: float


# The costs that must be linear: field of `StackCosts`, text, unit, largest ratio.
_LINEAR_MEASURES = (
    ("suspend", "suspend", "ms", 1.5),
    ("resume", "resume", "ms", 1.5),
    ("size", "continuation", "kB", 1.1),
    ("start", "suspend on files", "ms", 1.5),
    ("finish", "resume on files", "ms", 1.5),
)


def rows() -> Iterator[Row]:
    """Measure the bytes of 30 levels, and compare 1,000 levels with 100."""
    thirty = asyncio.run(measure_stack(30))
    bound = 2 * thirty.messages + 30 * _FRAME_BYTES / 1000
    limit = "2 x compressed messages + 100 B a frame"
    yield Row(
        what="continuation of 30 levels at its first suspension",
        ours=thirty.size,
        compared_with=limit,
        theirs=bound,
        unit="kB",
        max_ratio=1,
    )
    yield Row(
        what="written to a store until then, in 31 versions",
        ours=thirty.written,
        compared_with=limit,
        theirs=bound,
        unit="kB",
    )
    asyncio.run(measure_stack(_SHALLOW))
    measured = {_DEEP: list[StackCosts](), _SHALLOW: list[StackCosts]()}
    for _ in range(_ROUNDS):
        # The shallow stacks are fast, so several of them average out the noise.
        for levels in (_DEEP, *[_SHALLOW] * 4):
            measured[levels].append(asyncio.run(measure_stack(levels)))
    deep, shallow = map(_median_costs, measured.values())
    for field, what, unit, max_ratio in _LINEAR_MEASURES:
        yield Row(
            what=f"{what}, 1,000 levels",
            ours=getattr(deep, field),
            compared_with="10 x 100 levels",
            theirs=getattr(shallow, field) * _DEEP / _SHALLOW,
            unit=unit,
            max_ratio=max_ratio,
        )


def _median_costs(stacks: list[StackCosts]) -> StackCosts:
    columns = zip(*map(astuple, stacks), strict=True)
    names = StackCosts.__slots__
    return StackCosts(**dict(zip(names, map(median, columns), strict=True)))


async def measure_stack(levels: int) -> StackCosts:
    """Suspend and resume a stack of some levels."""
    top = _agents(levels)
    suspend, outcome = await _timed(run_async(top, sample_text(0, _TEXT_CHARS)))
    data = outcome.continuation.to_bytes()
    answers = {_only_wait_id(outcome): Approve(by="kim")}
    resume, _ = await _timed(resume_async(data, top, answers=answers))

    with TemporaryDirectory() as folder:
        store = CountingStore(FileStore(folder))
        runner = AsyncRunner(top, store=store)
        start, suspended = await _timed(
            runner.start(sample_text(0, _TEXT_CHARS), run_id="deep")
        )
        written = store.bytes_written
        await runner.decide(_only_wait_id(suspended), Approve(by="kim"))
        finish, _ = await _timed(runner.resume("deep"))
    return StackCosts(
        size=len(data) / 1000,
        messages=compressed_size(transcript_json(outcome.continuation)) / 1000,
        suspend=suspend,
        resume=resume,
        written=written / 1000,
        start=start,
        finish=finish,
    )


async def _timed(operation: Awaitable[Outcome]) -> tuple[float, Outcome]:
    started = time.perf_counter()
    outcome = await operation
    return (time.perf_counter() - started) * 1000, outcome


def _only_wait_id(outcome: Outcome) -> str:
    assert isinstance(outcome, Suspended)  # noqa: S101 - the script ends here
    (wait,) = outcome.waits
    return wait.id


def _agents(levels: int) -> Agent:
    @tool(approval=True)
    def pay(cents: int) -> str:
        """Pay an amount."""
        return f"Paid {cents}."

    model = ScriptedModel([ToolCall("pay", {"cents": 500}), "Paid."])
    agent = _agent(levels, model, pay)
    for level in range(levels - 1, 0, -1):
        call = ToolCall(agent.name, {"input": sample_text(level, _TEXT_CHARS)})
        agent = _agent(
            level, ScriptedModel([call, sample_text(-level, _TEXT_CHARS)]), agent
        )
    return agent


def _agent(level: int, model: ScriptedModel, below: Any) -> Agent:
    instructions = sample_text(level + 5000, _TEXT_CHARS)
    return Agent(
        f"agent-{level}", instructions=instructions, tools=[below], model=model
    )
