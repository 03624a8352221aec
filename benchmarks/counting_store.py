"""A store that counts what is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations_storage.contract import PAGE_SIZE
from continuations_storage.memory import MemoryStore

if TYPE_CHECKING:
    from datetime import datetime


class CountingStore:
    """Keeps bodies in memory; counts verbs, bytes and what stands there."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self.bytes_written = 0
        self.creates = 0
        self.reads = 0
        self.misses = 0
        self.listings = 0
        self.sizes: dict[str, int] = {}

    @property
    def stored_bytes(self) -> int:
        """The bytes that stand in the store."""
        return sum(self.sizes.values())

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body and count it."""
        told = await self._store.create(key, body)
        self.creates += 1
        self.bytes_written += len(body)
        self.sizes[key] = len(body)
        return told

    async def read(self, key: str) -> bytes:
        """Return the body; what is not there is counted apart."""
        self.misses += key not in self.sizes
        self.reads += key in self.sizes
        return await self._store.read(key)

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return one page and count it."""
        self.listings += 1
        return await self._store.keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        """Remove the key."""
        self.sizes.pop(key, None)
        await self._store.delete(key)

    async def probe(self) -> None:
        """Prove nothing: the memory store is known."""
