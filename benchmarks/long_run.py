"""A long run's life: 500 turns of two 500-byte messages, an approval in every turn.

It lives in one process on a store that counts; the bytes are the same everywhere.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING

from benchmarks.counting_store import CountingStore
from benchmarks.result_row import Row
from benchmarks.sample_text import sample_text
from benchmarks.sizes import compressed_size
from continuations import Agent, Approve, AsyncRunner, Suspended, tool
from continuations.models.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from continuations import Outcome

_TURNS = 500
_MESSAGE_CHARS = 500


@dataclass(slots=True)
class LongRunCosts:
    """What one run wrote and read until it ended."""

    versions: int
    written: int
    compressed: int
    baseline_written: int
    max_reads: int
    reads_bound: float


def rows() -> Iterator[Row]:
    """Live once; every figure comes from the same life."""
    life = asyncio.run(_measure())
    yield Row(
        what=f"bytes of a life, {life.versions} versions, {2 * _TURNS} messages",
        ours=life.written / 1000,
        compared_with="compressed conversation",
        theirs=life.compressed / 1000,
        unit="kB",
        max_ratio=log2(life.versions) + 3,
    )
    yield Row(
        what="bytes of a life",
        ours=life.written / 1000,
        compared_with="the floor's whole file each turn",
        theirs=life.baseline_written / 1000,
        unit="kB",
    )
    yield Row(
        what="objects read by the dearest resume",
        ours=life.max_reads,
        compared_with="log2(its version) + 4",
        theirs=life.reads_bound,
        unit="",
        max_ratio=1,
    )


async def _measure() -> LongRunCosts:
    store = CountingStore()
    runner = AsyncRunner(_agent(), store=store)
    outcome: Outcome = await runner.start(sample_text(0, _MESSAGE_CHARS), run_id="life")
    messages: list[Any] = []
    rewritten, reads, bound = 0, 0, 1.0
    while isinstance(outcome, Suspended):
        messages = list(outcome.continuation.root.messages)
        rewritten += len(json.dumps(messages))
        await runner.decide(outcome.waits[0].id, Approve(by="kim"))
        before, version = store.reads, outcome.continuation.version
        outcome = await runner.resume("life")
        read, most = store.reads - before, log2(version) + 4
        if read / most > reads / bound:
            reads, bound = read, most
    return LongRunCosts(
        versions=outcome.continuation.version,
        written=store.bytes_written,
        compressed=compressed_size(json.dumps(messages).encode()),
        baseline_written=rewritten,
        max_reads=reads,
        reads_bound=bound,
    )


def _agent() -> Agent:
    @tool(approval=True)
    def note(number: int) -> str:
        """Note it."""
        return sample_text(2 * number, _MESSAGE_CHARS)

    lines = [_tool_call_message(turn) for turn in range(1, _TURNS + 1)]
    model = ScriptedModel([*lines, "Done."])
    return Agent("clerk", tools=[note], model=model, max_turns=None)


def _tool_call_message(turn: int) -> dict[str, Any]:
    function = {"name": "note", "arguments": json.dumps({"number": turn})}
    call = {"id": f"call_{turn}", "type": "function", "function": function}
    said = sample_text(2 * turn - 1, _MESSAGE_CHARS)
    return {"role": "assistant", "content": said, "tool_calls": [call]}
