"""A store in a folder: temporary file, fsync, link(), fsync of the folder.

The key "runs/a/1" is the file "runs/a/1" under the root, byte for byte the body.

A create takes these steps:

1. Write and flush the body under a random name in a hidden folder of the root.
2. Link the file to its key. `link` fails if the name exists, also on NFS; `rename`
   would overwrite it. The body becomes visible at once and whole.
3. Flush the folder.

A crash leaves at most a temporary file. It is never listed, and is removed when it is
older than an hour.
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
from continuations_storage.keys import check_limit, split_key, split_prefix
from continuations_storage.listing import iterate_keys
from continuations_storage.oserrors import NO_HARD_LINKS, to_storage_error
from continuations_storage.probe import prove_put_if_absent
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["FileStore"]

# No key contains "+", so no key names a file in this folder.
_TEMPORARY_FOLDER = ".tmp+"
_STALE_AFTER_SECONDS = 3600.0
_CLEAN_UP_EVERY = 256
_MAX_ATTEMPTS = 16
# Not the threads of the event loop: the renewal of a claim must not wait behind slow
# functions of the application.
_writers = DaemonThreadPool(32, "continuations-file")


class FileStore:
    """A store that keeps each body as a file under a root folder.

    The first create makes the root, with access for its owner only (mode 0700).
    Processes may share it, and so may machines if the file system has link() and
    fsync().

    Args:
        root: The path of the folder. A relative path is resolved now, so a later
            chdir() does not move the store.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._folders = FolderTree(os.fspath(root))
        self._creates = 0

    def __repr__(self) -> str:
        return f"<FileStore {self._folders.root}>"

    async def create(self, key: str, body: bytes) -> datetime:
        """Put the body if the key is absent; see `Store.create`.

        Args:
            key: A valid key.
            body: The bytes.

        Returns:
            The modification time of the file.

        Raises:
            Unsafe: The file system has no hard links.
            StorageError: As `Store.create` states.
        """
        segments = split_key(key)
        return await _writers.run(self._publish, key, segments, body)

    async def read(self, key: str) -> bytes:
        """Return the whole body, or raise `NotFound`; see `Store.read`."""
        # Not in a thread: a small read takes 20 us, a call through a thread 100 us. A
        # process that only reads does not start the threads.
        *above, name = split_key(key)
        try:
            with self._folders.open_existing(above) as folder:
                return _read(folder, name)
        except OSError as cause:
            raise to_storage_error(cause, key) from cause

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys of a prefix, in byte order; see `Store.keys`."""
        segments, name_prefix = split_prefix(prefix)
        check_limit(limit)
        folder_key = prefix[: len(prefix) - len(name_prefix)]
        try:
            with (
                self._folders.open_existing(segments) as folder,
                closing(
                    iterate_keys(folder, folder_key, name_prefix, after, limit)
                ) as keys,
            ):
                return list(islice(keys, limit))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as cause:
            raise to_storage_error(cause, prefix) from cause

    async def delete(self, key: str) -> None:
        """Remove the key; to delete a missing key is a success.

        The delete is not flushed: after a power cut within seconds, the key may exist
        again.
        """
        segments = split_key(key)
        try:
            with self._folders.open_existing(segments[:-1]) as folder:
                _unlink(folder, segments[-1])
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as cause:
            raise to_storage_error(cause, key) from cause
        self._folders.prune(segments[:-1])

    async def probe(self) -> None:
        """Prove that link() fails for a name that exists, or raise `Unsafe`."""
        await prove_put_if_absent(self)

    def _publish(self, key: str, segments: list[str], body: bytes) -> datetime:
        try:
            for _ in range(_MAX_ATTEMPTS):
                # A delete may remove an empty folder just before it is used here.
                with suppress(FileNotFoundError):
                    return self._publish_once(key, segments, body)
        except NotADirectoryError as cause:
            raise InvalidKey(
                key, "a part of its path is a key, not a folder"
            ) from cause
        except OSError as cause:
            raise to_storage_error(cause, key) from cause
        raise Unavailable(key, f"its folder was removed {_MAX_ATTEMPTS} times")

    def _publish_once(self, key: str, segments: list[str], body: bytes) -> datetime:
        *above, name = segments
        with (
            self._write_temporary(body) as (
                temporary_folder,
                temporary_name,
                written_at,
            ),
            self._folders.open_or_create(above, written_at) as folder,
        ):
            _link(key, temporary_folder, temporary_name, folder, name)
            _flush_published(key, folder)
        return datetime.fromtimestamp(written_at, UTC)

    @contextmanager
    def _write_temporary(self, body: bytes) -> Generator[tuple[int, str, float]]:
        """Write the body to a new file; yield its folder, name and time."""
        name = os.urandom(16).hex()
        with self._folders.open_or_create_unflushed(_TEMPORARY_FOLDER) as folder:
            try:
                written_at = _write(folder, name, body)
                self._clean_up_periodically(folder, written_at)
                yield folder, name, written_at
            finally:
                with suppress(OSError):
                    os.unlink(name, dir_fd=folder)

    def _clean_up_periodically(self, temporary_folder: int, now: float) -> None:
        self._creates += 1
        if self._creates % _CLEAN_UP_EVERY == 1:
            with suppress(OSError), os.scandir(temporary_folder) as files:
                for file in files:
                    status = file.stat(follow_symlinks=False)
                    if now - status.st_mtime > _STALE_AFTER_SECONDS:
                        os.unlink(file.name, dir_fd=temporary_folder)


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
        raise  # a folder was removed; the caller tries again
    except OSError as cause:
        if _was_linked(key, temporary_folder, temporary_name):
            return
        if isinstance(cause, FileExistsError):
            _raise_taken(key, folder, name)
        if cause.errno in NO_HARD_LINKS:
            raise Unsafe(key, f"link() failed: {cause.strerror}") from cause
        raise


def _was_linked(key: str, temporary_folder: int, temporary_name: str) -> bool:
    # On NFS the reply to link() can be lost; the client repeats it and gets EEXIST. If
    # our file has a second name, the link was made: see open(2), O_EXCL.
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
        raise FileNotFoundError(errno.ENOENT, "an empty folder was removed")
    # The caller acts on the existing body, so that body must be durable.
    flush(folder)
    raise AlreadyExists(key)


def _flush_published(key: str, folder: int) -> None:
    try:
        flush(folder)
    except OSError as cause:
        detail = f"stored, but perhaps not durable: {cause.strerror}"
        raise Inconclusive(key, detail) from cause


def _read(folder: int, name: str) -> bytes:
    # O_NONBLOCK: a named pipe at this place must not block the reader.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(name, flags, dir_fd=folder)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "it is the folder of other keys")
        if not stat.S_ISREG(mode):
            raise PermissionError(errno.EACCES, "it is not a regular file")
        with FileIO(descriptor, closefd=False) as file:
            return file.readall()
    finally:
        os.close(descriptor)


def _unlink(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except (IsADirectoryError, PermissionError):
        if not _is_folder(folder, name):  # macOS returns EPERM for a folder
            raise


def _is_folder(parent: int, name: str) -> bool:
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode)
