"""Watch the keys of a store that has a cheap sign of each change.

The sign is read every 20 ms while a caller waits. After a change, the keys are listed.
So a caller wakes only for a new key of its prefix, and not for all that is written.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from continuations_storage.contract import PAGE_SIZE
from continuations_storage.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from continuations_storage.contract import Store

__all__ = ["PolledWatch", "polled_watch"]

_POLL_SECONDS = 0.02
# After a listing, the next one comes after so many times its duration: so a large
# folder that changes all the time costs a fifth of a core at most.
_REST_FACTOR = 4


class PolledWatch:
    """The keys of a prefix that the last listing found; see `contract.Watch`.

    Args:
        store: The store.
        prefix: The beginning of the keys.
        read_sign: Returns a value that differs after each change of the store. It does
            not raise.
    """

    def __init__(
        self, store: Store, prefix: str, read_sign: Callable[[], object]
    ) -> None:
        self._store = store
        self._prefix = prefix
        self._read_sign = read_sign
        self._sign: object = None
        self._keys: frozenset[str] = frozenset()
        self._rests_until = self._listing_seconds = 0.0

    async def wait(self, seconds: float) -> bool:
        """Sleep until a key was created; see `Watch.wait`."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + seconds
        while True:
            if loop.time() >= self._rests_until and await self.has_new_key():
                return True
            left = ends_at - loop.time()
            if left <= 0:
                return False
            await asyncio.sleep(min(left, _POLL_SECONDS))

    async def has_new_key(self) -> bool:
        """List the keys if the sign differs; return whether there is a new one."""
        sign = self._read_sign()
        if sign == self._sign:
            return False
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        try:
            keys = await self._store.keys(self._prefix, limit=PAGE_SIZE)
        except StorageError:
            keys = [*self._keys]
        before, seconds = self._listing_seconds, loop.time() - began_at
        # Once, it may be other work of the event loop that takes the time.
        self._listing_seconds = seconds
        self._rests_until = loop.time() + min(before, seconds) * _REST_FACTOR
        start = len(self._prefix)
        known, self._sign = self._keys, sign
        self._keys = frozenset(key for key in keys if "/" not in key[start:])
        # No listing shows the new keys behind a full page.
        return not self._keys <= known or len(keys) == PAGE_SIZE


@asynccontextmanager
async def polled_watch(
    store: Store, prefix: str, read_sign: Callable[[], object]
) -> AsyncGenerator[PolledWatch]:
    """Watch keys in a block; the keys that exist when it begins are not new."""
    watch = PolledWatch(store, prefix, read_sign)
    await watch.has_new_key()
    yield watch
