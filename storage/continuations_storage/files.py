"""A store in a folder: a new file, fsync, link(), fsync of the folder.

The key "runs/a/1" is the file "runs/a/1" under the root, byte for byte the body.

A create takes these steps:

1. Write the body to a file that has no name yet, or one in a hidden folder of the root.
2. Flush the body, and at the same time the names of folders that were just made. An
   empty body is flushed in step 4.
3. Link the file to its key. `link` fails if the name exists, also on NFS; `rename`
   would overwrite it. The body becomes visible at once and whole.
4. Flush the folder, then remove the mark that says "unflushed". A read of a marked file
   makes the same flushes before it returns the body.

A crash leaves at most a file in the hidden folder. It is never listed, and is removed
when it is older than an hour.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, NoReturn

from continuations_storage.contract import PAGE_SIZE
from continuations_storage.errors import (
    AlreadyExists,
    Inconclusive,
    InvalidKey,
    Unavailable,
    Unsafe,
)
from continuations_storage.filesystem import (
    FolderTree,
    absolute_path,
    flush,
    flush_folder,
    iterate_keys,
)
from continuations_storage.keys import check_limit, split_key, split_prefix
from continuations_storage.new_file import (
    NamedFile,
    UnnamedFile,
    UnnamedUnsupported,
    is_unflushed,
)
from continuations_storage.oserrors import NO_HARD_LINKS, to_storage_error
from continuations_storage.step_groups import StepGroups, flush_together
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from contextlib import AbstractAsyncContextManager

    from continuations_storage.contract import Ephemeral, Watch
    from continuations_storage.errors import StorageError
    from continuations_storage.filesystem import Folder
    from continuations_storage.new_file import NewFile
    from continuations_storage.step_groups import SlowCall

__all__ = [
    "FileStore",
    "flush_before_use",
    "is_folder",
    "is_unflushed_file",
    "missing_flushes",
    "read_file",
    "unlink",
]


# No key contains "+", so no key names a file in these folders.
_TEMPORARY_FOLDER = ".tmp+"
_EPHEMERAL_FOLDER = ".ephemeral+"
_STALE_AFTER_SECONDS = 3600.0
_CLEAN_UP_EVERY = 256
_MAX_ATTEMPTS = 64
_MAX_SMALL = 1 << 20
# Two changes of a folder within a tick of the system's clock, 10 ms at most, may have
# the same time.
_TICK_NANOSECONDS = 20_000_000
# Not the threads of the event loop: the renewal of a claim must not wait behind slow
# functions of the application.
_workers = DaemonThreadPool(32, "continuations-file")
# Not the threads that flush, so that no create waits behind a slow removal.
_removers = DaemonThreadPool(32, "continuations-remove")


class FileStore:
    """A store that keeps each body as a file under a root folder.

    The first create makes the root, with access for its owner only (mode 0700).
    Processes may share it, and so may machines if the file system has link() and
    fsync().

    Args:
        root: The path of the folder. A relative path is resolved now, so a later
            chdir() does not move the store.

    Attributes:
        listing_size: How many keys to ask for in a long listing. Each listing reads the
            whole folder, so large pages are cheaper.
    """

    listing_size = 100_000

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._folders = FolderTree(absolute_path("file", root))
        self._creates = StepGroups(_workers)
        # A small body, such as the renewal of a claim, does not wait for these.
        self._large_creates = StepGroups(_workers)
        self._deletes = StepGroups(_workers, _removers)
        self._create_count = 0
        self._needs_names = False

    def __reduce__(self) -> tuple[type[FileStore], tuple[str]]:
        """Pickle the path alone: another process has threads of its own."""
        return type(self), (self._folders.root,)

    def __repr__(self) -> str:
        return f"<FileStore {self._folders.root}>"

    @property
    def missing_folder(self) -> str | None:
        """The root folder, if it does not exist; a store of files reads as empty then.

        A symbolic link whose folder does not exist counts as missing.
        """
        root = self._folders.root
        return None if os.path.exists(root) else root  # noqa: PTH110 -- pathlib is 5 ms cold

    @cached_property
    def ephemeral(self) -> Ephemeral:
        """Values that last some seconds, in a folder; see `contract.Ephemeral`.

        A network file system shows values of other machines late.
        """
        from continuations_storage.ephemeral_files import EphemeralFiles  # noqa: PLC0415 -- cold start

        root = self._folders.root
        return EphemeralFiles(f"{root}/{_EPHEMERAL_FOLDER}", root)

    async def create(self, key: str, body: bytes) -> datetime:
        """Put the body if the key is absent; see `Store.create`.

        Args:
            key: A valid key.
            body: The bytes.

        Returns:
            The modification time of the file.

        Raises:
            Unsafe: The file system has no hard links, or cannot flush folders.
            StorageError: As `Store.create` states.
        """
        segments = split_key(key)
        groups = self._creates if len(body) <= _MAX_SMALL else self._large_creates
        return await groups.run(self._publish(key, segments, body))

    async def read(self, key: str) -> bytes:
        """Return the whole body, or raise `NotFound`; see `Store.read`.

        The body is durable, also if the process that creates it is not done yet.
        """
        # Not in a thread: a small read takes 20 us, a call through a thread 100 us. A
        # process that only reads does not start the threads.
        try:
            body, unflushed = self._read(key)
            if unflushed is not None:
                await _workers.run(flush_before_use, *unflushed)
        except OSError as cause:
            raise self._to_storage_error(cause, key) from cause
        return body

    async def read_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bodies of several keys, in one thread; see `contract.read_many`.

        Args:
            keys: Valid keys.

        Returns:
            For each key the whole body, or None if the key does not exist.

        Raises:
            StorageError: As `Store.read` states.
        """
        return await _workers.run(self._read_many, keys)

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys of a prefix, in byte order; see `Store.keys`."""
        segments, name_prefix = split_prefix(prefix)
        check_limit(limit)
        folder_key = prefix[: len(prefix) - len(name_prefix)]
        walk = self._walk(segments, folder_key, name_prefix, after, limit)
        page: list[str] = []
        try:
            # A long listing must not hold the event loop, so it goes on in a thread.
            if not _fill(page, walk, limit, stop_at_pause=True):
                await _workers.run(_fill, page, walk, limit)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as cause:
            raise self._to_storage_error(cause, prefix) from cause
        return page

    async def delete(self, key: str) -> None:
        """Remove the key; to delete a missing key is a success.

        The delete is not flushed: after a power cut within seconds, the key may exist
        again.
        """
        # In a thread: the system makes an unlink wait while it writes its journal. Not
        # with the creates: those must not wait behind it.
        await self._deletes.run(self._remove(key, split_key(key)))

    def watch(self, prefix: str) -> AbstractAsyncContextManager[Watch]:
        """Watch the creates of a prefix by a folder's time; see `contract.watch`.

        A network file system shows changes of other machines late. Then a report may be
        lost.

        Args:
            prefix: The beginning of the keys.

        Returns:
            A block in which keys are watched.

        Raises:
            InvalidKey: No valid key begins with the prefix.
        """
        from continuations_storage.polled_watch import polled_watch  # noqa: PLC0415 -- cold start

        segments, _ = split_prefix(prefix)
        folder = "/".join((self._folders.root, *segments))
        return polled_watch(self, prefix, partial(_time_of_change, folder))

    async def probe(self) -> None:
        """Prove that link() fails for a name that exists, or raise `Unsafe`."""
        from continuations_storage.probe import prove_put_if_absent  # noqa: PLC0415 -- cold start

        await prove_put_if_absent(self)

    def _read(self, key: str) -> tuple[bytes, tuple[Folder, str] | None]:
        """Return a body, and its folder and name if a power cut may take it away."""
        *above, name = split_key(key)
        folder = self._folders.open(above)
        body, unflushed = read_file(folder, name)
        return body, (folder, name) if unflushed else None

    def _read_many(self, keys: Sequence[str]) -> list[bytes | None]:
        bodies: list[bytes | None] = []
        for key in keys:
            try:
                body, unflushed = self._read(key)
                if unflushed is not None:
                    flush_before_use(*unflushed)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                bodies.append(None)
            except OSError as cause:
                raise self._to_storage_error(cause, key) from cause
            else:
                bodies.append(body)
        return bodies

    def _to_storage_error(self, cause: OSError, key: str) -> StorageError:
        if cause.errno == errno.ESTALE:
            self._folders.forget()  # NFS: the server has removed an open folder
        return to_storage_error(cause, key)

    def _walk(
        self,
        segments: list[str],
        folder_key: str,
        name_prefix: str,
        after: str,
        limit: int,
    ) -> Generator[list[str]]:
        with self._folders.open(segments).opened_again() as folder:
            yield from iterate_keys(folder, folder_key, name_prefix, after, limit)

    def _publish(
        self, key: str, segments: list[str], body: bytes
    ) -> Generator[Sequence[SlowCall], None, datetime]:
        try:
            for _ in range(_MAX_ATTEMPTS):
                try:
                    return (yield from self._publish_once(key, segments, body))
                except UnnamedUnsupported:
                    self._needs_names = True
                except OSError as cause:
                    # A delete removed an empty folder just before it was used here.
                    if cause.errno not in {errno.ENOENT, errno.ESTALE}:
                        raise
                    self._folders.forget()
        except NotADirectoryError as cause:
            raise InvalidKey(
                key, "a part of its path is a key, not a folder"
            ) from cause
        except OSError as cause:
            raise to_storage_error(cause, key) from cause
        raise Unavailable(key, f"its folder was removed {_MAX_ATTEMPTS} times")

    def _publish_once(
        self, key: str, segments: list[str], body: bytes
    ) -> Generator[Sequence[SlowCall], None, datetime]:
        *above, name = segments
        folder = self._folders.open_or_create(above)
        with closing(self._write(folder, body)) as file:
            self._clean_up_periodically(file.written_at)
            # Without bytes, no part of a body can be lost. So it is flushed after the
            # link, together with its folder.
            flushes = [(flush, file.descriptor)]
            before, after = (flushes, []) if body else ([], flushes)
            yield from self._folders.ensure_durable(folder, file.written_at, *before)
            yield from self._link(key, segments, file, folder)
            yield from _flush_published(key, folder, name, *after)
            file.mark_flushed()
        return datetime.fromtimestamp(file.written_at, UTC)

    def _write(self, folder: Folder, body: bytes) -> NewFile:
        """Return a new file with the flushed body, in the file system of a folder."""
        if not self._needs_names:
            return UnnamedFile(folder, body)
        return NamedFile(self._folders.open_or_create([_TEMPORARY_FOLDER]), body)

    def _link(
        self, key: str, segments: list[str], file: NewFile, folder: Folder
    ) -> Generator[Sequence[SlowCall]]:
        try:
            file.link(folder, segments[-1])
        except FileNotFoundError:
            raise  # a folder was removed; the caller tries again
        except OSError as cause:
            if _has_key(key, file):
                return
            if isinstance(cause, FileExistsError):
                yield from self._raise_taken(key, segments, folder)
            if cause.errno in NO_HARD_LINKS:
                detail = f"its file system has no hard links ({cause.strerror})"
                raise Unsafe(key, f"{detail}; ext4, XFS and btrfs have them") from cause
            raise

    def _raise_taken(
        self, key: str, segments: list[str], folder: Folder
    ) -> Generator[Sequence[SlowCall], None, NoReturn]:
        name = segments[-1]
        if is_folder(folder.descriptor, name):
            try:
                os.rmdir(name, dir_fd=folder.descriptor)
            except OSError:
                raise InvalidKey(key, "it is the folder of other keys") from None
            raise FileNotFoundError(errno.ENOENT, "an empty folder was removed")
        other = self._folders.other_spelling(segments)
        if other is not None:
            detail = f"the file system ignores case and has {other!r}"
            raise InvalidKey(key, detail)
        # The caller acts on the existing body, so that body must be durable.
        if is_unflushed_file(folder.descriptor, name):
            with missing_flushes(folder, name) as flushes:
                yield flushes
        else:
            yield [(flush_folder, folder.descriptor)]
        raise AlreadyExists(key)

    def _remove(
        self, key: str, segments: list[str]
    ) -> Generator[Sequence[SlowCall], None, None]:
        *above, name = segments
        try:
            folder = self._folders.open(above)
            # A file system that discards the blocks of a removed file at once needs
            # milliseconds, so the files of a group are removed at the same time.
            yield [(partial(unlink, name=name), folder.descriptor)]
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as cause:
            raise self._to_storage_error(cause, key) from cause
        self._folders.prune(above)

    def _clean_up_periodically(self, now: float) -> None:
        self._create_count += 1
        if self._create_count % _CLEAN_UP_EVERY == 1:
            with suppress(OSError):
                self._remove_stale_files(now)

    def _remove_stale_files(self, now: float) -> None:
        folder = self._folders.open([_TEMPORARY_FOLDER])
        with folder.opened_again() as listed, os.scandir(listed) as files:
            for file in files:
                status = file.stat(follow_symlinks=False)
                if now - status.st_mtime > _STALE_AFTER_SECONDS:
                    os.unlink(file.name, dir_fd=folder.descriptor)


def _time_of_change(folder: str) -> tuple[int, int, bool] | None:
    """Return when a folder changed, and whether it may change in the same tick."""
    try:
        status = os.stat(folder)  # noqa: PTH116 -- pathlib is 5 ms cold
    except OSError:
        return None
    age = abs(time.time_ns() - status.st_mtime_ns)
    return status.st_ino, status.st_mtime_ns, age < _TICK_NANOSECONDS


def _fill(
    page: list[str],
    walk: Generator[list[str]],
    limit: int,
    *,
    stop_at_pause: bool = False,
) -> bool:
    """Fill a page; return False if the walk has paused before its end."""
    for keys in walk:
        if stop_at_pause and not keys:
            return False
        page += keys[: limit - len(page)]
        if len(page) == limit:
            break
    walk.close()
    return True


def _has_key(key: str, file: NewFile) -> bool:
    # On NFS the reply to link() can be lost; the client repeats it and gets EEXIST. If
    # our file has one more name, the link was made: see open(2), O_EXCL.
    try:
        return file.count_keys() > 0
    except OSError as cause:
        raise Inconclusive(key, f"after link(): {cause.strerror}") from cause


def _flush_published(
    key: str, folder: Folder, name: str, *flushes: SlowCall
) -> Generator[Sequence[SlowCall]]:
    try:
        yield (*flushes, (flush_folder, folder.descriptor))
    except Unsafe:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder.descriptor)
        raise
    except OSError as cause:
        detail = f"stored, but perhaps not durable: {cause.strerror}"
        raise Inconclusive(key, detail) from cause


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
