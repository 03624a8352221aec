"""The work of a thread's turn on files does not grow with the thread."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from continuations import Agent, AsyncRunner, Replied, tool
from continuations.core.messages import Message
from continuations.core.model_protocol import Model, ModelRequest
from continuations.models.interface import ModelReply
from continuations.models.scripted import ScriptedModel
from continuations_storage import FileStore, MemoryStore, Store
from continuations_storage.contract import all_keys
from tests.outcomes import expect

_FEW, _MANY, _MAX_GROWTH = 10, 2000, 1.3
_CALLS, _COUNTED = 16, 4


class ConstantModel:
    """Replies without a look at the conversation."""

    name = "constant"

    async def reply(self, _request: ModelRequest) -> ModelReply:
        """Return the same text."""
        data = {"role": "assistant", "content": "Yes."}
        return ModelReply(message=Message.from_mapping(data))


class CallingModel:
    """Calls the tool several times in each turn, so that a thread gets long soon."""

    name = "calling"

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return calls, and after their results a text."""
        if request.messages[-1].role == "tool":
            return await ConstantModel().reply(request)
        calls = [
            {
                "id": f"c{len(request.messages)}-{number}",
                "type": "function",
                "function": {"name": "look", "arguments": "{}"},
            }
            for number in range(_CALLS)
        ]
        data = {"role": "assistant", "content": None, "tool_calls": calls}
        return ModelReply(message=Message.from_mapping(data))


@tool(read_only=True)
async def look() -> str:
    """Look something up."""
    return "found"


def make_runner(store: Store, model: Model) -> AsyncRunner:
    """Return a runner of a process of its own."""
    return AsyncRunner(Agent("support", tools=[look], model=model), store=store)


async def send(runner: AsyncRunner, key: str) -> Replied[str]:
    """Send a message, and return the reply."""
    return expect(await runner.thread(key=key).send("Hello", by="ann"), Replied)


def message_count(reply: Replied[str]) -> int:
    """Return the number of messages of the thread; this reads all of them."""
    return len(reply.continuation.root.messages)


async def store_threads(root: Path) -> None:
    """Store a thread of few and one of many messages; in memory, for it is faster."""
    memory = MemoryStore()
    runner = make_runner(memory, CallingModel())
    for key, count in (("few", _FEW), ("many", _MANY)):
        while message_count(await send(runner, key)) < count:
            pass
    async for key in all_keys(memory, ""):
        file = root / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(await memory.read(key))


async def python_calls(runner: AsyncRunner, key: str) -> int:
    """Return the function calls of the cheapest of a few turns of a thread."""
    counts: list[int] = []
    for _ in range(_COUNTED):
        calls = 0

        def count(_frame: object, event: str, _arg: object) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            await send(runner, key)
        finally:
            sys.setprofile(None)
        counts.append(calls)
    # On a busy machine, timers of the run add calls to some turns.
    return min(counts)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with both threads."""
    folder = tmp_path_factory.mktemp("threads")
    asyncio.run(store_threads(folder))
    return folder


def scripted() -> Model:
    """Return a scripted model, which checks each conversation."""
    return ScriptedModel(lambda _request: "Yes.")


@pytest.mark.parametrize("make_model", [ConstantModel, scripted])
def test_python_calls_of_a_turn_on_files_do_not_grow_with_the_thread(
    root: Path, make_model: Callable[[], Model]
) -> None:
    """At 2,000 messages a turn costs at most 1.3 times as much as at 10."""

    async def measured(key: str, at_least: int) -> int:
        runner = make_runner(FileStore(root), make_model())
        first = await send(runner, key)  # a new process reads the whole thread
        assert message_count(first) >= at_least
        await send(runner, key)
        return await python_calls(runner, key)

    few = asyncio.run(measured("few", _FEW))
    many = asyncio.run(measured("many", _MANY))

    assert few > 1000
    assert many <= _MAX_GROWTH * few, (few, many)
