"""A store that lets a rival act before one request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from continuations_storage.contract import PAGE_SIZE, Store


class InterleavingStore:
    """Passes operations on; before request `number` the visitor acts."""

    def __init__(
        self,
        inner: Store,
        before_request: int,
        other_actor: Callable[[], Awaitable[object]],
    ) -> None:
        self.inner = inner
        self.before_request = before_request
        self.other_actor = other_actor
        self.request_count = 0

    async def _count_request(self) -> None:
        self.request_count += 1
        if self.request_count == self.before_request:
            await self.other_actor()

    async def create(self, key: str, body: bytes) -> datetime | None:
        await self._count_request()
        return await self.inner.create(key, body)

    async def read(self, key: str) -> bytes:
        await self._count_request()
        return await self.inner.read(key)

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        await self._count_request()
        return await self.inner.keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        await self._count_request()
        await self.inner.delete(key)

    async def probe(self) -> None:
        await self._count_request()
        await self.inner.probe()
