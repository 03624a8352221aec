"""The work of one turn does not grow with the messages before it."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from continuations import Agent, AsyncRunner, Finished, tool
from continuations.core.messages import Message
from continuations.core.model_protocol import ModelRequest
from continuations.models.interface import ModelReply
from continuations_storage import MemoryStore

# Turns before the first counted one, and counted turns. By then, the methods of values
# that each turn makes are compiled (`value_class`).
_WARM_UP, _COUNTED = 40, 8


class CountingModel:
    """Calls the tool in every turn, and counts function calls between requests."""

    name = "counting"

    def __init__(self) -> None:
        self.turns = 0
        self.calls = 0

    def _count(self, _frame: object, event: str, _arg: object) -> None:
        self.calls += event in ("call", "c_call")

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return the next reply; a turn is all work from one reply to the next."""
        self.turns += 1
        self.request = request
        if self.turns == _WARM_UP:
            sys.setprofile(self._count)
        if self.turns == _WARM_UP + _COUNTED:
            sys.setprofile(None)
            return ModelReply(
                message=Message.from_mapping({"role": "assistant", "content": "end"})
            )
        function = {"name": "note", "arguments": '{"number": 1}'}
        call = {"id": f"c{self.turns}", "type": "function", "function": function}
        data = {"role": "assistant", "content": None, "tool_calls": [call]}
        return ModelReply(message=Message.from_mapping(data))


def conversation(count: int) -> list[dict[str, Any]]:
    """Return a conversation of about as many messages, with tool calls."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Save notes."}]
    while len(messages) < count:
        call = {
            "id": f"old_{len(messages)}",
            "type": "function",
            "function": {"name": "note", "arguments": "{}"},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        result = {"role": "tool", "tool_call_id": call["id"], "content": "saved"}
        messages.append(result)
    return messages


def python_calls_per_turn(message_count: int, *, read_only: bool) -> float:
    """Return the function calls of a durable turn after so many messages."""

    async def note(number: int) -> str:
        """Save a note."""
        return f"saved {number}"

    model = CountingModel()
    agent = Agent(
        "notes",
        tools=[tool(note, read_only=read_only)],
        model=model,
        max_turns=None,
    )

    async def scenario() -> None:
        runner = AsyncRunner(agent, store=MemoryStore())
        assert isinstance(await runner.start(conversation(message_count)), Finished)

    try:
        asyncio.run(scenario())
    finally:
        sys.setprofile(None)
    assert len(model.request.messages) >= message_count
    return model.calls / _COUNTED


# Just above the calls of Python 3.11; a change that needs more says why. Waits of
# frames, the rows of a run, the requests of operators and threads took 6 %, and unread
# messages and instructions of threads took 1 %.
@pytest.mark.parametrize(
    ("read_only", "limit"), [(True, 2020), (False, 2650)], ids=["read_only", "ordinary"]
)
def test_python_calls_of_a_turn_do_not_grow_with_the_messages(
    *, read_only: bool, limit: int
) -> None:
    """At 2,000 messages a turn makes as many calls as at 200, and 20 more at most."""
    # On a busy machine, timers of the run add calls to some turns: the least counts.
    few, many = (
        min(python_calls_per_turn(count, read_only=read_only) for _ in range(2))
        for count in (200, 2000)
    )

    assert 100 < few <= limit
    assert many <= few + 20
