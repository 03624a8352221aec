"""A store in a folder: temporary file, fsync, link(), fsync of the folder.

`rename` would overwrite; `link` refuses a name that is taken, on every file system
that has it, NFS too. A body is written and flushed under a name of its own in a
hidden folder of the same file system, then linked to its key: before that nobody
sees it, after that everybody sees the whole. A crash leaves at most a temporary
file, which is never listed and is cleared away an hour later.

A key "runs/a/1" is the file "runs/a/1" under the root, byte for byte the body.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from io import FileIO
from itertools import islice
from typing import TYPE_CHECKING, NoReturn

from continuations_storage.contract import PAGE_SIZE
from continuations_storage.errors import (
    AlreadyExists,
    Inconclusive,
    InvalidKey,
    Unavailable,
    Unsafe,
)
from continuations_storage.filesystem import FolderTree, flush
from continuations_storage.keys import check_key, check_limit, check_prefix
from continuations_storage.listing import iterate_keys
from continuations_storage.oserrors import NO_HARD_LINKS, to_storage_error
from continuations_storage.probe import prove_put_if_absent
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["FileStore"]

# "+" is in no key, so no key can name a file in here.
_TEMPORARY_FOLDER = ".tmp+"
_STALE_AFTER_SECONDS = 3600.0
_CLEAN_UP_EVERY = 256
_MAX_ATTEMPTS = 16
# Threads of our own and not the loop's: a renewal must not queue behind an
# application's slow tools.
_writers = DaemonThreadPool(32, "continuations-file")


class FileStore:
    """Keeps each body in a file of its own under a root folder.

    The root is made, readable by its owner only, with the first create. Processes
    and machines may share it as far as the file system has link() and fsync().
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._folders = FolderTree(os.fspath(root))
        self._creates = 0

    def __repr__(self) -> str:
        return f"<FileStore {self._folders.root}>"

    async def create(self, key: str, body: bytes) -> datetime:
        """Put the body if the key is absent; durable when it returns.

        Returns the time that the file system gave to the body.
        """
        segments = check_key(key)
        return await _writers.run(self._publish, key, segments, body)

    async def read(self, key: str) -> bytes:
        """Return the whole body, or raise NotFound."""
        # Not in a thread: a small read takes 20 us, a thread's errand five times
        # that, and a process that only reads need not load the pool.
        *above, name = check_key(key)
        try:
            with self._folders.open_existing(above) as folder:
                return _read(folder, name)
        except OSError as cause:
            raise to_storage_error(cause, key) from cause

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys with the prefix and greater than `after`, in order."""
        segments, start = check_prefix(prefix)
        check_limit(limit)
        base = prefix[: len(prefix) - len(start)]
        try:
            with (
                self._folders.open_existing(segments) as folder,
                closing(iterate_keys(folder, base, start, after, limit)) as found,
            ):
                return list(islice(found, limit))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as cause:
            raise to_storage_error(cause, prefix) from cause

    async def delete(self, key: str) -> None:
        """Remove the key; succeeds also when there is none.

        Not flushed: a power cut within seconds may bring the key back.
        """
        segments = check_key(key)
        try:
            with self._folders.open_existing(segments[:-1]) as folder:
                _unlink(folder, segments[-1])
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as cause:
            raise to_storage_error(cause, key) from cause
        self._folders.prune(segments[:-1])

    async def probe(self) -> None:
        """Prove that the file system's link() refuses a name that is taken."""
        await prove_put_if_absent(self)

    def _publish(self, key: str, segments: list[str], body: bytes) -> datetime:
        try:
            for _ in range(_MAX_ATTEMPTS):
                # A delete may remove an emptied folder while we are about to use it.
                with suppress(FileNotFoundError):
                    return self._publish_once(key, segments, body)
        except NotADirectoryError as cause:
            raise InvalidKey(key, "a part of it is a key, not a folder") from cause
        except OSError as cause:
            raise to_storage_error(cause, key) from cause
        raise Unavailable(key, "its folder vanished again and again")

    def _publish_once(self, key: str, segments: list[str], body: bytes) -> datetime:
        *above, name = segments
        with (
            self._write_temporary(body) as (desk, temp, written),
            self._folders.open_or_create(above, written) as folder,
        ):
            _link(key, desk, temp, folder, name)
            _flush_published(key, folder)
        return datetime.fromtimestamp(written, UTC)

    @contextmanager
    def _write_temporary(self, body: bytes) -> Generator[tuple[int, str, float]]:
        """Write the body under a fresh name; tell where, and the store's time."""
        temp = os.urandom(16).hex()
        with self._folders.open_or_create_unflushed(_TEMPORARY_FOLDER) as desk:
            try:
                written = _write(desk, temp, body)
                self._clean_up_periodically(desk, written)
                yield desk, temp, written
            finally:
                with suppress(OSError):
                    os.unlink(temp, dir_fd=desk)

    def _clean_up_periodically(self, temporary_folder: int, now: float) -> None:
        self._creates += 1
        if self._creates % _CLEAN_UP_EVERY == 1:
            with suppress(OSError), os.scandir(temporary_folder) as strays:
                for stray in strays:
                    seen = stray.stat(follow_symlinks=False)
                    if now - seen.st_mtime > _STALE_AFTER_SECONDS:
                        os.unlink(stray.name, dir_fd=temporary_folder)


def _write(temporary_folder: int, temporary_name: str, body: bytes) -> float:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    file = os.open(temporary_name, flags, 0o666, dir_fd=temporary_folder)
    try:
        rest = memoryview(body)
        while rest:
            rest = rest[os.write(file, rest) :]
        flush(file)
        return os.fstat(file).st_mtime
    finally:
        os.close(file)


def _link(
    key: str, temporary_folder: int, temporary_name: str, folder: int, name: str
) -> None:
    try:
        os.link(
            temporary_name,
            name,
            src_dir_fd=temporary_folder,
            dst_dir_fd=folder,
            follow_symlinks=False,
        )
    except FileNotFoundError:
        raise  # a folder went away; the caller goes again
    except OSError as cause:
        if _was_linked(key, temporary_folder, temporary_name):
            return
        if isinstance(cause, FileExistsError):
            _raise_taken(key, folder, name)
        if cause.errno in NO_HARD_LINKS:
            raise Unsafe(key, f"link() is refused here: {cause.strerror}") from cause
        raise


def _was_linked(key: str, temporary_folder: int, temporary_name: str) -> bool:
    # Over NFS the reply to link() can be lost; the client asks again and is told
    # EEXIST. The second name of our own file tells who won: see open(2), O_EXCL.
    try:
        return (
            os.stat(
                temporary_name, dir_fd=temporary_folder, follow_symlinks=False
            ).st_nlink
            > 1
        )
    except OSError as cause:
        raise Inconclusive(key, f"after link(): {cause.strerror}") from cause


def _raise_taken(key: str, folder: int, name: str) -> NoReturn:
    if _is_folder(folder, name):
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError:
            raise InvalidKey(key, "it is the folder of other keys") from None
        raise FileNotFoundError(errno.ENOENT, "an empty folder stood there; go again")
    # The loser acts on what stands there, so that must be durable for it too.
    flush(folder)
    raise AlreadyExists(key)


def _flush_published(key: str, folder: int) -> None:
    try:
        flush(folder)
    except OSError as cause:
        detail = f"stored, but a power cut could take it: {cause.strerror}"
        raise Inconclusive(key, detail) from cause


def _read(folder: int, name: str) -> bytes:
    # O_NONBLOCK: a named pipe that somebody put there must not hang the reader.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "it is the folder of other keys")
        if not stat.S_ISREG(mode):
            raise PermissionError(errno.EACCES, "it is no regular file")
        with FileIO(descriptor, closefd=False) as file:
            return file.readall()
    finally:
        os.close(descriptor)


def _unlink(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        if not _is_folder(folder, name):  # macOS says EPERM to unlinking a folder
            raise


def _is_folder(parent: int, name: str) -> bool:
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode)
