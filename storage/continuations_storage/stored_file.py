"""The file of a key: read it, remove it, and see whether it is durable."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from continuations_storage.filesystem import flush, flush_folder
from continuations_storage.new_file import is_unflushed
from continuations_storage.step_groups import flush_together

if TYPE_CHECKING:
    from collections.abc import Generator

    from continuations_storage.filesystem import Folder
    from continuations_storage.step_groups import SlowCall

__all__ = [
    "flush_before_use",
    "is_folder",
    "is_unflushed_file",
    "missing_flushes",
    "read_file",
    "unlink",
]

_MAX_READ = 1 << 30
# O_NONBLOCK: a named pipe at the place of a key must not block the reader.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def flush_before_use(folder: Folder, name: str) -> None:
    """Finish the flushes of a creator that is not done; see `FileStore`."""
    with missing_flushes(folder, name) as flushes:
        try:
            flush_together(flushes)
        except OSError as cause:
            if cause.errno != errno.EROFS:  # a read-only file system has no writers
                raise


@contextmanager
def missing_flushes(folder: Folder, name: str) -> Generator[list[SlowCall]]:
    """Return the flushes of a creator that is not done, and keep its file open."""
    descriptor = os.open(name, _READ, dir_fd=folder.descriptor)
    try:
        body = [] if os.fstat(descriptor).st_size else [(flush, descriptor)]
        yield [*body, (flush_folder, folder.descriptor)]
    finally:
        os.close(descriptor)


def read_file(folder: Folder, name: str) -> tuple[bytes, bool]:
    """Return the body, and whether a power cut may take it away."""
    descriptor = os.open(name, _READ, dir_fd=folder.descriptor)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is the folder of other keys")
        if not stat.S_ISREG(status.st_mode):
            raise PermissionError(errno.EACCES, "it is not a regular file")
        body = os.read(descriptor, status.st_size)
        while len(body) < status.st_size and (rest := os.read(descriptor, _MAX_READ)):
            body += rest
        return body, is_unflushed(status)
    finally:
        os.close(descriptor)


def unlink(folder: int, name: str) -> None:
    """Remove a file; leave a folder as it is."""
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        if not is_folder(folder, name):  # macOS returns EPERM for a folder
            raise


def is_folder(parent: int, name: str) -> bool:
    """Return whether a name is a folder."""
    status = _status(parent, name)
    return status is not None and stat.S_ISDIR(status.st_mode)


def is_unflushed_file(parent: int, name: str) -> bool:
    """Return whether a power cut may take a key away."""
    status = _status(parent, name)
    if status is None or not stat.S_ISREG(status.st_mode):
        return False
    return is_unflushed(status)


def _status(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
