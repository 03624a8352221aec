"""Stacks of agents that call agents: what a level costs, and whether it is linear."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.conversation import compressed, transcript
from benchmarks.prose import prose
from benchmarks.row import Row
from continuations import Agent, Approve, Finished, Suspended, resume, run, tool
from continuations.models.scripted import ScriptedModel, ToolCall

if TYPE_CHECKING:
    from collections.abc import Iterator

_FRAME = 100
_TEXT = 200
_SHALLOW, _DEEP = 100, 1000


@dataclass(frozen=True, slots=True)
class Stack:
    """A suspended stack's bytes, and the milliseconds down to it and up again."""

    size: int
    messages: int
    suspend: float
    resume: float


def rows() -> Iterator[Row]:
    """Measure 30 levels for their bytes, 100 and 1,000 for their slope."""
    thirty = _stack(30)
    yield Row(
        what="first suspension of 30 levels",
        ours=thirty.size / 1000,
        against="2 x compressed messages + 100 B a frame",
        theirs=(2 * thirty.messages + 30 * _FRAME) / 1000,
        unit="kB",
        most=1,
    )
    pairs = [(_stack(_DEEP), _stack(_SHALLOW)) for _ in range(3)]
    yield _slope("suspend", [(d.suspend, s.suspend) for d, s in pairs], "ms", 1.5)
    yield _slope("resume", [(d.resume, s.resume) for d, s in pairs], "ms", 1.5)
    yield _slope("bytes", [(d.size / 1e3, s.size / 1e3) for d, s in pairs], "kB", 1.1)


def _slope(
    what: str, pairs: list[tuple[float, float]], unit: str, most: float
) -> Row:
    deep, shallow = (median(column) for column in zip(*pairs, strict=True))
    return Row(
        what=f"{what}, 1,000 levels",
        ours=deep,
        against="10 x 100 levels",
        theirs=shallow * _DEEP / _SHALLOW,
        unit=unit,
        most=most,
    )


def _stack(levels: int) -> Stack:
    top = _agents(levels)
    begun = time.perf_counter()
    outcome = run(top, prose(0, _TEXT))
    down = time.perf_counter()
    assert isinstance(outcome, Suspended)  # noqa: S101 - it has no other end
    data = outcome.continuation.to_bytes()
    messages = compressed(transcript(outcome.continuation))
    answers = {outcome.waits[0].id: Approve(by="kim")}
    again = time.perf_counter()
    ended = resume(data, top, answers=answers)
    up = time.perf_counter()
    assert isinstance(ended, Finished)  # noqa: S101 - it has no other end
    suspend, resumed = (down - begun) * 1000, (up - again) * 1000
    return Stack(len(data), messages, suspend, resumed)


def _agents(levels: int) -> Agent:
    @tool(approval=True)
    def pay(cents: int) -> str:
        """Pay it."""
        return f"Paid {cents}."

    model = ScriptedModel([ToolCall("pay", {"cents": 500}), "Paid."])
    agent = _agent(levels, model, [pay])
    for level in range(levels - 1, 0, -1):
        asks = ToolCall(agent.name, {"input": prose(level, _TEXT)})
        agent = _agent(level, ScriptedModel([asks, prose(-level, _TEXT)]), [agent])
    return agent


def _agent(level: int, model: ScriptedModel, tools: list[object]) -> Agent:
    told = prose(level + 5000, _TEXT)
    return Agent(f"agent-{level}", instructions=told, tools=tools, model=model)  # type: ignore[arg-type]
