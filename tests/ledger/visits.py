"""A store that lets somebody else act right before a request, chosen by its number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations_storage.contract import PAGE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from continuations_storage.contract import Store


class VisitedStore:
    """Passes all on to the inner store; before request `number` the visitor acts."""

    def __init__(
        self, inner: Store, number: int, visitor: Callable[[], Awaitable[object]]
    ) -> None:
        self.inner = inner
        self.number = number
        self.visitor = visitor
        self.requests = 0

    async def _next(self) -> None:
        self.requests += 1
        if self.requests == self.number:
            await self.visitor()

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body if the key is absent."""
        await self._next()
        return await self.inner.create(key, body)

    async def read(self, key: str) -> bytes:
        """Return the whole body."""
        await self._next()
        return await self.inner.read(key)

    async def keys(self, prefix: str, after: str = "", limit: int = PAGE) -> list[str]:
        """Return the first keys of a prefix."""
        await self._next()
        return await self.inner.keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        """Remove the key."""
        await self._next()
        await self.inner.delete(key)

    async def probe(self) -> None:
        """Let the inner store prove itself."""
        await self._next()
        await self.inner.probe()
