"""A store, by default in memory, that counts requests and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations_storage.contract import PAGE_SIZE
from continuations_storage.faults import ForwardingStore
from continuations_storage.memory import MemoryStore

if TYPE_CHECKING:
    from datetime import datetime

    from continuations_storage import Store


class CountingStore(ForwardingStore):
    """Counts the requests, the bytes written and the bytes stored."""

    def __init__(self, store: Store | None = None) -> None:
        super().__init__(store or MemoryStore())
        self.bytes_written = 0
        self.creates = 0
        self.reads = 0
        self.misses = 0
        self.listings = 0
        self.sizes: dict[str, int] = {}

    @property
    def stored_bytes(self) -> int:
        """The bytes of all objects in the store."""
        return sum(self.sizes.values())

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Create an object and count it."""
        store_time = await super().create(key, body)
        self.creates += 1
        self.bytes_written += len(body)
        self.sizes[key] = len(body)
        return store_time

    async def read(self, key: str) -> bytes:
        """Return the body; a missing key is counted separately."""
        self.misses += key not in self.sizes
        self.reads += key in self.sizes
        return await super().read(key)

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return one page of keys and count the request."""
        self.listings += 1
        return await super().keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        """Delete the object."""
        self.sizes.pop(key, None)
        await super().delete(key)

    async def probe(self) -> None:
        """Do nothing: the requests of a probe are not counted."""
