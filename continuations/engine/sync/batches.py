"""Asynchronous iterators that also yield their items in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

T = TypeVar("T")
ONLY_ASYNC = (
    "an asynchronous iterator cannot be read with `for`: nothing was read. Write "
    "`async for`, or use Runner in place of AsyncRunner."
)
_BATCH_SIZE = 1000


class Flattened(Generic[T]):
    """Iterates over the items of batches.

    Attributes:
        batches: The batches. Use either them or the items.
    """

    def __init__(self, batches: AsyncIterator[list[T]]) -> None:
        self.batches = batches
        self._items = self._flatten()

    if not TYPE_CHECKING:

        def __iter__(self) -> Iterator[T]:
            """Name the remedy; type checkers see the mistake by themselves."""
            raise InvalidInput(ONLY_ASYNC)

    def __aiter__(self) -> AsyncIterator[T]:
        """Return the iterator over the items."""
        return self._items

    async def __anext__(self) -> T:
        """Return the next item."""
        return await anext(self._items)

    async def _flatten(self) -> AsyncIterator[T]:
        async for batch in self.batches:
            for item in batch:
                yield item


async def in_batches(items: AsyncIterator[T]) -> AsyncIterator[list[T]]:
    """Iterate over the items in lists of a thousand."""
    batch: list[T] = []
    async for item in items:
        batch.append(item)
        if len(batch) == _BATCH_SIZE:
            yield batch
            batch = []
    if batch:
        yield batch
