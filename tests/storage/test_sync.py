"""`SyncStore`: plain calls, with and without a running event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import continuations_storage
from continuations_storage import (
    AlreadyExists,
    FileStore,
    MemoryStore,
    NotFound,
    SyncStore,
    Unsafe,
)
from continuations_storage.faults import FaultyStore, on, refused

AFTER_A_FORK = """
import os, sys
from continuations_storage import FileStore, SyncStore
store = SyncStore(FileStore(sys.argv[1]))
store.create("a", b"parent")
child = os.fork()
if child == 0:
    store.create("b", store.read("a"))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(store.read("b").decode())
store.close()
"""


def test_sync_store_has_every_method() -> None:
    with SyncStore(MemoryStore()) as store:
        assert store.create("a/1", b"body") is None
        assert b"body" == store.read("a/1")
        assert ["a/1"] == store.keys("a/")
        store.probe()
        store.delete("a/1")
        assert ["probe/passed"] == store.keys("")


def test_sync_store_raises_the_same_errors() -> None:
    with SyncStore(FaultyStore(MemoryStore(), on("probe", refused(Unsafe)))) as store:
        store.create("a", b"")
        with pytest.raises(AlreadyExists):
            store.create("a", b"")
        with pytest.raises(NotFound):
            store.read("b")
        with pytest.raises(Unsafe):
            store.probe()


def test_sync_store_works_inside_a_running_loop(tmp_path: Path) -> None:
    async def scenario() -> bytes:
        with SyncStore(FileStore(tmp_path)) as store:
            store.create("a", b"body")
            return store.read("a")

    assert b"body" == asyncio.run(scenario())


def test_all_keys_iterates_over_every_page() -> None:
    keys = [f"{number:04}" for number in range(2000)]

    with SyncStore(MemoryStore()) as store:
        for key in keys:
            store.create(key, b"")

        assert keys == list(store.all_keys(""))
        assert keys[1500:] == list(store.all_keys("", after="1499"))


def test_close_ends_the_thread_and_later_calls_fail() -> None:
    before = set(threading.enumerate())
    store = SyncStore(MemoryStore())
    store.keys("")
    [thread] = set(threading.enumerate()) - before
    assert "continuations-store" == thread.name

    store.close()
    store.close()

    assert not thread.is_alive()
    with pytest.raises(RuntimeError, match="closed"):
        store.read("a")


def test_sync_store_works_in_a_forked_child(tmp_path: Path) -> None:
    storage = Path(continuations_storage.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", AFTER_A_FORK, tmp_path],
        env={"PYTHONPATH": str(storage)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )

    assert "parent\n" == done.stdout
