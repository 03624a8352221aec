"""A long run: 500 turns of two 500-byte messages, with an approval in every turn.

It runs in one process on a store that counts; the bytes are the same on every store.
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
    """The bytes written and the objects read by one run until it ended."""

    versions: int
    written: int
    compressed: int
    baseline_written: int
    max_reads: int
    reads_bound: float


def rows() -> Iterator[Row]:
    """Run once; every figure is of the same run."""
    costs = asyncio.run(_measure())
    yield Row(
        what=f"bytes of {costs.versions} versions with {2 * _TURNS} messages",
        ours=costs.written / 1000,
        compared_with="the compressed messages",
        theirs=costs.compressed / 1000,
        unit="kB",
        max_ratio=log2(costs.versions) + 3,
    )
    yield Row(
        what="the same bytes",
        ours=costs.written / 1000,
        compared_with="the whole file in each turn",
        theirs=costs.baseline_written / 1000,
        unit="kB",
    )
    yield Row(
        what="objects read by the most expensive resume",
        ours=costs.max_reads,
        compared_with="log2(version) + 4",
        theirs=costs.reads_bound,
        unit="",
        max_ratio=1,
    )


async def _measure() -> LongRunCosts:
    store = CountingStore()
    runner = AsyncRunner(_agent(), store=store)
    outcome: Outcome = await runner.start(sample_text(0, _MESSAGE_CHARS), run_id="long")
    messages: list[Any] = []
    rewritten, reads, bound = 0, 0, 1.0
    while isinstance(outcome, Suspended):
        messages = list(outcome.continuation.root.messages)
        rewritten += len(json.dumps(messages))
        await runner.decide(outcome.waits[0].id, Approve(by="kim"))
        before, version = store.reads, outcome.continuation.version
        outcome = await runner.resume("long")
        read, limit = store.reads - before, log2(version) + 4
        if read / limit > reads / bound:
            reads, bound = read, limit
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
        """Save a note."""
        return sample_text(2 * number, _MESSAGE_CHARS)

    replies = [_tool_call_message(turn) for turn in range(1, _TURNS + 1)]
    model = ScriptedModel([*replies, "Done."])
    return Agent("notes", tools=[note], model=model, max_turns=None)


def _tool_call_message(turn: int) -> dict[str, Any]:
    function = {"name": "note", "arguments": json.dumps({"number": turn})}
    call = {"id": f"call_{turn}", "type": "function", "function": function}
    text = sample_text(2 * turn - 1, _MESSAGE_CHARS)
    return {"role": "assistant", "content": text, "tool_calls": [call]}
