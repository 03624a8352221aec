"""A watch of each store wakes its caller for a new key, and costs little without one.

`continuations_storage.conformance` has the tests that every store passes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from continuations_storage import (
    FileStore,
    InvalidKey,
    MemoryStore,
    SQLiteStore,
    Store,
    Unavailable,
    open_store,
)
from continuations_storage.contract import PAGE_SIZE, Watch, watch
from continuations_storage.faults import ForwardingStore
from continuations_storage.polled_watch import polled_watch

OPENERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "files": lambda folder: FileStore(folder / "store"),
    "SQLite": lambda folder: SQLiteStore(folder / "store.db"),
    "wrapped": lambda folder: ForwardingStore(FileStore(folder / "store")),
}


@pytest.fixture(params=OPENERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return OPENERS[request.param](tmp_path)


async def test_first_create_of_an_empty_store_is_reported(store: Store) -> None:
    """The folder or the file does not exist when the watch begins."""
    watching = watch(store, "m/0-")
    assert watching is not None
    async with watching as watched:
        assert not await watched.wait(0.05)
        await store.create("m/0-a", b"")
        assert await watched.wait(60)


async def test_report_comes_while_the_caller_sleeps(store: Store) -> None:
    watching = watch(store, "m/")
    assert watching is not None
    async with watching as watched:
        waiting = asyncio.ensure_future(watched.wait(60))
        await asyncio.sleep(0.1)
        began_at = time.monotonic()
        await store.create("m/a", b"")
        assert await waiting
        assert time.monotonic() - began_at < 5


def test_creates_of_another_thread_and_loop_are_reported(store: Store) -> None:
    async def scenario() -> bool:
        watching = watch(store, "m/")
        assert watching is not None
        async with watching as watched:
            waiting = asyncio.ensure_future(watched.wait(60))
            await asyncio.sleep(0.05)
            thread = threading.Thread(
                target=lambda: asyncio.run(create_all(store, "m/a"))
            )
            thread.start()
            thread.join()
            return await waiting

    assert asyncio.run(scenario())


async def create_all(store: Store, *keys: str) -> None:
    for key in keys:
        await store.create(key, b"")


async def test_invalid_prefix_is_refused(store: Store) -> None:
    for prefix in ("a//", "m/é", "../x"):
        with pytest.raises(InvalidKey):
            watch(store, prefix)


def test_buckets_and_wrapped_buckets_have_no_watch() -> None:
    bucket = open_store("s3://bucket/prefix", region="eu-west-1")

    assert watch(bucket, "m/") is None
    assert watch(ForwardingStore(bucket), "m/") is None


async def test_keys_in_deeper_folders_are_not_reported(store: Store) -> None:
    """A file store would have to watch every folder."""
    watching = watch(store, "m/")
    assert watching is not None
    async with watching as watched:
        await store.create("m/deeper/a", b"")
        assert not await watched.wait(0.1)


# Files and SQLite ---------------------------------------------------------------


async def test_folder_that_is_made_again_is_watched_again(tmp_path: Path) -> None:
    """A folder below the first level is removed with its last key."""
    store = FileStore(tmp_path)
    async with store.watch("a/m/") as watched:
        for number in range(3):
            await store.create(f"a/m/{number}", b"")
            assert await watched.wait(60)
            await store.delete(f"a/m/{number}")


async def test_two_creates_in_one_tick_of_the_clock_are_both_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of a folder has the ticks of the system's clock."""
    # Longer ticks than the pauses of a busy machine.
    monkeypatch.setattr("continuations_storage.files._TICK_NANOSECONDS", 300_000_000)
    store = FileStore(tmp_path)
    await store.create("m/0", b"")
    folder = tmp_path / "m"
    async with store.watch("m/") as watched:
        await asyncio.sleep(0.05)
        tick = time.time_ns()
        for name in ("1", "2"):
            (folder / name).touch()
            os.utime(folder, ns=(tick, tick))
            assert await watched.wait(60), name


@pytest.mark.parametrize("name", ["files", "SQLite"])
async def test_store_that_goes_away_reports_nothing(name: str, tmp_path: Path) -> None:
    """The watch raises no error; the caller's own listing does."""
    store = OPENERS[name](tmp_path)
    await store.create("m/a", b"")
    watching = watch(store, "m/")
    assert watching is not None
    async with watching as watched:
        remove_all(tmp_path)
        assert not await watched.wait(0.1)
        with pytest.raises(Unavailable):
            await store.keys("m/")


def remove_all(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


async def test_locked_database_delays_a_report(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db")
    await store.create("m/a", b"")
    async with store.watch("m/") as watched:
        with closing(sqlite3.connect(tmp_path / "store.db")) as other:
            other.execute("BEGIN EXCLUSIVE")
            assert not await watched.wait(0.1)
            other.execute("INSERT INTO objects VALUES ('m/b', 0, x'')")
            other.execute("COMMIT")
        assert await watched.wait(60)


async def test_connection_of_a_closed_watch_is_used_again(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "store.db")
    await store.create("m/a", b"")
    async with store.watch("m/") as watched:
        await watched.wait(0.0)
    assert b"" == await store.read("m/a")


async def test_child_of_a_fork_does_not_use_the_connection_of_the_watch(
    tmp_path: Path,
) -> None:
    store = SQLiteStore(tmp_path / "store.db")
    await store.create("m/a", b"")
    async with store.watch("m/") as watched:
        assert 0 == await asyncio.to_thread(exit_code_of_child, store)
        assert await watched.wait(60)
        assert ["m/a", "m/b"] == await store.keys("m/")


def exit_code_of_child(store: Store) -> int:
    """Create a key in a child, and return its exit code."""
    child = os.fork()
    if not child:
        code = 1
        try:
            asyncio.run(create_all(store, "m/b"))
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# The cost -----------------------------------------------------------------------


class CountedStore(ForwardingStore):
    """Counts its listings, which may be slow or fail."""

    listings = 0
    seconds = 0.0
    fails = False

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        self.listings += 1
        await asyncio.sleep(self.seconds)
        if self.fails:
            raise Unavailable(prefix, "tried")
        return await super().keys(prefix, after, limit)


async def test_store_without_changes_is_not_listed() -> None:
    store = CountedStore(MemoryStore())
    async with polled_watch(store, "m/", lambda: 1) as watched:
        assert not await watched.wait(0.2)
    assert 1 == store.listings


async def test_slow_listings_leave_most_of_the_time_to_others() -> None:
    """A large folder changes all the time; a fifth of the time is listings."""
    store = CountedStore(MemoryStore())
    store.seconds = 0.02
    async with polled_watch(store, "m/", time.monotonic_ns) as watched:
        store.listings = 0
        assert not await watched.wait(0.5)
    assert 1 <= store.listings <= 5


async def test_listing_that_fails_is_no_report() -> None:
    store = CountedStore(MemoryStore())
    async with polled_watch(store, "m/", time.monotonic_ns) as watched:
        store.fails = True
        await store.create("m/a", b"")
        assert not await watched.wait(0.1)
        store.fails = False
        assert await watched.wait(60)


async def test_keys_behind_a_full_page_are_reported() -> None:
    """The listing shows the first keys only, so each change is reported."""
    store = MemoryStore()
    for number in range(PAGE_SIZE):
        await store.create(f"m/{number:04d}", b"")
    changes = [0]
    async with polled_watch(store, "m/", lambda: changes[0]) as watched:
        await store.create("m/z", b"")
        changes[0] += 1
        assert await watched.wait(60)
        assert not await watched.wait(0.05)


async def test_watches_have_the_methods_of_the_contract(store: Store) -> None:
    watching = watch(store, "m/")
    assert watching is not None
    async with watching as watched:
        checked: Watch = watched
        assert not await checked.wait(0.0)
