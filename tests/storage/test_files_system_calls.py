"""The file store with failing, lost and slow system calls."""

from __future__ import annotations

import asyncio
import errno
import inspect
import os
import stat
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from continuations_storage import (
    AlreadyExists,
    Damaged,
    Denied,
    FileStore,
    Inconclusive,
    InvalidKey,
    StorageError,
    Unavailable,
    Unsafe,
    filesystem,
)
from continuations_storage.new_file import NamedFile, UnnamedFile

pytestmark = pytest.mark.usefixtures("new_files")
TEMPORARY_FOLDER = ".tmp+"


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "root")


def failing_call(error_number: int) -> Callable[..., Any]:
    def call(*_: object, **__: object) -> None:
        raise OSError(error_number, os.strerror(error_number))

    return call


def create(store: FileStore, key: str, body: bytes = b"body") -> None:
    asyncio.run(store.create(key, body))


def temporary_files(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "root").glob(f"{TEMPORARY_FOLDER}/*"))


# errors of the system


@pytest.mark.parametrize("call", ["write", "fsync", "link"])
@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, Unavailable),
        (errno.EDQUOT, Unavailable),
        (errno.EIO, Unavailable),
        (errno.EROFS, Denied),
        (errno.EACCES, Denied),
    ],
)
def test_failed_create_raises_a_typed_error_and_leaves_nothing(
    call: str,
    number: int,
    expected: type[StorageError],
    store: FileStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the error, the key is absent and no file is left."""
    create(store, "runs/a/0")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing_call(number))
        with pytest.raises(expected, match=errno.errorcode[number]) as raised:
            create(store, "runs/a/1")

    assert "runs/a/1" == raised.value.key
    assert os.strerror(number) in str(raised.value)
    assert [] == temporary_files(tmp_path)
    assert ["runs/a/0"] == asyncio.run(store.keys(""))
    create(store, "runs/a/1")


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.ENOTSUP])
def test_file_system_without_hard_links_is_unsafe(
    number: int, store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", failing_call(number))

    with pytest.raises(Unsafe, match=r"no hard links.*Use another store"):
        create(store, "a")
    assert [] == temporary_files(tmp_path)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EACCES, Denied),
        (errno.EPERM, Denied),
        (errno.EIO, Unavailable),
        (errno.EMFILE, Unavailable),
        (errno.EBADMSG, Damaged),
        (errno.EUCLEAN, Damaged),
        (errno.ENAMETOOLONG, InvalidKey),
    ],
)
def test_os_errors_of_read_list_and_delete_are_typed(
    number: int,
    expected: type[StorageError],
    store: FileStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create(store, "runs/a")
    monkeypatch.setattr(os, "open", failing_call(number))
    new = FileStore(tmp_path / "root")  # it has no open folders yet

    for work, key in (
        (new.read("runs/a"), "runs/a"),
        (store.read("runs/a"), "runs/a"),
        (store.keys("runs/"), "runs/"),
        (new.delete("runs/a"), "runs/a"),
    ):
        with pytest.raises(expected) as raised:
            asyncio.run(work)
        assert key == raised.value.key


def test_short_writes_are_completed(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write

    def write(file: int, rest: memoryview) -> int:
        return real(file, rest[:7])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        create(store, "a", b"0123456789" * 5)

    assert b"0123456789" * 5 == asyncio.run(store.read("a"))


def test_folder_that_is_always_removed_is_unavailable(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", failing_call(errno.ENOENT))

    with pytest.raises(Unavailable, match="removed 64 times"):
        create(store, "a")
    assert [] == temporary_files(tmp_path)


def test_folder_above_the_root_may_be_unreadable(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def guarded(path: str, flags: int, *args: int, **kwargs: Any) -> int:
        if path == str(tmp_path):
            raise PermissionError(errno.EACCES, "may pass, not look")
        return real(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", guarded)
    create(store, "a")
    create(FileStore(tmp_path / "root"), "b")

    assert ["a", "b"] == asyncio.run(store.keys(""))


# a lost reply to link()


@pytest.mark.parametrize("number", [errno.EEXIST, errno.EIO, errno.ETIMEDOUT])
def test_own_link_is_recognised_after_a_lost_reply(
    number: int, store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.link

    def link(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        failing_call(number)()

    monkeypatch.setattr(os, "link", link)
    create(store, "a", b"ours")

    assert b"ours" == asyncio.run(store.read("a"))
    assert [] == temporary_files(tmp_path)


def test_existing_file_of_another_writer_is_already_exists(store: FileStore) -> None:
    create(store, "a", b"theirs")

    with pytest.raises(AlreadyExists):
        create(store, "a", b"ours")
    assert b"theirs" == asyncio.run(store.read("a"))


def test_unclear_outcome_of_link_is_inconclusive(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", failing_call(errno.EIO))
    for kind in (NamedFile, UnnamedFile):
        monkeypatch.setattr(kind, "count_keys", failing_call(errno.EIO))

    with pytest.raises(Inconclusive, match="after link"):
        create(store, "a")


# durability


class SyncRecorder:
    """Records the order of flushes and links."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.events: list[str | int] = []
        self._fsync, self._link = os.fsync, os.link
        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "link", self.link)

    def fsync(self, descriptor: int) -> None:
        seen = os.fstat(descriptor)
        self.events.append(seen.st_ino if stat.S_ISDIR(seen.st_mode) else "body")
        self._fsync(descriptor)

    def link(self, *args: Any, **kwargs: Any) -> None:
        self.events.append("link")
        self._link(*args, **kwargs)


def inode(folder: Path) -> int:
    return folder.stat().st_ino


def test_new_folders_are_flushed_before_the_link_and_the_last_after_it(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body is durable only in durable folders."""
    recorder = SyncRecorder(monkeypatch)
    create(store, "runs/a/1")

    root = tmp_path / "root"
    *before, link, last = recorder.events
    assert "link" == link
    assert inode(root / "runs" / "a") == last
    above = (tmp_path.parent, tmp_path, root, root / "runs")
    assert {"body", *map(inode, above)} == set(before)


def test_new_folders_and_the_body_are_flushed_at_the_same_time(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A create waits for the disk twice, also if it makes folders."""
    create(store, "runs/a/1")
    together = threading.Barrier(3)
    rounds = iter([True, True, True])
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if next(rounds, False):
            together.wait(timeout=120)  # fails unless three flushes wait at once
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    create(store, "runs/b/in/1")


def test_empty_body_is_flushed_together_with_its_folder(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of an empty body can be lost, so a marker waits for the disk once."""
    create(store, "markers/1", b"")
    recorder = SyncRecorder(monkeypatch)
    together = threading.Barrier(2)
    real = os.fsync

    def fsync(descriptor: int) -> None:
        together.wait(timeout=120)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    create(store, "markers/2", b"")

    link, *flushes = recorder.events
    assert "link" == link
    assert {"body", inode(tmp_path / "root" / "markers")} == set(flushes)


def test_next_create_flushes_the_body_and_its_folder_only(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(store, "runs/a/1")
    recorder = SyncRecorder(monkeypatch)
    create(store, "runs/a/2")

    folder = inode(tmp_path / "root" / "runs" / "a")
    assert ["body", "link", folder] == recorder.events


def test_folders_that_another_process_just_made_are_flushed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    create(FileStore(root), "runs/a/1")
    recorder = SyncRecorder(monkeypatch)
    create(FileStore(root), "runs/a/2")

    above = {inode(tmp_path), inode(root), inode(root / "runs")}
    assert above <= set(recorder.events[: recorder.events.index("link")])


def test_old_folders_are_not_flushed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    create(FileStore(root), "runs/a/1")
    monkeypatch.setattr(filesystem, "_DURABLE_AFTER_SECONDS", 0.0)  # as if time passed
    recorder = SyncRecorder(monkeypatch)
    create(FileStore(root), "runs/a/2")

    assert ["body", "link", inode(root / "runs" / "a")] == recorder.events


def test_already_exists_is_raised_after_a_flush(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The existing body is durable when the error is raised."""
    create(store, "runs/a")
    recorder = SyncRecorder(monkeypatch)
    with pytest.raises(AlreadyExists):
        create(store, "runs/a")

    assert inode(tmp_path / "root" / "runs") == recorder.events[-1]


def fail_flushes_after_link(patch: pytest.MonkeyPatch, number: int) -> None:
    real = os.link

    def link(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        patch.setattr(os, "fsync", failing_call(number))

    patch.setattr(os, "link", link)


def test_create_is_inconclusive_if_its_folder_cannot_be_flushed(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The body is stored, but may be lost in a power cut: no reader gets it."""
    with monkeypatch.context() as patch:
        fail_flushes_after_link(patch, errno.EIO)
        with pytest.raises(Inconclusive, match="perhaps not durable"):
            create(store, "a")
        with pytest.raises(Unavailable, match="EIO"):
            asyncio.run(store.read("a"))

    assert b"body" == asyncio.run(store.read("a"))


def test_body_of_a_creator_that_is_not_done_is_flushed_before_it_is_returned(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process acts on a decision that a power cut can still take away."""
    with monkeypatch.context() as patch:
        fail_flushes_after_link(patch, errno.EIO)
        with pytest.raises(Inconclusive):
            create(store, "runs/a/d-1")

    recorder = SyncRecorder(monkeypatch)
    assert b"body" == asyncio.run(FileStore(tmp_path / "root").read("runs/a/d-1"))
    assert [inode(tmp_path / "root" / "runs" / "a")] == recorder.events


def test_empty_body_of_a_creator_that_is_not_done_is_flushed_whole(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for a creator that finds the key taken, such as a second marker."""
    with monkeypatch.context() as patch:
        fail_flushes_after_link(patch, errno.EIO)
        with pytest.raises(Inconclusive):
            create(store, "markers/1", b"")

    whole = {"body", inode(tmp_path / "root" / "markers")}
    recorder = SyncRecorder(monkeypatch)
    assert b"" == asyncio.run(FileStore(tmp_path / "root").read("markers/1"))
    assert whole == set(recorder.events)

    recorder.events.clear()
    with pytest.raises(AlreadyExists):
        create(store, "markers/1", b"")
    after_link = recorder.events[recorder.events.index("link") :]
    assert whole == {*after_link} - {"link"}


def test_read_of_a_durable_body_does_not_flush(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(store, "runs/a/1")
    recorder = SyncRecorder(monkeypatch)

    assert b"body" == asyncio.run(store.read("runs/a/1"))
    assert [] == recorder.events


def test_unflushed_body_on_a_read_only_file_system_is_returned(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example in a snapshot that was taken during a create."""
    fail_flushes_after_link(monkeypatch, errno.EROFS)
    with pytest.raises(Inconclusive):
        create(store, "a")

    assert b"body" == asyncio.run(store.read("a"))


@pytest.mark.parametrize("after_seconds", [0.0, 60.0])
def test_file_system_that_cannot_flush_folders_is_unsafe(
    after_seconds: float,
    store: FileStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error comes with the first create, before anything relies on it."""
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            failing_call(errno.EINVAL)()
        real(descriptor)

    (tmp_path / "root").mkdir()
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(filesystem, "_DURABLE_AFTER_SECONDS", after_seconds)
    with pytest.raises(Unsafe, match=r"cannot flush folders.*Use another store"):
        create(store, "a")
    assert [] == asyncio.run(FileStore(tmp_path / "root").keys(""))


def no_flush(_: int) -> None:
    pass


def test_folder_with_the_inode_number_of_a_removed_one_is_flushed(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process removes a run and starts it again: nothing about it is known."""
    create(store, "runs/a/v/1")
    other = FileStore(tmp_path / "root")
    asyncio.run(other.delete("runs/a/v/1"))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", no_flush)  # this process is only that far
        create(other, "runs/a/v/2")

    recorder = SyncRecorder(monkeypatch)
    create(store, "runs/a/v/3")

    flushed = recorder.events[: recorder.events.index("link")]
    runs = tmp_path / "root" / "runs"
    assert {inode(runs), inode(runs / "a")} <= set(flushed)


def test_create_in_a_known_folder_needs_nine_system_calls(
    store: FileStore, new_files: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of a create is the two flushes; a named file needs two calls more."""
    create(store, "runs/a/1")
    calls = count_calls(monkeypatch)
    create(store, "runs/a/2")

    names = ("open", "write", "fsync", "fsync", "fstat", "link", "fchmod", "close")
    named = ("stat", "unlink") if new_files == "named files" else ()
    assert Counter([*names, "stat", *named]) == calls


def test_read_in_a_known_folder_needs_five_system_calls(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(store, "runs/a/1")
    calls = count_calls(monkeypatch)
    asyncio.run(store.read("runs/a/1"))

    assert {"stat": 1, "open": 1, "fstat": 1, "read": 1, "close": 1} == calls


def count_calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls that read or change the disk; not those of the event loop."""
    calls = Counter[str]()
    changing = ("link", "unlink", "mkdir", "rmdir", "fsync", "fchmod", "scandir")
    for name in ("open", "close", "read", "write", "stat", "fstat", *changing):
        monkeypatch.setattr(os, name, counted(name, calls))
    return calls


def counted(name: str, calls: Counter[str]) -> Callable[..., Any]:
    real = getattr(os, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        frame = inspect.currentframe()
        assert frame is not None
        assert frame.f_back is not None
        module = frame.f_back.f_globals["__name__"]
        calls[name] += module.startswith("continuations_storage.")
        return real(*args, **kwargs)

    return call


def test_concurrent_creates_flush_in_parallel(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(store, "0")
    together = threading.Barrier(8)
    real = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            together.wait(timeout=60)  # fails unless eight wait at once
        real(descriptor)

    async def scenario() -> None:
        await asyncio.gather(*(store.create(f"{n}", b"") for n in range(1, 9)))

    monkeypatch.setattr(os, "fsync", fsync)
    asyncio.run(scenario())

    assert 9 == len(asyncio.run(store.keys("")))


async def test_event_loop_runs_while_a_create_flushes(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    real = os.fsync

    def fsync(descriptor: int) -> None:
        assert go_on.wait(timeout=60)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    creating = asyncio.create_task(store.create("a", b""))
    assert [] == await store.keys("")
    go_on.set()  # not reached if the create blocks the loop
    await creating


def test_event_loop_runs_while_a_delete_waits(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system makes an unlink wait while it writes its journal."""
    create(store, "a")
    go_on = threading.Event()
    real = os.unlink

    def unlink(*args: Any, **kwargs: Any) -> None:
        assert go_on.wait(timeout=120)
        real(*args, **kwargs)

    async def scenario() -> None:
        deleting = asyncio.create_task(store.delete("a"))
        assert ["a"] == await store.keys("")
        go_on.set()  # not reached if the delete blocks the loop
        await deleting

    monkeypatch.setattr(os, "unlink", unlink)
    asyncio.run(scenario())
    assert [] == asyncio.run(store.keys(""))


def test_many_bodies_are_read_in_one_thread(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        create(store, f"waits/{number}", f"{number}".encode())
    reads: list[str] = []
    real = os.read

    def read(*args: int) -> bytes:
        reads.append(threading.current_thread().name)
        return real(*args)

    async def scenario() -> list[bytes | None]:
        await asyncio.sleep(0)
        monkeypatch.setattr(os, "read", read)
        return await store.read_many([*KEYS_OF_WAITS, "waits/9", "none/1", "waits/0/1"])

    assert [b"0", b"1", b"2", None, None, None] == asyncio.run(scenario())
    assert ["continuations-file"] * 3 == reads


KEYS_OF_WAITS = ["waits/0", "waits/1", "waits/2"]


def test_unflushed_body_among_many_is_flushed_before_it_is_returned(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        fail_flushes_after_link(patch, errno.EIO)
        with pytest.raises(Inconclusive):
            create(store, "a")
    recorder = SyncRecorder(monkeypatch)

    assert [b"body"] == asyncio.run(store.read_many(["a"]))
    assert [inode(tmp_path / "root")] == recorder.events


def test_error_of_one_body_among_many_names_its_key(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(store, "a")
    monkeypatch.setattr(os, "read", failing_call(errno.EIO))

    with pytest.raises(Unavailable, match="EIO") as raised:
        asyncio.run(store.read_many(["none", "a"]))
    assert "a" == raised.value.key
