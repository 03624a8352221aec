"""The file store, beyond the contract."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations_storage import (
    Denied,
    FileStore,
    InvalidKey,
    MemoryStore,
    NotFound,
    StorageError,
    Unavailable,
)
from continuations_storage.contract import missing_folder
from continuations_storage.faults import ForwardingStore

pytestmark = pytest.mark.usefixtures("new_files")
TEMPORARY_FOLDER = ".tmp+"
SEGMENTS = st.text(st.sampled_from("a.-0~"), min_size=1, max_size=3)
KEYS = st.lists(SEGMENTS, min_size=1, max_size=3).map("/".join)


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path)


def create(store: FileStore, key: str, body: bytes = b"body") -> None:
    asyncio.run(store.create(key, body))


# paths


def test_body_is_a_file_at_its_key(store: FileStore, tmp_path: Path) -> None:
    create(store, "runs/a/1")

    assert b"body" == (tmp_path / "runs" / "a" / "1").read_bytes()
    assert [] == list(tmp_path.glob(f"{TEMPORARY_FOLDER}/*"))


def test_new_root_has_access_for_its_owner_only(tmp_path: Path) -> None:
    root = tmp_path / "made" / "by" / "us"

    create(FileStore(root), "a")

    assert 0o700 == root.stat().st_mode & 0o777
    assert repr(FileStore(root)) == f"<FileStore {root}>"


def test_read_list_and_delete_create_no_folder(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "root")

    async def scenario() -> None:
        assert [] == await store.keys("")
        with pytest.raises(NotFound):
            await store.read("a")
        await store.delete("a")

    asyncio.run(scenario())
    assert [] == list(tmp_path.iterdir())


def test_create_returns_the_time_of_the_file_system(
    store: FileStore, tmp_path: Path
) -> None:
    delays = asyncio.run(store.create("a", b""))

    assert datetime.fromtimestamp((tmp_path / "a").stat().st_mtime, UTC) == delays
    assert UTC == delays.tzinfo


@pytest.mark.parametrize("operation", ["create", "read", "keys", "delete"])
def test_folder_that_has_gone_is_no_empty_store(tmp_path: Path, operation: str) -> None:
    """A disk that is not mounted would look like a store without runs."""
    root, away = tmp_path / "root", tmp_path / "away"
    store = FileStore(root)
    create(store, "runs/a")
    root.rename(away)
    arguments = {"create": ("b", b""), "keys": ("",)}.get(operation, ("runs/a",))

    with pytest.raises(Unavailable, match=r"has gone\)\. Mount its disk again"):
        asyncio.run(getattr(store, operation)(*arguments))

    assert not root.exists()
    away.rename(root)
    assert b"body" == asyncio.run(store.read("runs/a"))


@pytest.mark.parametrize("operation", ["create", "read", "keys", "delete"])
def test_folder_that_was_replaced_is_no_empty_store(
    tmp_path: Path, operation: str
) -> None:
    """A disk that was unmounted leaves the empty folder of its mount point."""
    root, away = tmp_path / "root", tmp_path / "away"
    store = FileStore(root)
    create(store, "runs/a")
    root.rename(away)
    root.mkdir()
    arguments = {"create": ("b", b""), "keys": ("",)}.get(operation, ("runs/a",))

    for _ in range(2):
        with pytest.raises(Unavailable, match=r"replaced by another one\)\. Mount its"):
            asyncio.run(getattr(store, operation)(*arguments))

    assert [] == list(root.iterdir())
    assert [] == asyncio.run(FileStore(root).keys(""))  # a process that starts now
    root.rmdir()
    away.rename(root)
    assert b"body" == asyncio.run(store.read("runs/a"))


def test_folder_that_was_removed_and_made_again_is_no_empty_store(
    tmp_path: Path,
) -> None:
    """A new folder does not get the inode number of the removed one."""
    root = tmp_path / "root"
    store = FileStore(root)
    create(store, "a")
    shutil.rmtree(root)
    with pytest.raises(Unavailable, match="has gone"):
        asyncio.run(store.keys(""))
    root.mkdir()

    with pytest.raises(Unavailable, match="replaced by another one"):
        asyncio.run(store.keys(""))


def test_missing_folder_is_told_until_the_first_create(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "root")
    wrapped = ForwardingStore(store)

    assert str(tmp_path / "root") == missing_folder(store) == missing_folder(wrapped)
    assert [] == asyncio.run(store.keys(""))
    create(store, "a")
    assert None is missing_folder(store) is missing_folder(wrapped)
    assert missing_folder(MemoryStore()) is None


def test_root_that_is_a_file_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = FileStore(tmp_path / "file")

    for work in (store.create("a", b""), store.read("a"), store.keys("")):
        with pytest.raises(Unavailable, match="is not a folder"):
            asyncio.run(work)
    assert b"" == (tmp_path / "file").read_bytes()


@pytest.mark.parametrize("below", ["", "x", "x/y"])
def test_root_below_a_dangling_link_is_unavailable(tmp_path: Path, below: str) -> None:
    """The error names the link, for example to a volume that is not mounted."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "missing")

    with pytest.raises(Unavailable, match="link' is a symbolic link to a folder that"):
        create(FileStore(link / below), "a")
    assert [link] == list(tmp_path.iterdir())


def test_root_where_no_folder_can_be_made_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In /proc, for example, mkdir() reports a missing folder."""
    mkdir = os.mkdir

    def mkdir_as_in_proc(path: str, *args: Any, **options: Any) -> None:
        if os.path.basename(path) == "root":  # noqa: PTH119 - the store uses os, too
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        mkdir(path, *args, **options)

    monkeypatch.setattr(os, "mkdir", mkdir_as_in_proc)
    with pytest.raises(Unavailable, match="no folder can be made in "):
        create(FileStore(tmp_path / "root"), "a")


def test_files_with_invalid_names_are_not_listed(
    store: FileStore, tmp_path: Path
) -> None:
    create(store, "a/1")
    for name in ("a b", "ä", "+", "a/x y", "a/1.tmp+"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "c d").mkdir()
    (tmp_path / "c d" / "1").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")

    assert ["a/1"] == asyncio.run(store.keys(""))


def test_read_of_a_pipe_does_not_block(store: FileStore, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(Denied, match="not a regular file"):
        asyncio.run(store.read("pipe"))


@settings(deadline=None)  # the disk may be busy
@given(st.sets(KEYS, max_size=12), KEYS, KEYS, st.integers(1, 5))
def test_listing_equals_the_listing_of_the_memory_store(
    keys: set[str], prefix: str, after: str, limit: int
) -> None:
    with tempfile.TemporaryDirectory() as root:
        files, memory = FileStore(root), MemoryStore()

        async def scenario() -> None:
            for key in sorted(keys):
                assert await outcome(memory, key) == await outcome(files, key)
            for start in ("", prefix, f"{prefix}/"):
                assert await page(memory, start) == await page(files, start)

        async def outcome(store: FileStore | MemoryStore, key: str) -> str:
            try:
                await store.create(key, b"")
            except InvalidKey:
                return "refused"
            return "created"

        async def page(store: FileStore | MemoryStore, start: str) -> list[str]:
            try:
                return await store.keys(start, after, limit)
            except InvalidKey:
                return ["refused"]

        asyncio.run(scenario())


# folders


@pytest.mark.parametrize(("first", "second"), [("a/b", "a"), ("a", "a/b/c")])
def test_key_that_is_a_folder_of_another_key_is_rejected(
    first: str, second: str, store: FileStore
) -> None:
    create(store, first)

    with pytest.raises(InvalidKey, match=r"folder"):
        create(store, second)
    assert [first] == asyncio.run(store.keys(""))


def test_read_below_a_key_raises_not_found(store: FileStore) -> None:
    create(store, "a")

    with pytest.raises(NotFound):
        asyncio.run(store.read("a/b"))
    asyncio.run(store.delete("a/b"))
    assert [] == asyncio.run(store.keys("a/b/"))


def test_key_replaces_an_empty_folder(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "runs" / "a").mkdir(parents=True)

    create(store, "runs/a")

    assert b"body" == asyncio.run(store.read("runs/a"))


def test_empty_folders_are_removed_except_the_first_level(
    store: FileStore, tmp_path: Path
) -> None:
    create(store, "runs/a/v/1")
    create(store, "runs/b/v/1")

    asyncio.run(store.delete("runs/a/v/1"))
    assert ["b"] == [each.name for each in (tmp_path / "runs").iterdir()]
    asyncio.run(store.delete("runs/b/v/1"))
    assert [] == list((tmp_path / "runs").iterdir())


def test_create_makes_a_removed_folder_again(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, vanished = os.link, list[bool]()

    def link(*args: Any, **kwargs: Any) -> None:
        if not vanished:
            (tmp_path / "runs" / "a").rmdir()
            vanished.append(True)
        real(*args, **kwargs)

    monkeypatch.setattr(os, "link", link)
    create(store, "runs/a/1")

    assert [True] == vanished
    assert ["runs/a/1"] == asyncio.run(store.keys(""))


async def test_concurrent_creates_and_deletes_in_one_folder_work(
    store: FileStore,
) -> None:
    async def create_and_delete(name: str) -> None:
        for _ in range(30):
            await store.create(f"runs/a/{name}", b"")
            await store.delete(f"runs/a/{name}")

    await asyncio.gather(*(create_and_delete(name) for name in "abcd"))
    assert [] == (await store.keys(""))


# symbolic links


def test_symbolic_links_do_not_lead_out_of_the_root(tmp_path: Path) -> None:
    """No verb follows a symbolic link below the root."""
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "secret")
    store = FileStore(root)

    for work in (
        store.read("file"),
        store.read("folder/secret"),
        store.create("folder/new", b""),
        store.create("folder/deep/new", b""),
        store.delete("folder/secret"),
        store.keys("folder/"),
    ):
        with pytest.raises(Denied, match="ELOOP"):
            asyncio.run(work)
    assert [] == asyncio.run(store.keys(""))
    assert ["secret"] == [each.name for each in outside.iterdir()]
    assert b"secret" == (outside / "secret").read_bytes()


def test_create_does_not_write_through_a_dangling_link(tmp_path: Path) -> None:
    """A create never writes outside the root."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "a").symlink_to(tmp_path / "nowhere")

    with pytest.raises(StorageError, match="already exists"):
        create(FileStore(root), "a")
    assert not (tmp_path / "nowhere").exists()


def test_root_may_be_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "disk")

    create(FileStore(tmp_path / "root"), "a")

    assert b"body" == (tmp_path / "disk" / "a").read_bytes()


# temporary files


def test_old_temporary_files_are_removed_and_never_listed(
    store: FileStore, tmp_path: Path
) -> None:
    """A crash leaves at most a temporary file for an hour."""
    temporary_folder = tmp_path / TEMPORARY_FOLDER
    temporary_folder.mkdir()
    two_hours_ago = time.time() - 7200
    for name, age in (("old", two_hours_ago), ("young", time.time())):
        (temporary_folder / name).write_bytes(b"half a bo")
        os.utime(temporary_folder / name, (age, age))

    assert [] == asyncio.run(store.keys(""))
    with pytest.raises(InvalidKey):
        asyncio.run(store.keys(f"{TEMPORARY_FOLDER}/"))
    create(store, "a")

    assert ["young"] == [each.name for each in temporary_folder.iterdir()]
    assert ["a"] == asyncio.run(store.keys(""))
