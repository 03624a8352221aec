"""Creates that wait at the same time share a thread and the flush of their folder."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import stat
import subprocess
import sys
import threading
from contextlib import asynccontextmanager
from textwrap import dedent
from typing import TYPE_CHECKING

from continuations_storage import FileStore
from continuations_storage.errors import AlreadyExists, StorageError
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence
    from datetime import datetime
    from pathlib import Path

    import pytest

    from continuations_storage.step_groups import Flush
    from continuations_storage.thread_pool import PoolCall

_KEYS = [f"folder/{number:02d}" for number in range(16)]


@asynccontextmanager
async def busy(store: FileStore) -> AsyncGenerator[None]:
    """Keep the thread of the creates busy, so that all others form one group."""
    entered, gate = threading.Event(), threading.Event()

    def wait(_: int) -> None:
        entered.set()
        assert gate.wait(10)

    def hold() -> Generator[Sequence[Flush], None, None]:
        yield [(wait, 0)]

    groups = store._creates  # pyright: ignore[reportPrivateUsage]
    holding = asyncio.ensure_future(groups.run(hold()))
    await asyncio.to_thread(entered.wait, 10)
    yield
    await asyncio.sleep(0)  # the creates of the caller are waiting now
    gate.set()
    await holding


def create(store: FileStore, key: str) -> asyncio.Future[datetime]:
    return asyncio.ensure_future(store.create(key, key.encode()))


def test_creates_that_wait_flush_their_folder_once_and_start_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixteen creates need 16 flushes of files, one of their folder, and no thread."""
    flushed: list[bool] = []
    started: list[str] = []
    fsync, start = os.fsync, DaemonThreadPool.start

    def counted_fsync(descriptor: int) -> None:
        flushed.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        fsync(descriptor)

    def counted_start(self: DaemonThreadPool, call: PoolCall) -> None:
        started.append(self.name)
        start(self, call)

    async def scenario() -> None:
        store = FileStore(tmp_path)
        await store.create("folder/first", b"first")
        async with busy(store):
            monkeypatch.setattr(os, "fsync", counted_fsync)
            monkeypatch.setattr(DaemonThreadPool, "start", counted_start)
            creating = [create(store, key) for key in _KEYS]
        await asyncio.gather(*creating)
        assert [await store.read(key) for key in _KEYS] == [k.encode() for k in _KEYS]

    asyncio.run(scenario())

    assert flushed.count(False) == len(_KEYS)
    assert flushed.count(True) == 1
    assert "continuations-file" not in started


def test_error_of_a_create_does_not_reach_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A taken key and a body that cannot be flushed fail alone."""
    fsync, fails = os.fsync, iter([True])  # for one of the threads

    def fails_once_for_a_file(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode) and next(fails, False):
            raise OSError(errno.EIO, "the disk is damaged")
        fsync(descriptor)

    async def scenario() -> list[object]:
        store = FileStore(tmp_path)
        await store.create("folder/taken", b"first")
        monkeypatch.setattr(os, "fsync", fails_once_for_a_file)
        async with busy(store):
            creating = [create(store, key) for key in (*_KEYS, "folder/taken")]
        results = await asyncio.gather(*creating, return_exceptions=True)
        assert b"first" == await store.read("folder/taken")
        listed = await store.keys("folder/")
        assert listed == sorted(
            key
            for key, result in zip((*_KEYS, "folder/taken"), results, strict=True)
            if not isinstance(result, StorageError) or isinstance(result, AlreadyExists)
        )
        return list(results)

    *results, taken = asyncio.run(scenario())

    assert isinstance(taken, AlreadyExists)
    assert 1 == sum(isinstance(result, StorageError) for result in results)


def test_cancelled_create_that_has_not_begun_is_not_made(tmp_path: Path) -> None:
    """Its key stays free; the creates beside it are made."""

    async def scenario() -> None:
        store = FileStore(tmp_path)
        async with busy(store):
            first, second = create(store, "a"), create(store, "b")
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait([first])
        await second
        assert ["b"] == await store.keys("")

    asyncio.run(scenario())


def test_forked_child_makes_its_own_groups(tmp_path: Path) -> None:
    """A fork while a group is made does not stop the creates of the child."""
    script = """
        import asyncio, os, sys, threading
        from continuations_storage import FileStore
        store = FileStore(sys.argv[1])
        entered, gate = threading.Event(), threading.Event()

        def hold():
            yield [(lambda _: (entered.set(), gate.wait(10)), 0)]

        def create_in_child():
            asyncio.events._set_running_loop(None)
            loop = asyncio.new_event_loop()
            creating = store.create("child", b"child")
            loop.run_until_complete(asyncio.wait_for(creating, 10))
            os._exit(0)

        async def fork():
            holding = asyncio.ensure_future(store._creates.run(hold()))
            await asyncio.to_thread(entered.wait, 10)
            child = os.fork() or create_in_child()
            gate.set()
            await holding
            return child

        assert os.waitpid(asyncio.run(fork()), 0)[1] == 0
    """
    words = [sys.executable, "-c", dedent(script), str(tmp_path)]

    subprocess.run(words, check=True, timeout=30)

    assert b"child" == (tmp_path / "child").read_bytes()


def test_pickled_store_has_the_same_keys(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = FileStore(tmp_path)
        await store.create("a", b"x")
        assert b"x" == await pickle.loads(pickle.dumps(store)).read("a")  # noqa: S301

    asyncio.run(scenario())
