"""A turn of a thread on files: no listing of its folders, and no work that grows."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from continuations import Agent, AsyncRunner, Replied, Runner, tool
from continuations.core.messages import Message
from continuations.core.model_protocol import Model, ModelRequest
from continuations.ledger import layout
from continuations.models.interface import ModelReply
from continuations.models.scripted import ScriptedModel
from continuations_storage import FileStore, MemoryStore, Store
from continuations_storage.contract import all_keys
from tests.outcomes import expect


class CountingFiles(FileStore):
    """A store in a folder that counts its operations."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.requests: Counter[str] = Counter()
        self.listed: list[str] = []

    async def create(self, key: str, body: bytes) -> datetime:
        self.requests["create"] += 1
        return await super().create(key, body)

    async def read(self, key: str) -> bytes:
        self.requests["read"] += 1
        return await super().read(key)

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        self.requests["keys"] += 1
        self.listed.append(prefix)
        return await super().keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        self.requests["delete"] += 1
        await super().delete(key)


def make_runner(store: FileStore) -> Runner:
    agent = Agent("support", model=ScriptedModel(lambda _request: "Yes."))
    return Runner(agent, store=store)


def send(runner: Runner, text: str = "Hello") -> Replied[str]:
    return expect(runner.thread(key="k").send(text, by="ann"), Replied)


def test_a_turn_on_files_costs_the_same_operations_at_every_length(
    tmp_path: Path,
) -> None:
    """A process that knows the thread lists none of its growing folders."""
    store = CountingFiles(tmp_path / "store")
    runner = make_runner(store)
    costs: dict[int, Counter[str]] = {}
    for number in range(1, 121):
        store.requests.clear()
        send(runner)
        costs[number] = store.requests.copy()

    assert 0 == costs[10]["keys"] == costs[120]["keys"]
    assert costs[10]["create"] == costs[120]["create"]
    assert costs[10]["delete"] == costs[120]["delete"]
    assert costs[120]["read"] <= costs[10]["read"] + 2 * 4  # log2(120 / 10) + 1


def test_the_first_turn_of_a_process_lists_the_versions_once(tmp_path: Path) -> None:
    """The number of the newest version is kept, also before the version is read."""
    root = tmp_path / "store"
    send(make_runner(FileStore(root)))
    store = CountingFiles(root)

    send(make_runner(store))

    assert 1 == sum("/v/" in prefix for prefix in store.listed)


def test_a_process_that_only_listed_sees_that_the_thread_was_erased(
    tmp_path: Path,
) -> None:
    """The number that it kept is not trusted without version 1."""
    root = tmp_path / "store"
    first = send(make_runner(FileStore(root)))
    here = make_runner(FileStore(root))
    assert here.thread(key="k").post("More", by="ann").run_id == first.run_id
    make_runner(FileStore(root)).erase(first.run_id)

    assert here.thread(key="k").post("Hello", by="ann").run_id.endswith("-2")


def test_a_sweep_lists_the_versions_of_a_thread_once_in_a_process(
    tmp_path: Path,
) -> None:
    """The first sweep of a process lists the folder of versions once, the next none."""
    root = tmp_path / "store"
    there, store = make_runner(FileStore(root)), CountingFiles(root)
    here = make_runner(store)
    send(there)
    for listings in (1, 0, 0):
        there.thread(key="k").post("Hello", by="ann")
        store.listed.clear()

        assert 1 == len(here.sweep().resumed)

        assert listings == sum("/v/" in prefix for prefix in store.listed)


def test_a_process_sees_the_versions_that_another_process_wrote(tmp_path: Path) -> None:
    """Many versions of another process are found, also by a listing."""
    here = make_runner(FileStore(tmp_path / "store"))
    there = make_runner(FileStore(tmp_path / "store"))
    send(here, "one")
    for number in range(8):
        send(there, f"there {number}")

    reply = send(here, "two")

    texts = [each["content"] for each in reply.continuation.root.messages]
    assert ["there 7", "Yes.", "two", "Yes."] == texts[-4:]


def test_a_process_sees_that_another_process_erased_the_thread(tmp_path: Path) -> None:
    """The next message opens the next generation."""
    here = make_runner(FileStore(tmp_path / "store"))
    there = make_runner(FileStore(tmp_path / "store"))
    first = send(here)
    send(there)
    there.erase(first.run_id)

    reply = send(here)

    assert reply.run_id.endswith("-2")


def test_a_process_sees_a_half_erased_thread(tmp_path: Path) -> None:
    """Version 1 is deleted first: without it, a missing number tells nothing."""
    store = FileStore(tmp_path / "store")
    here, there = make_runner(store), make_runner(FileStore(tmp_path / "store"))
    first = send(here)
    version = first.continuation.version
    send(there)
    deleted: list[str] = []

    class RecordingFiles(FileStore):
        async def delete(self, key: str) -> None:
            if "/v/" in key:
                deleted.append(key)
            await super().delete(key)

    make_runner(RecordingFiles(tmp_path / "store")).erase(first.run_id)
    assert layout.version_key(first.run_id, 1) == deleted[0]
    # As if the eraser had died before it deleted the version that this process keeps.
    key = layout.version_key(first.run_id, version)
    asyncio.run(store.create(key, b"old bytes"))

    reply = send(here)

    assert reply.run_id.endswith("-2")


# Python calls of a turn -------------------------------------------------------


_FEW, _MANY, _MAX_GROWTH = 10, 2000, 1.3
_CALLS, _COUNTED = 16, 4


class ConstantModel:
    """Replies without a look at the conversation."""

    name = "constant"

    async def reply(self, _request: ModelRequest) -> ModelReply:
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


def make_working_runner(store: Store, model: Model) -> AsyncRunner:
    return AsyncRunner(Agent("support", tools=[look], model=model), store=store)


async def send_and_count(runner: AsyncRunner, key: str) -> Replied[str]:
    return expect(await runner.thread(key=key).send("Hello", by="ann"), Replied)


def message_count(reply: Replied[str]) -> int:
    """Return the number of messages of the thread; this reads all of them."""
    return len(reply.continuation.root.messages)


async def store_threads(root: Path) -> None:
    """Store a thread of few and one of many messages; in memory, for it is faster."""
    memory = MemoryStore()
    runner = make_working_runner(memory, CallingModel())
    for key, count in (("few", _FEW), ("many", _MANY)):
        while message_count(await send_and_count(runner, key)) < count:
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
            await send_and_count(runner, key)
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
        runner = make_working_runner(FileStore(root), make_model())
        first = await send_and_count(
            runner, key
        )  # a new process reads the whole thread
        assert message_count(first) >= at_least
        await send_and_count(runner, key)
        return await python_calls(runner, key)

    few = asyncio.run(measured("few", _FEW))
    many = asyncio.run(measured("many", _MANY))

    assert few > 1000
    assert many <= _MAX_GROWTH * few, (few, many)
