"""The folders of a file store, opened step by step and never through a symbolic link.

Each step is an open() relative to the folder above. So a symbolic link inside the root
cannot lead out of the root, even if it is made between two steps.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from continuations_storage.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

__all__ = ["FolderTree", "flush", "open_subfolder"]

# Linux writes a changed folder to disk after 30 s at the latest; this is twice that.
_DURABLE_AFTER_SECONDS = 60.0
_MAX_REMEMBERED = 10_000


class FolderTree:
    """The folders under one root."""

    def __init__(self, root: str) -> None:
        # Absolute, so that a later chdir() does not move the store.
        self.root = os.path.abspath(root)  # noqa: PTH100 -- pathlib is 5 ms cold
        self._durable: set[tuple[int, int]] = set()

    @contextmanager
    def open_existing(self, segments: Sequence[str]) -> Generator[int]:
        """Open a folder, or raise FileNotFoundError or NotADirectoryError."""
        folder = self._open_root()
        try:
            for segment in segments:
                above, folder = folder, open_subfolder(folder, segment)
                os.close(above)
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def open_or_create(self, segments: Sequence[str], now: float) -> Generator[int]:
        """Open a folder; make missing folders so that they survive a power cut.

        `open_or_create_unflushed` makes the root itself.

        Args:
            segments: The names from the root to the folder.
            now: The time of the file system, read from a file that was just written.
        """
        folder = self._open_durable_root(now)
        try:
            for segment in segments:
                above, folder = (
                    folder,
                    self._open_or_create_subfolder(folder, segment, now),
                )
                os.close(above)
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def open_or_create_unflushed(self, segment: str) -> Generator[int]:
        """Open a folder in the root that does not have to survive a power cut."""
        try:
            folder = self._open_under_root(segment)
        except FileNotFoundError:
            _make_root(self.root)
            with self.open_existing([]) as root, suppress(FileExistsError):
                os.mkdir(segment, dir_fd=root)
            folder = self._open_under_root(segment)
        try:
            yield folder
        finally:
            os.close(folder)

    def prune(self, segments: Sequence[str]) -> None:
        """Remove a folder and those above it if they are empty.

        Folders of the first level stay: "markers", for example, becomes empty often,
        and to make it again costs a flush.
        """
        with suppress(OSError):
            for depth in range(len(segments) - 1, 0, -1):
                with self.open_existing(segments[:depth]) as above:
                    os.rmdir(segments[depth], dir_fd=above)

    def _open_root(self) -> int:
        try:
            return os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        except NotADirectoryError:
            raise Unavailable(None, f"{self.root!r} is not a folder") from None

    def _open_under_root(self, segment: str) -> int:
        with self.open_existing([]) as root:
            return open_subfolder(root, segment)

    def _open_durable_root(self, now: float) -> int:
        root = self._open_root()
        if _identity(root) not in self._durable:
            with _open_parent(self.root) as above:
                if above is not None:
                    self._ensure_durable(above, root, now)
        return root

    def _open_or_create_subfolder(self, parent: int, segment: str, now: float) -> int:
        try:
            folder = open_subfolder(parent, segment)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(segment, dir_fd=parent)
            flush(parent)
            folder = open_subfolder(parent, segment)
            self._mark_durable(_identity(folder))
            return folder
        self._ensure_durable(parent, folder, now)
        return folder

    def _ensure_durable(self, parent: int, folder: int, now: float) -> None:
        # Another process may have just made the folder and not flushed its name yet.
        # The body would then be durable in a folder that is not.
        identity = _identity(folder)
        if identity in self._durable:
            return
        if now - os.fstat(parent).st_mtime < _DURABLE_AFTER_SECONDS:
            flush(parent)
        self._mark_durable(identity)

    def _mark_durable(self, identity: tuple[int, int]) -> None:
        if len(self._durable) >= _MAX_REMEMBERED:
            self._durable.clear()
        self._durable.add(identity)


def open_subfolder(parent: int, segment: str) -> int:
    """Open a folder inside an open folder; raise ELOOP for a symbolic link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    try:
        return os.open(segment, flags, dir_fd=parent)
    except NotADirectoryError:
        status = os.stat(segment, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, f"{segment!r} is a symbolic link") from None
        raise


def flush(descriptor: int) -> None:
    """Write an open file or folder to disk, so that it survives a power cut."""
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415 -- only macOS needs it

        # On macOS, fsync() stops at the drive's cache. Network mounts refuse this call.
        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def _identity(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


def _make_root(root: str) -> None:
    """Make the root and flush the folders above it; the root is flushed later."""
    try:
        os.mkdir(root, 0o700)  # noqa: PTH102 -- see above
    except FileExistsError:
        _check_link(root)
    except FileNotFoundError:
        above = os.path.dirname(root)  # noqa: PTH120 -- see above
        _make_root(above)
        with _open_parent(above) as higher:
            if higher is not None:
                flush(higher)
        _make_root_in(above, root)


def _make_root_in(above: str, root: str) -> None:
    """Make the root in a folder that exists."""
    try:
        with suppress(FileExistsError):
            os.mkdir(root, 0o700)  # noqa: PTH102 -- see above
    except FileNotFoundError:
        # The caller would try again after a FileNotFoundError. /proc always raises it.
        raise Unavailable(None, f"no folder can be made in {above!r}") from None


def _check_link(path: str) -> None:
    if os.path.islink(path) and not os.path.exists(path):  # noqa: PTH110, PTH114 -- see above
        why = "is a symbolic link to a folder that does not exist"
        raise Unavailable(None, f"{path!r} {why}")


@contextmanager
def _open_parent(root: str) -> Generator[int | None]:
    """Open the folder above the root; yield None without permission to read it."""
    try:
        above = os.open(os.path.dirname(root), os.O_RDONLY)  # noqa: PTH120 -- see above
    except PermissionError:
        yield None
        return
    try:
        yield above
    finally:
        os.close(above)
