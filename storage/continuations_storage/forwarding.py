"""A base class for stores that pass their operations on to another store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations_storage.contract import (
    PAGE_SIZE,
    created_at,
    listing_size,
    missing_folder,
    time_resolution,
    watch,
)

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime, timedelta

    from continuations_storage.contract import Store, Watch

__all__ = ["ForwardingStore"]


class ForwardingStore:
    """A store with the operations and the optional attributes of another store.

    A subclass overrides the operations that it changes.

    Args:
        inner: The store.

    Attributes:
        inner: The wrapped store.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    @property
    def time_resolution(self) -> timedelta:
        """The resolution of the inner store's time."""
        return time_resolution(self.inner)

    @property
    def listing_size(self) -> int:
        """The number of keys to ask the inner store for in a long listing."""
        return listing_size(self.inner)

    @property
    def missing_folder(self) -> str | None:
        """The folder of the inner store, if the folder does not exist."""
        return missing_folder(self.inner)

    def watch(self, prefix: str) -> AbstractAsyncContextManager[Watch] | None:
        """Watch the creates of the inner store.

        Args:
            prefix: The beginning of the keys.

        Returns:
            A block in which keys are watched; `None` if the inner store has no watch.
        """
        return watch(self.inner, prefix)

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body if the key is absent."""
        return await self.inner.create(key, body)

    async def created_at(self, key: str) -> datetime | None:
        """Return the inner store's time of a create.

        Args:
            key: The key of the object.

        Returns:
            The time; `None` if the inner store does not tell it.
        """
        return await created_at(self.inner, key)

    async def read(self, key: str) -> bytes:
        """Return the whole body."""
        return await self.inner.read(key)

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys of a prefix."""
        return await self.inner.keys(prefix, after, limit)

    async def delete(self, key: str) -> None:
        """Remove the key."""
        await self.inner.delete(key)

    async def probe(self) -> None:
        """Probe the inner store."""
        await self.inner.probe()
