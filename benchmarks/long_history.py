"""A run with thousands of messages: load it, and work on a turn.

Everything runs in one process on a store in memory. The model replies at once.
"""

from __future__ import annotations

import asyncio
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.result_row import Row
from benchmarks.sample_text import sample_text
from continuations import Agent, AsyncRunner, tool
from continuations.core.messages import Message
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.models.interface import ModelReply
from continuations_storage import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.core.model_protocol import ModelRequest

_LOADED_MESSAGES, _FEW, _MANY = 5000, 200, 2000
_MESSAGE_CHARS = 200
_LOADS, _TURNS = 15, 40


def rows() -> Iterator[Row]:
    """Load a run of 5,000 messages, and compare turns after 200 and 2,000."""
    yield Row(
        what=f"load of {_LOADED_MESSAGES:,} messages of {_MESSAGE_CHARS} characters",
        ours=asyncio.run(load_ms(_LOADED_MESSAGES)),
        compared_with="the goal",
        theirs=10,
        unit="ms",
        max_ratio=1,
    )
    yield Row(
        what=f"durable turn after {_MANY:,} messages, in memory",
        ours=asyncio.run(_turn_ms(_MANY)),
        compared_with=f"a turn after {_FEW}",
        theirs=asyncio.run(_turn_ms(_FEW)),
        unit="ms",
        max_ratio=1.5,
    )


async def load_ms(messages: int) -> float:
    """Return the time to load a run in a process that has not loaded it before."""
    store = MemoryStore()
    runner = AsyncRunner(Agent("a", model=_NotingModel(1)), store=store)
    await runner.start(_conversation(messages), run_id="long")
    times: list[float] = []
    for _ in range(_LOADS):
        started = time.perf_counter()
        await Versions(Objects(store), "long").load_newest()
        times.append(time.perf_counter() - started)
    return median(times) * 1000


async def _turn_ms(messages: int) -> float:
    """Return the time of a durable turn after so many messages."""
    model = _NotingModel(_TURNS)
    agent = Agent("a", tools=[tool(_note, name="note")], model=model, max_turns=None)
    runner = AsyncRunner(agent, store=MemoryStore())
    await runner.start(_conversation(messages))
    turns = zip(model.times, model.times[1:], strict=False)
    return median(after - before for before, after in turns) * 1000


async def _note(number: int) -> str:
    """Save a note."""
    return f"Saved {number}."


class _NotingModel:
    """Calls the tool in every turn but the last, and notes the time."""

    name = "noting"

    def __init__(self, turns: int) -> None:
        self._turns = turns
        self.times: list[float] = []

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return a call of the tool, or the end."""
        del request
        self.times.append(time.perf_counter())
        count = len(self.times)
        message: dict[str, Any] = {"role": "assistant", "content": "The end."}
        if count < self._turns:
            message = _calling_message(f"call_{count}", count)
        return ModelReply(message=Message.from_mapping(message))


def _calling_message(call_id: str, number: int) -> dict[str, Any]:
    function = {"name": "note", "arguments": f'{{"number": {number}}}'}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def _conversation(count: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Save notes."}]
    while len(messages) < count:
        number = len(messages)
        text = sample_text(number, _MESSAGE_CHARS)
        call_id = f"old_{number}"
        messages.append({**_calling_message(call_id, number), "content": text})
        messages.append({"role": "tool", "tool_call_id": call_id, "content": text})
    return messages
