"""Ephemeral values of a store of files or one SQLite file: one small file for each.

The files lie in a folder beside the bodies. The modification time of a file is the end
of its value. A value is written under a temporary name and then renamed, so a reader
gets a whole one. Nothing is flushed. Beside a database, the folder and the files have
its group and its rights. In a folder, they have those that a new body would have.

A reader takes regular files of limited size only, and follows no link.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import contextmanager, suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from continuations_storage.contract import (
    MAX_EPHEMERAL_BYTES,
    MAX_EPHEMERAL_NAMES,
    MAX_EPHEMERAL_SECONDS,
    check_ephemeral,
)
from continuations_storage.keys import check_prefix
from continuations_storage.oserrors import to_storage_error
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from typing import TypeVar

    T = TypeVar("T")

__all__ = ["EphemeralFiles"]

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
# Without O_NONBLOCK, to open a named pipe would wait for a writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
# It stands for the slash of a name. No key has it, and no key begins with a slash.
_SEPARATOR = _TEMPORARY = "+"
# A process writes a temporary file for a shorter time.
_WRITING_SECONDS = 5.0
_threads = DaemonThreadPool(4, "continuations-ephemeral")


class EphemeralFiles:
    """Ephemeral values in a folder; see `contract.Ephemeral`.

    Args:
        folder: The path of the folder. It is made with the first value.
        home: The folder or file of the store. Without it, nothing is made.
    """

    def __init__(self, folder: str, home: str) -> None:
        self._folder = folder
        self._home = home
        self._identity: tuple[int, int] | None = None

    async def put(self, values: Mapping[str, bytes], seconds: float) -> None:
        """Set values, and when they end; see `Ephemeral.put`."""
        check_ephemeral(values, seconds)
        await self._in_thread(partial(self._put, values, time.time() + seconds))

    async def get(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the values that there are; see `Ephemeral.get`."""
        found: dict[str, bytes] = {}
        # Not in a thread: a small read takes 20 us, a call through a thread 100 us.
        with suppress(OSError), self._opened() as folder:
            for name in names:
                with suppress(OSError):
                    value = _read(folder, _file_name(name))
                    if value is not None:
                        found[name] = value
        return found

    async def names(self, prefix: str) -> list[str]:
        """Return the names of the values that there are; see `Ephemeral.names`."""
        check_prefix(prefix)
        if not self._exists:
            return []
        return await self._in_thread(partial(self._names, prefix))

    async def remove(self, names: Sequence[str]) -> None:
        """Remove values; see `Ephemeral.remove`."""
        await self._in_thread(partial(self._remove, names))

    @property
    def _exists(self) -> bool:
        return os.path.isdir(self._folder)  # noqa: PTH112 -- pathlib is 5 ms cold

    async def _in_thread(self, function: Callable[[], T]) -> T:
        try:
            return await _threads.run(function)
        except OSError as cause:
            raise to_storage_error(cause, None) from cause

    @contextmanager
    def _opened(self) -> Generator[int]:
        home = self._status_of_home()
        descriptor = os.open(self._folder, _OPEN_FOLDER)
        try:
            self._check_owner(os.fstat(descriptor), home)
            yield descriptor
        finally:
            os.close(descriptor)

    def _status_of_home(self) -> os.stat_result:
        """Return the status of the store; raise OSError if another one is there."""
        status = os.stat(self._home)  # noqa: PTH116 -- pathlib is 5 ms cold
        identity = status.st_dev, status.st_ino
        if self._identity is None:
            self._identity = identity
        elif self._identity != identity:
            # Such as the folder below a disk that is not mounted any more.
            raise OSError(errno.ESTALE, f"{self._home!r} was replaced")
        return status

    def _put(self, values: Mapping[str, bytes], end: float) -> None:
        # A reader of a wrong path must not begin a store there.
        home = self._status_of_home()
        mode = home.st_mode & 0o666
        with suppress(FileExistsError):
            rights = 0o700 | mode | (mode & 0o444) >> 2
            os.mkdir(self._folder, rights if _is_folder(home) else 0o700)  # noqa: PTH102 -- see above
            _give_rights(self._folder, home, rights)
        with self._opened() as folder:
            for name, value in values.items():
                temporary = f"{_TEMPORARY}{os.urandom(8).hex()}"
                _write(folder, temporary, value, home, end)
                os.rename(
                    *(temporary, _file_name(name)),
                    src_dir_fd=folder,
                    dst_dir_fd=folder,
                )

    def _names(self, prefix: str) -> list[str]:
        found: list[str] = []
        beginning, now = _file_name(prefix), time.time()
        with self._opened() as folder, os.scandir(folder) as entries:
            for entry in islice(entries, MAX_EPHEMERAL_NAMES):
                with suppress(OSError):
                    end = entry.stat(follow_symlinks=False).st_mtime
                    if entry.name.startswith(_TEMPORARY):
                        # Its time may still be that of its making.
                        end += MAX_EPHEMERAL_SECONDS if end < now else 0
                    elif _is_valid(end, now) and entry.name.startswith(beginning):
                        found.append(entry.name.replace(_SEPARATOR, "/"))
                    if not _is_valid(end, now):
                        os.unlink(entry.name, dir_fd=folder)
        return found

    def _remove(self, names: Sequence[str]) -> None:
        with suppress(FileNotFoundError), self._opened() as folder:
            for name in (*map(_file_name, names), *_left_behind(folder)):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)

    def _check_owner(self, folder: os.stat_result, home: os.stat_result) -> None:
        """Raise OSError if others could have put values there, as in /tmp."""
        is_own = folder.st_uid in {os.geteuid(), home.st_uid}
        others_may_write = folder.st_mode & 0o022 & ~home.st_mode
        if others_may_write or not (is_own or self._is_shared(home)):
            raise PermissionError(
                errno.EPERM, "others may write to the folder of ephemeral values"
            )

    def _is_shared(self, home: os.stat_result) -> bool:
        """Return whether each user who can make the folder may write to the store."""
        if not home.st_mode & 0o022:
            return False
        if _is_folder(home):
            return True
        beside = os.stat(os.path.dirname(self._folder) or ".")  # noqa: PTH116, PTH120 -- see above
        is_same_group = beside.st_gid == home.st_gid or not beside.st_mode & 0o020
        return is_same_group and not beside.st_mode & 0o002


def _file_name(name: str) -> str:
    return name.replace("/", _SEPARATOR)


def _is_folder(home: os.stat_result) -> bool:
    return stat.S_ISDIR(home.st_mode)


def _give_rights(made: str | int, home: os.stat_result, mode: int) -> None:
    """Give a file or folder the group and rights of a database, as SQLite does."""
    if _is_folder(home):
        return  # the mask of the process and the folder decide, as for each body
    if os.stat(made).st_gid != home.st_gid:  # noqa: PTH116 -- see above
        try:
            os.chown(made, -1, home.st_gid)
        except PermissionError:
            mode &= ~0o070
    os.chmod(made, mode)  # noqa: PTH101 -- see above


def _left_behind(folder: int) -> list[str]:
    """Return the temporary files of processes that died while they wrote."""
    left: list[str] = []
    with os.scandir(folder) as entries:
        for entry in islice(entries, MAX_EPHEMERAL_NAMES):
            if entry.name.startswith(_TEMPORARY):
                with suppress(OSError):
                    changed = entry.stat(follow_symlinks=False).st_ctime
                    if abs(time.time() - changed) > _WRITING_SECONDS:
                        left.append(entry.name)
    return left


def _is_valid(end: float, now: float) -> bool:
    # After a clock was set back, a value would last too long.
    return now < end <= now + MAX_EPHEMERAL_SECONDS + 1


def _write(
    folder: int, name: str, value: bytes, home: os.stat_result, end: float
) -> None:
    mode = home.st_mode & 0o666
    first_mode = mode if _is_folder(home) else 0o600
    descriptor = os.open(name, _WRITE_NEW, first_mode, dir_fd=folder)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(value)
        _give_rights(descriptor, home, mode)
        os.utime(descriptor, (end, end))
    except BaseException:
        os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(descriptor)


def _read(folder: int, name: str) -> bytes | None:
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        status = os.fstat(descriptor)
        is_small = (
            stat.S_ISREG(status.st_mode) and status.st_size <= MAX_EPHEMERAL_BYTES
        )
        if not is_small or not _is_valid(status.st_mtime, time.time()):
            return None
        return os.read(descriptor, MAX_EPHEMERAL_BYTES)
    finally:
        os.close(descriptor)
