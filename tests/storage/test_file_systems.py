"""File systems that differ: without hard links, blind to case, with stale folders.

They are simulated, because a real mount needs root.
"""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from continuations_storage import (
    AlreadyExists,
    FileStore,
    InvalidKey,
    Unavailable,
    Unsafe,
)

pytestmark = pytest.mark.usefixtures("new_files")


def create(store: FileStore, key: str, body: bytes = b"body") -> None:
    asyncio.run(store.create(key, body))


def refuse_links_of_unnamed_files(patch: pytest.MonkeyPatch, number: int) -> list[str]:
    """Refuse links through /proc with an error; return the sources, as they come."""
    real, refused = os.link, list[str]()

    def link(source: str, *args: Any, **kwargs: Any) -> None:
        if source.startswith("/proc/"):
            refused.append(source)
            raise OSError(number, os.strerror(number))
        real(source, *args, **kwargs)

    patch.setattr(os, "link", link)
    return refused


def unnamed_file_count() -> int:
    """Return how many unnamed files a store tries, at most one."""
    return 1 if hasattr(os, "O_TMPFILE") else 0


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.EMLINK])
def test_probe_of_a_file_system_without_hard_links_raises_unsafe(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first start says it: FAT, exFAT, and some FUSE and network mounts."""

    def link(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    store = FileStore(tmp_path / "root")

    with pytest.raises(
        Unsafe, match=r"no hard links \(.*ext4, XFS and btrfs have them.*Use another"
    ):
        asyncio.run(store.probe())
    assert [] == asyncio.run(store.keys(""))


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL])
def test_file_system_without_unnamed_files_gets_named_ones(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS and FUSE have no unnamed files; the store tries once."""
    flag = getattr(os, "O_TMPFILE", 0)
    tried: list[int] = []
    real = os.open

    def open_named_only(
        path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        if flag and flags & flag == flag:
            tried.append(flags)
            raise OSError(number, os.strerror(number))
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", open_named_only)
    store = FileStore(tmp_path / "root")
    asyncio.run(store.probe())
    create(store, "runs/a/1")

    assert unnamed_file_count() == len(tried)
    assert ["probe/passed", "runs/a/1"] == asyncio.run(store.keys(""))


def test_process_without_proc_gets_named_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unnamed file is linked through /proc, which a container may not have."""
    real = os.path.exists

    def exists(path: str) -> bool:
        return not str(path).startswith("/proc/") and real(path)

    refused = refuse_links_of_unnamed_files(monkeypatch, errno.ENOENT)
    monkeypatch.setattr(os.path, "exists", exists)
    store = FileStore(tmp_path / "root")
    create(store, "runs/a/1")
    create(store, "runs/a/2")

    assert unnamed_file_count() == len(refused)
    assert b"body" == asyncio.run(store.read("runs/a/1"))


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES])
def test_unnamed_file_that_cannot_be_linked_gets_a_name(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some systems forbid links to other files than those with a name."""
    refused = refuse_links_of_unnamed_files(monkeypatch, number)
    store = FileStore(tmp_path / "root")
    create(store, "runs/a/1")
    create(store, "runs/a/2")

    assert unnamed_file_count() == len(refused)
    assert ["runs/a/1", "runs/a/2"] == asyncio.run(store.keys(""))


class CaseBlindFileSystem:
    """Finds a name in any case, and keeps the case of the first one, as macOS does."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        for call in ("open", "stat", "mkdir", "rmdir", "unlink"):
            self._patch_call(patch, call)
        self._patch_link(patch)

    def _patch_call(self, patch: pytest.MonkeyPatch, call: str) -> None:
        real = getattr(os, call)

        def find_and_call(path: Any, *args: Any, **kwargs: Any) -> Any:
            folder = kwargs.get("dir_fd")
            if folder is not None:
                path = self.existing_name(path, folder)
            return real(path, *args, **kwargs)

        patch.setattr(os, call, find_and_call)

    def _patch_link(self, patch: pytest.MonkeyPatch) -> None:
        real = os.link

        def link(source: str, name: str, *, dst_dir_fd: int, **kwargs: Any) -> None:
            name = self.existing_name(name, dst_dir_fd)
            real(source, name, dst_dir_fd=dst_dir_fd, **kwargs)

        patch.setattr(os, "link", link)

    @staticmethod
    def existing_name(name: str, folder: int) -> str:
        path = f"/proc/self/fd/{folder}"
        names = os.listdir(path)  # noqa: PTH208 - its position is not shared
        return next((n for n in names if n.lower() == name.lower()), name)


def test_keys_that_differ_only_in_case_are_refused_where_case_is_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Jane` and `jane` would be one run; the second one is not created."""
    CaseBlindFileSystem(monkeypatch)
    store = FileStore(tmp_path / "root")
    asyncio.run(store.probe())
    create(store, "runs/Jane/v/1")

    with pytest.raises(AlreadyExists):
        create(store, "runs/Jane/v/1")
    with pytest.raises(InvalidKey, match=r"ignores case and has 'Jane'"):
        create(store, "runs/jane/v/1")
    create(store, "runs/joe/v/1")
    assert b"body" == asyncio.run(store.read("runs/joe/v/1"))


def test_keys_that_differ_in_case_are_two_keys_elsewhere(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "root")
    create(store, "runs/Jane/v/1", b"Jane")
    create(store, "runs/jane/v/1", b"jane")

    with pytest.raises(AlreadyExists):
        create(store, "runs/Jane/v/1")
    assert b"jane" == asyncio.run(store.read("runs/jane/v/1"))


def test_stale_folder_of_nfs_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another machine removed the folder, and the server refuses the open one."""
    store = FileStore(tmp_path / "root")
    create(store, "runs/a/1")
    folder = (tmp_path / "root" / "runs" / "a").stat().st_ino
    stale = {
        number
        for number in map(int, os.listdir("/proc/self/fd"))  # noqa: PTH208
        if is_folder(number, folder)
    }
    real = os.open

    def open_unless_stale(
        path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        if dir_fd in stale:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return real(path, flags, mode, dir_fd=dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_unless_stale)
        with pytest.raises(Unavailable, match="ESTALE"):
            asyncio.run(store.read("runs/a/1"))
    assert b"body" == asyncio.run(store.read("runs/a/1"))
    create(store, "runs/a/2")


def is_folder(descriptor: int, inode: int) -> bool:
    try:
        return os.fstat(descriptor).st_ino == inode
    except OSError:
        return False
