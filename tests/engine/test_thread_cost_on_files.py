"""A turn of a thread on files does not list the folders of the thread."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime
from pathlib import Path

from continuations import Agent, Replied, Runner
from continuations.ledger import layout
from continuations.models.scripted import ScriptedModel
from continuations_storage.files import FileStore
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
    """Return a runner of a process of its own."""
    agent = Agent("support", model=ScriptedModel(lambda _request: "Yes."))
    return Runner(agent, store=store)


def send(runner: Runner, text: str = "Hello") -> Replied[str]:
    """Send a message, and return the reply."""
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
