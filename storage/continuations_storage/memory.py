"""A store in the memory of this process, for tests and demos."""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_left, bisect_right, insort
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from continuations_storage.contract import (
    MAX_EPHEMERAL_NAMES,
    PAGE_SIZE,
    Committed,
    Listing,
    check_ephemeral,
)
from continuations_storage.errors import (
    AlreadyExists,
    InvalidKey,
    NotFound,
    OutOfTime,
    StorageError,
)
from continuations_storage.keys import check_key, check_limit, check_prefix, split_key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from continuations_storage.contract import Changes, Watch

__all__ = ["MemoryStore"]


class MemoryStore:
    """A store that keeps bodies in a dict, until the process ends.

    Loops and threads of one process may share it.

    Args:
        clock: Returns the store's time (aware, UTC) for each create. By default,
            the store has no clock.

    Attributes:
        ephemeral: Values that last some seconds; see `contract.Ephemeral`.
    """

    def __init__(self, clock: Callable[[], datetime] | None = None) -> None:
        self._clock = clock
        self._bodies: dict[str, bytes] = {}
        self._sorted: list[str] = []  # the dict's keys, so that a page is a slice
        self._lock = threading.Lock()
        self._watches: set[_MemoryWatch] = set()
        self.ephemeral = _MemoryValues()

    def __repr__(self) -> str:
        return f"<MemoryStore of {len(self._sorted)} keys>"

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body if the key is absent; see `Store.create`.

        Returns:
            The time of the store's clock, or None without a clock.

        Raises:
            AlreadyExists: The key exists.
            InvalidKey: The key is not valid, or is the folder of other keys.
        """
        with self._lock:
            self._create(key, body)
            return self._clock() if self._clock else None

    async def commit(self, changes: Changes) -> Committed:
        """Make several changes together; see `contract.Changes`.

        Args:
            changes: The changes.

        Returns:
            The listing, and whether the keys are removed.

        Raises:
            StorageError: As `create` states.
        """
        with self._lock:
            self._check_time(changes)
            made: list[str] = []
            try:
                self._create(changes.key, changes.body)
                made.append(changes.key)
                for key, body in changes.also.items():
                    if key not in self._bodies:
                        self._create(key, body)
                        made.append(key)
            except StorageError:
                for key in made:
                    self._delete(key)
                raise
            time = self._clock() if self._clock else None
            page = None if changes.listing is None else self._page(changes.listing)
            first = self._page(Listing(changes.only_if_first, limit=1))
            may_delete = not changes.only_if_first or first == [changes.key]
            if may_delete:
                for key in changes.deletes:
                    self._delete(key)
        is_cleaned = may_delete and bool(changes.deletes)
        return Committed(store_time=time, page=page, is_cleaned=is_cleaned)

    async def read(self, key: str) -> bytes:
        """Return the whole body, or raise `NotFound`."""
        check_key(key)
        try:
            return self._bodies[key]
        except KeyError:
            raise NotFound(key) from None

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys of a prefix, in byte order; see `Store.keys`."""
        check_prefix(prefix)
        check_limit(limit)
        with self._lock:
            return self._page(Listing(prefix, after, limit))

    async def delete(self, key: str) -> None:
        """Remove the key; to delete a missing key is a success."""
        check_key(key)
        with self._lock:
            self._delete(key)

    def watch(self, prefix: str) -> AbstractAsyncContextManager[Watch]:
        """Watch the creates of a prefix by every loop and thread; see `contract.watch`.

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
        watch = _MemoryWatch(prefix)
        with self._lock:
            self._watches.add(watch)
        try:
            yield watch
        finally:
            with self._lock:
                self._watches.discard(watch)

    async def probe(self) -> None:
        """Prove that the store honours put-if-absent."""
        from continuations_storage.probe import prove_put_if_absent  # noqa: PLC0415 -- cold start

        await prove_put_if_absent(self)

    # With the lock ---------------------------------------------------------------

    def _check_time(self, changes: Changes) -> None:
        if self._clock is None or changes.between is None:
            return
        earliest, latest = changes.between
        if not earliest <= self._clock() <= latest:
            raise OutOfTime(changes.key)

    def _create(self, key: str, body: bytes) -> None:
        segments = split_key(key)
        if key in self._bodies:
            raise AlreadyExists(key)
        self._refuse_folder_and_key(key, segments)
        self._bodies[key] = body
        insort(self._sorted, key)
        for each in self._watches:
            each.tell(key)

    def _page(self, listing: Listing) -> list[str]:
        start = max(
            bisect_left(self._sorted, listing.prefix),
            bisect_right(self._sorted, listing.after),
        )
        page = self._sorted[start : start + listing.limit]
        return [key for key in page if key.startswith(listing.prefix)]

    def _delete(self, key: str) -> None:
        if self._bodies.pop(key, None) is not None:
            del self._sorted[bisect_left(self._sorted, key)]

    def _refuse_folder_and_key(self, key: str, segments: list[str]) -> None:
        # A file system cannot hold both, and a program that runs on this store must
        # also run on files.
        for end in range(1, len(segments)):
            parent = "/".join(segments[:end])
            if parent in self._bodies:
                raise InvalidKey(key, f"{parent!r} is a key, so it cannot be a folder")
        folder = key + "/"
        index = bisect_left(self._sorted, folder)
        if self._sorted[index : index + 1] and self._sorted[index].startswith(folder):
            raise InvalidKey(key, f"it is the folder of {self._sorted[index]!r}")


class _MemoryValues:
    """Ephemeral values in a dict; see `contract.Ephemeral`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, tuple[float, bytes]] = {}

    async def put(self, values: Mapping[str, bytes], seconds: float) -> None:
        """Set values, and when they end; see `Ephemeral.put`."""
        check_ephemeral(values, seconds)
        end = time.monotonic() + seconds
        with self._lock:
            for name, value in values.items():
                self._values[name] = (end, value)

    async def get(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the values that there are; see `Ephemeral.get`."""
        with self._lock:
            self._forget_ended()
            found = [(name, self._values.get(name)) for name in names]
        return {name: value[1] for name, value in found if value is not None}

    async def names(self, prefix: str) -> list[str]:
        """Return the names of the values that there are; see `Ephemeral.names`."""
        check_prefix(prefix)
        with self._lock:
            self._forget_ended()
            found = [name for name in self._values if name.startswith(prefix)]
        return found[:MAX_EPHEMERAL_NAMES]

    async def remove(self, names: Sequence[str]) -> None:
        """Remove values; see `Ephemeral.remove`."""
        with self._lock:
            for name in names:
                self._values.pop(name, None)

    def _forget_ended(self) -> None:
        now = time.monotonic()
        for name in [name for name, (end, _) in self._values.items() if end <= now]:
            del self._values[name]


class _MemoryWatch:
    """Wakes one event loop when a key with a prefix was created."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._loop = asyncio.get_running_loop()
        self._created = asyncio.Event()

    def tell(self, key: str) -> None:
        """Set the event, from any thread, if the key has the prefix."""
        if key.startswith(self._prefix) and "/" not in key[len(self._prefix) :]:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._created.set)

    async def wait(self, seconds: float) -> bool:
        """Sleep until a key was created; see `Watch.wait`."""
        if not self._created.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._created.wait()
        was_created = self._created.is_set()
        self._created.clear()
        return was_created
