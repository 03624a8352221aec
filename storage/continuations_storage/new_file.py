"""A new file: written under no name, or under a temporary one, flushed and linked.

Until the folder of its key is flushed, the file is *marked as unflushed*, so that no
reader acts on a body that a power cut can still take away:

- Linux: the sticky bit, which has no meaning for a file. It is set when the file is
  made and removed after the flush.
- Elsewhere: the second name of the file, in the temporary folder.

A file without a name (`O_TMPFILE`) is faster, and a crash leaves nothing. NFS, FUSE and
macOS have no such files.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from continuations_storage.oserrors import NO_HARD_LINKS

if TYPE_CHECKING:
    from continuations_storage.filesystem import Folder

__all__ = ["NamedFile", "NewFile", "UnnamedFile", "UnnamedUnsupported", "is_unflushed"]

# The umask removes bits of 0o666.
_MODE = 0o666 | stat.S_ISVTX
_WRITE_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_PROC = "/proc/self/fd"
# Rules of the system (AppArmor, for example) may allow links to names only.
_TRY_A_NAME = NO_HARD_LINKS | {errno.EACCES}


class UnnamedUnsupported(Exception):
    """The file system, or this process, cannot make a file without a name."""


class NewFile(Protocol):
    """A file with a whole body, which can get a key."""

    @property
    def written_at(self) -> float:
        """The time of the file system when the body was written."""
        ...

    @property
    def descriptor(self) -> int:
        """The open file, to be flushed."""
        ...

    def link(self, folder: Folder, name: str) -> None:
        """Give the file a key; raise FileExistsError if the name is taken."""
        ...

    def count_keys(self) -> int:
        """Return how many keys the file has, 0 or 1, also after an unclear link."""
        ...

    def mark_flushed(self) -> None:
        """Remove the mark: the folder of the key is flushed."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class UnnamedFile:
    """A file that has no name until it gets its key; only on Linux."""

    def __init__(self, folder: Folder, body: bytes) -> None:
        """Write the body in the file system of a folder.

        Raises:
            UnnamedUnsupported: Use `NamedFile`.
            OSError: The body was not written.
        """
        self.descriptor = _open_unnamed(folder)
        try:
            self._mode, self.written_at = _write(self.descriptor, body)
            _check_mark(self._mode)
        except BaseException:
            self.close()
            raise

    def link(self, folder: Folder, name: str) -> None:
        """See `NewFile.link`."""
        path = f"{_PROC}/{self.descriptor}"
        try:
            os.link(path, name, dst_dir_fd=folder.descriptor, follow_symlinks=True)
        except FileNotFoundError:
            # Either the folder was removed, or /proc is not mounted.
            if os.path.exists(path):  # noqa: PTH110 -- pathlib is 5 ms cold
                raise
            raise UnnamedUnsupported from None
        except OSError as cause:
            if cause.errno in _TRY_A_NAME and not self.count_keys():
                raise UnnamedUnsupported from cause
            raise

    def count_keys(self) -> int:
        """See `NewFile.count_keys`."""
        return os.fstat(self.descriptor).st_nlink

    def mark_flushed(self) -> None:
        """See `NewFile.mark_flushed`."""
        _remove_mark(self.descriptor, self._mode)

    def close(self) -> None:
        """Close the file; without a key, it is gone."""
        os.close(self.descriptor)


class NamedFile:
    """A file with a random name in the temporary folder."""

    def __init__(self, temporary_folder: Folder, body: bytes) -> None:
        """Write the body; raises OSError."""
        self._folder = temporary_folder
        self._name = os.urandom(16).hex()
        self._is_marked = False
        self.descriptor = os.open(
            self._name, _WRITE_NEW, _MODE, dir_fd=temporary_folder.descriptor
        )
        try:
            self._mode, self.written_at = _write(self.descriptor, body)
        except BaseException:
            self.close()
            raise

    def link(self, folder: Folder, name: str) -> None:
        """See `NewFile.link`."""
        self._is_marked = True
        try:
            os.link(
                self._name,
                name,
                src_dir_fd=self._folder.descriptor,
                dst_dir_fd=folder.descriptor,
                follow_symlinks=False,
            )
        except FileNotFoundError:
            self._is_marked = False
            raise

    def count_keys(self) -> int:
        """See `NewFile.count_keys`."""
        # Not fstat(): on NFS, its answer may be older than the link.
        status = os.stat(
            self._name, dir_fd=self._folder.descriptor, follow_symlinks=False
        )
        count = status.st_nlink - 1
        self._is_marked = count > 0
        return count

    def mark_flushed(self) -> None:
        """See `NewFile.mark_flushed`."""
        _remove_mark(self.descriptor, self._mode)
        self._is_marked = False

    def close(self) -> None:
        """Close the file; remove its temporary name if this is not the mark."""
        os.close(self.descriptor)
        if not self._is_marked:
            with suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder.descriptor)


def is_unflushed(status: os.stat_result) -> bool:
    """Return whether a power cut may take the key of a file away."""
    return status.st_nlink > 1 or bool(status.st_mode & stat.S_ISVTX)


def _open_unnamed(folder: Folder) -> int:
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None:
        raise UnnamedUnsupported
    try:
        return os.open(".", os.O_WRONLY | flag, _MODE, dir_fd=folder.descriptor)
    except OSError as cause:
        # EISDIR: the answer of a system that does not know the flag.
        if cause.errno in {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS}:
            raise UnnamedUnsupported from cause
        if os.fstat(folder.descriptor).st_nlink == 0:  # then ext4 says EPERM
            raise FileNotFoundError(errno.ENOENT, "the folder was removed") from cause
        raise


def _check_mark(mode: int) -> None:
    if not mode & stat.S_ISVTX:
        raise UnnamedUnsupported  # a reader would not see the mark


def _write(descriptor: int, body: bytes) -> tuple[int, float]:
    """Write the body; return the mode and the time of the file."""
    rest = memoryview(body)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    status = os.fstat(descriptor)
    return status.st_mode, status.st_mtime


def _remove_mark(descriptor: int, mode: int) -> None:
    # A mark that stays costs each reader a flush, and nothing else.
    if mode & stat.S_ISVTX:
        with suppress(OSError):
            os.fchmod(descriptor, stat.S_IMODE(mode) & ~stat.S_ISVTX)
