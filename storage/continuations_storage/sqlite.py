"""A store in one SQLite file: one table, one row for each key.

SQLite writes a change to a log (`PATH-wal`) and flushes it; then other connections see
it. Creates and deletes that wait at the same time are one transaction with one flush.
A crash leaves the whole transaction, or no part of the transaction.

The file must be on a disk of this machine: the processes share memory (`PATH-shm`).
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, cast

from continuations_storage.contract import PAGE_SIZE, Committed, Listing, Page
from continuations_storage.errors import (
    AlreadyExists,
    Inconclusive,
    InvalidKey,
    NotFound,
    OutOfTime,
    StorageError,
    Unsupported,
)
from continuations_storage.filesystem import absolute_path
from continuations_storage.fork_safety import PerProcess
from continuations_storage.keys import check_key, check_limit, check_prefix, split_key
from continuations_storage.sqlite_file import DatabaseFile, is_locked
from continuations_storage.step_groups import StepGroups
from continuations_storage.thread_pool import DaemonThreadPool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence
    from contextlib import AbstractAsyncContextManager

    from continuations_storage.contract import Changes, Ephemeral, Watch
    from continuations_storage.step_groups import SlowCall

__all__ = ["SQLiteStore"]

_OLDEST = (3, 37, 0)  # it has strict tables
_MAX_SMALL = 1 << 16
_MAX_LIMIT = (1 << 63) - 1
# No character of a key is greater than "~".
_AFTER_KEYS = "\x7f"
_NOT_IN_KEYS = re.compile("[^\\0-~].*", re.DOTALL)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Free pages that stay in the file for the next bodies: 4 MB.
_MIN_FREE_PAGES = 1024
_FREED_AT_ONCE = 256
_workers = DaemonThreadPool(32, "continuations-sqlite")

_INSERT = "INSERT INTO objects VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
_DELETE = "DELETE FROM objects WHERE key = ?"
_READ_SMALL = f"""
SELECT CASE WHEN length(body) <= {_MAX_SMALL} THEN body END FROM objects WHERE key = ?
"""  # noqa: S608 -- a number
_READ = "SELECT body FROM objects WHERE key = ?"
_READ_MANY = """
SELECT key, body FROM objects WHERE key IN (SELECT value FROM json_each(?))
"""
_LIST = "SELECT key FROM objects WHERE key >= ? AND key < ? ORDER BY key LIMIT ?"
_CREATED_AT = "SELECT created_at FROM objects WHERE key = ?"


class SQLiteStore:
    """A store that keeps all bodies in one SQLite file.

    The first create makes the file and missing folders, with access for their owner
    only. Threads and processes of one machine may share the file.

    Args:
        path: The path of the file. A relative path is resolved now, so a later chdir()
            does not move the store.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if sqlite3.sqlite_version_info < _OLDEST:
            detail = f"SQLite {sqlite3.sqlite_version} is too old"
            advice = "Use a Python with SQLite 3.37 or newer."
            raise Unsupported(f"sqlite:{os.fspath(path)}", detail, advice)
        self._file = DatabaseFile(absolute_path("sqlite", path))
        self._writes = StepGroups(_workers)
        self._batches = PerProcess(threading.local)

    def __reduce__(self) -> tuple[type[SQLiteStore], tuple[str]]:
        """Pickle the path alone: another process has connections of its own."""
        return type(self), (self._file.path,)

    def __repr__(self) -> str:
        return f"<SQLiteStore {self._file}>"

    @property
    def missing_folder(self) -> str | None:
        """The path of the file, if the file does not exist; see `contract`."""
        return None if os.path.exists(self._file.path) else self._file.path  # noqa: PTH110 -- pathlib is 5 ms cold

    @cached_property
    def ephemeral(self) -> Ephemeral:
        """Values that last some seconds, beside the file; see `contract.Ephemeral`."""
        from continuations_storage.ephemeral_files import EphemeralFiles  # noqa: PLC0415 -- cold start

        path = self._file.path
        return EphemeralFiles(f"{path}-ephemeral", path)

    async def create(self, key: str, body: bytes) -> datetime:
        """Put the body if the key is absent; see `Store.create`.

        Args:
            key: A valid key.
            body: The bytes.

        Returns:
            The time of this machine.

        Raises:
            Unsafe: The file belongs to another program, or its file system is not fit.
            StorageError: As `Store.create` states.
        """
        write = _Write(key, split_key(key), body)
        await self._writes.run(self._join(write))
        return _time(write.microseconds)

    async def commit(self, changes: Changes) -> Committed:
        """Make several changes in one transaction; see `contract.Changes`.

        Args:
            changes: The changes.

        Returns:
            The time of this machine, the listing, and whether the keys are removed.

        Raises:
            StorageError: As `create` states.
        """
        write = _Commit(changes)
        await self._writes.run(self._join(write))
        return Committed(
            store_time=_time(write.microseconds),
            page=write.page,
            is_cleaned=write.is_cleaned,
        )

    async def created_at(self, key: str) -> datetime:
        """Return the time of the create of a key, or raise `NotFound`.

        Args:
            key: A valid key.

        Returns:
            The time that `create` returned.

        Raises:
            StorageError: As `Store.read` states.
        """
        check_key(key)
        rows = await self._read(key, _CREATED_AT, key)
        for (microseconds,) in rows:
            return _time(microseconds)
        raise NotFound(key)

    async def read(self, key: str) -> bytes:
        """Return the whole body, or raise `NotFound`; see `Store.read`."""
        check_key(key)
        # Not in a thread: a small read takes 20 us, a call through a thread 100 us.
        rows = await self._read(key, _READ_SMALL, key)
        if rows == [(None,)]:
            rows = await self._read_in_thread(key, _READ, key)
        for (body,) in rows:
            return cast("bytes", body)
        raise NotFound(key)

    async def read_many(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return the bodies of several keys, in one thread; see `contract.read_many`.

        Args:
            keys: Valid keys.

        Returns:
            For each key the whole body, or None if the key does not exist.

        Raises:
            StorageError: As `Store.read` states.
        """
        for key in keys:
            check_key(key)
        rows = await self._read_in_thread(None, _READ_MANY, json.dumps(list(keys)))
        bodies: dict[str, bytes] = dict(rows)
        return [bodies.get(key) for key in keys]

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys of a prefix, in byte order; see `Store.keys`."""
        check_prefix(prefix)
        check_limit(limit)
        # A long listing must not hold the event loop.
        read = self._read if limit <= PAGE_SIZE else self._read_in_thread
        rows = await read(prefix, _LIST, *_range(Listing(prefix, after, limit)))
        return _page(rows)

    async def delete(self, key: str) -> None:
        """Remove the key; to delete a missing key is a success."""
        await self._writes.run(self._join(_Write(key, split_key(key))))

    def watch(self, prefix: str) -> AbstractAsyncContextManager[Watch]:
        """Watch the creates of a prefix by all processes; see `contract.watch`.

        Args:
            prefix: The beginning of the keys.

        Returns:
            A block in which keys are watched.

        Raises:
            InvalidKey: No valid key begins with the prefix.
        """
        check_prefix(prefix)
        return self._watching(prefix)

    @asynccontextmanager
    async def _watching(self, prefix: str) -> AsyncGenerator[Watch]:
        from continuations_storage.polled_watch import polled_watch  # noqa: PLC0415 -- cold start

        with self._file.version_reader() as read_version:
            # The first call opens a connection, which takes some flushes.
            await _workers.run(read_version)
            async with polled_watch(self, prefix, read_version) as watch:
                yield watch

    async def probe(self) -> None:
        """Prove put-if-absent and the file system, or raise `Unsafe`."""
        from continuations_storage.probe import prove_put_if_absent  # noqa: PLC0415 -- cold start

        await prove_put_if_absent(self)

    # Reads ----------------------------------------------------------------------

    async def _read(self, key: str, query: str, *values: Any) -> list[Any]:
        """Make a short query here, if it does not have to wait."""
        if self._file.has_idle_connection():
            try:
                return self._query(query, values)
            except sqlite3.Error as cause:
                if not is_locked(cause):
                    raise self._file.to_storage_error(cause, key) from cause
        return await self._read_in_thread(key, query, *values)

    async def _read_in_thread(
        self, key: str | None, query: str, *values: Any
    ) -> list[Any]:
        made = partial(
            self._file.wait_while_locked, partial(self._query, query, values)
        )
        try:
            return await _workers.run(made)
        except sqlite3.Error as cause:
            raise self._file.to_storage_error(cause, key) from cause

    def _query(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        try:
            with self._file.connection() as connection:
                return connection.execute(query, values).fetchall()
        except FileNotFoundError:
            return []

    # Writes ---------------------------------------------------------------------

    def _join(self, write: _Write) -> Generator[Sequence[SlowCall], None, None]:
        """Put a change into the batch of this thread; one call stores the batch."""
        batch = self._batch()
        batch.append(write)
        yield [(self._store_batch, 0)]
        if write.error is not None:
            raise write.error

    def _batch(self) -> list[_Write]:
        local = self._batches()
        batch: list[_Write] = local.__dict__.setdefault("batch", [])
        return batch

    def _store_batch(self, _: int) -> None:
        batch = self._batch()
        writes = batch.copy()
        batch.clear()
        self._store(writes)

    def _store(self, writes: list[_Write]) -> None:
        """Store changes in one transaction, or set the error of each."""
        try:
            self._file.wait_while_locked(partial(self._transact, writes))
        except FileNotFoundError:
            self._make_and_store([each for each in writes if each.body is not None])
        except _Unconfirmed as cause:
            for each in writes:
                each.error = Inconclusive(each.key, f"{self._file}: {cause.__cause__}")
        except StorageError as error:
            for each in writes:
                each.error = error
        except (sqlite3.Error, OverflowError) as cause:
            if len(writes) > 1 and not is_locked(cause):
                # One of them may be too large for the disk.
                for each in writes:
                    self._store([each])
            else:
                for each in writes:
                    each.error = self._file.to_storage_error(cause, each.key)

    def _make_and_store(self, creates: list[_Write]) -> None:
        """Make the file; without a file, there is nothing to delete."""
        try:
            if creates:
                self._file.make()
        except StorageError as error:
            for each in creates:
                each.error = error
        else:
            if creates:
                self._store(creates)

    def _transact(self, writes: list[_Write]) -> None:
        creates = any(each.body is not None for each in writes)
        with self._file.connection() as connection:
            # After a power cut, a deleted key may exist again; a body is never lost.
            connection.execute(
                f"PRAGMA synchronous = {'FULL' if creates else 'NORMAL'}"
            )
            connection.execute("BEGIN IMMEDIATE")
            try:
                for each in writes:
                    each.apply(connection)
                _commit(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            if not creates:
                _free_pages(connection)


class _Unconfirmed(Exception):
    """The commit failed; SQLite may find it in the log later."""


@dataclass(slots=True)
class _Write:
    """A create, or a delete if it has no body, and its result."""

    key: str
    segments: list[str]
    body: bytes | None = None
    microseconds: int = 0
    error: Exception | None = None

    def apply(self, connection: sqlite3.Connection) -> None:
        """Make the change in an open transaction."""
        self.error = None
        if self.body is None:
            connection.execute(_DELETE, (self.key,))
            return
        self.error = _folder_error(connection, self.key, self.segments)
        if self.error is not None:
            return
        self.microseconds = time.time_ns() // 1000
        row = (self.key, self.microseconds, self.body)
        if connection.execute(_INSERT, row).rowcount == 0:
            self.error = AlreadyExists(self.key)


class _Commit(_Write):
    """Creates together, then a listing and deletes, and their results."""

    __slots__ = ("_also", "_changes", "is_cleaned", "page")

    def __init__(self, changes: Changes) -> None:
        super().__init__(changes.key, split_key(changes.key), changes.body)
        self._changes = changes
        self._also = [
            _Write(key, split_key(key), body) for key, body in changes.also.items()
        ]
        self.page: Page | None = None
        self.is_cleaned = False

    def apply(self, connection: sqlite3.Connection) -> None:
        """Make the changes in an open transaction."""
        self.page, self.is_cleaned = None, False  # of a transaction that failed
        if self._is_out_of_time():
            self.error = OutOfTime(self.key)
            return
        super().apply(connection)
        made: list[_Write] = [self]
        for each in self._also if self.error is None else ():
            each.apply(connection)
            if isinstance(each.error, InvalidKey):
                for other in made:
                    connection.execute(_DELETE, (other.key,))
                self.error = each.error
                break
            if each.error is None:
                made.append(each)
        if self.error is None:
            self._finish(connection)

    def _is_out_of_time(self) -> bool:
        if self._changes.between is None:
            return False
        earliest, latest = self._changes.between
        return not earliest <= datetime.now(UTC) <= latest

    def _finish(self, connection: sqlite3.Connection) -> None:
        changes = self._changes
        if changes.listing is not None:
            rows = connection.execute(_LIST, _range(changes.listing))
            self.page = _page(rows.fetchall())
        if not changes.deletes:
            return
        if changes.only_if_first:
            first = _range(Listing(changes.only_if_first, limit=1))
            if connection.execute(_LIST, first).fetchone() != (self.key,):
                return
        connection.executemany(_DELETE, [(key,) for key in changes.deletes])
        self.is_cleaned = True


def _range(listing: Listing) -> tuple[str, str, int]:
    """Return the values of the statement that lists keys."""
    prefix, after = listing.prefix, listing.after
    first = max(prefix, f"{_NOT_IN_KEYS.sub(_AFTER_KEYS, after)}\0" if after else "")
    return first, f"{prefix}{_AFTER_KEYS}", min(listing.limit, _MAX_LIMIT)


def _page(rows: list[Any]) -> Page:
    page = Page(key for (key,) in rows)
    page.store_time = datetime.now(UTC)
    return page


def _folder_error(
    connection: sqlite3.Connection, key: str, segments: list[str]
) -> InvalidKey | None:
    # A folder cannot hold both keys, and a run may be moved to one.
    above = ["/".join(segments[:end]) for end in range(1, len(segments))]
    values = (*above, f"{key}/", f"{key}/{_AFTER_KEYS}")
    for (other,) in connection.execute(_find_folder_or_key(len(above)), values):
        if other.startswith(key):
            return InvalidKey(key, f"it is the folder of {other!r}")
        return InvalidKey(key, f"{other!r} is a key, so it cannot be a folder")
    return None


@cache
def _find_folder_or_key(above: int) -> str:
    """Return the statement that finds one of some keys, or one key in a range."""
    keys = ", ".join("?" * above)
    return f"""
SELECT key FROM objects WHERE key IN ({keys}) OR (key >= ? AND key < ?) LIMIT 1
"""  # noqa: S608 -- question marks


def _commit(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as cause:
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL:
            raise  # the log ends before the mark of the commit
        raise _Unconfirmed from cause


def _free_pages(connection: sqlite3.Connection) -> None:
    """Shorten the file a little if more pages are free than in use."""
    with suppress(sqlite3.Error):
        [free] = connection.execute("PRAGMA freelist_count").fetchone()
        [pages] = connection.execute("PRAGMA page_count").fetchone()
        if free > max(_MIN_FREE_PAGES, pages // 2):
            # `execute` would stop after the first page.
            connection.executescript(f"PRAGMA incremental_vacuum({_FREED_AT_ONCE})")


def _time(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)
