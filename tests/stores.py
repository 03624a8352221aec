"""Stores that tell the time in other ways than `MemoryStore`, and what stores hold."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from continuations.wire.dictionary import DICTIONARY
from continuations_storage import MemoryStore
from continuations_storage.contract import Page

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from continuations.ledger.claims import Clock
    from continuations_storage import Store
    from continuations_storage.contract import Changes, Committed, Listing

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class StoreWithoutTime:
    """Another store that never tells its time, so that the worker's clock counts."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.read, self.delete, self.probe = inner.read, inner.delete, inner.probe

    async def create(self, key: str, body: bytes) -> None:
        """Create the object and return no time."""
        await self._inner.create(key, body)

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """Return a plain list, which carries no time."""
        return list(await self._inner.keys(prefix, after, limit))


class OneByOneStore(MemoryStore):
    """A store in memory that makes one change in each request, as a bucket does.

    A test that replaces or counts its verbs sees every change.
    """

    commit: Any = None


class StoreThatReadsAhead(MemoryStore):
    """A store in memory that reads two bodies with a listing, as Postgres does.

    Attributes:
        requests: The verb and the key of each request.
    """

    def __init__(self, clock: Callable[[], datetime] | None = None) -> None:
        super().__init__(clock)
        self.requests: list[tuple[str, str]] = []

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Create the object."""
        self.requests.append(("create", key))
        return await super().create(key, body)

    async def commit(self, changes: Changes) -> Committed:
        """Make several changes together."""
        self.requests.append(("commit", changes.key))
        return await super().commit(changes)

    async def read(self, key: str) -> bytes:
        """Return the body."""
        self.requests.append(("read", key))
        return await super().read(key)

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """Return a page of keys."""
        self.requests.append(("keys", prefix))
        return await super().keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        """Remove the key."""
        self.requests.append(("delete", key))
        await super().delete(key)

    async def keys_with_bodies(
        self, listing: Listing, first_of: str, last_of: str = ""
    ) -> Page:
        """Return a page of keys and two bodies."""
        page = Page(await self.keys(listing.prefix, listing.after, listing.limit))
        page.store_time = self._clock() if self._clock else None
        first = await super().keys(first_of, limit=1)
        last = (await super().keys(last_of))[-1:] if last_of else []
        page.bodies = {key: await MemoryStore.read(self, key) for key in first + last}
        return page


class StoreWithListingTime(MemoryStore):
    """A store in memory that tells a clock's time with creates and with listings."""

    time_resolution = timedelta(seconds=1)

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock.now)
        self._listing_clock = clock

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """Return a page with the time, in whole seconds as S3 has it."""
        page = Page(await super().keys(prefix, after, limit))
        page.store_time = self._listing_clock.now().replace(microsecond=0)
        return page


def keys_and_bodies(objects: dict[str, bytes]) -> list[bytes]:
    """Return the keys and bodies of a store, compressed bodies also decompressed."""
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - few tests need it
    else:
        from backports import zstd  # noqa: PLC0415 - few tests need it

    found = [key.encode() for key in objects]
    dictionary = zstd.ZstdDict(DICTIONARY, is_raw=True)
    for body in objects.values():
        found.append(body)
        # A version may carry another one in its header, so there may be two frames.
        for match in re.finditer(re.escape(ZSTD_MAGIC), body):
            frame = body[match.start() :]
            found.append(zstd.ZstdDecompressor(zstd_dict=dictionary).decompress(frame))
    assert len(found) > 2 * len(objects)
    return found
