"""The contract that every store keeps: five verbs, and what a crash leaves behind.

A store maps keys to bodies. A body is created once and never changes; there is
no overwrite, so there is no update that could be lost. Anyone's store that passes
``continuations_storage.conformance`` can be used.

**create(key, body)** puts the body if the key is absent. Of any number of racing
creators, in one process or many, exactly one succeeds, the others get
`AlreadyExists`. When it returns, the body is durable: a power cut does not take
it back. Each call is one logical create with a fresh maker's id of its own, so a
store that asks again after a lost reply recognises its own body and reports
success. *A crash in the middle* leaves the whole body under the key or nothing
under it, never a part; it may leave debris that no verb shows (a temporary file,
an unfinished upload), which the store clears away later. A *cancelled* call is
like a crash: the body may land. After `Denied`, `Throttled`, `Unavailable` or
`InvalidKey` nothing was written; after `Inconclusive` it may have been.

**read(key)** gives the whole body or `NotFound`. It sees every create that
returned before it began. *A crash* leaves nothing, it never writes.

**keys(prefix, after, limit)** lists the first `limit` keys that begin with the
prefix and are greater than `after`, in byte order of whole keys. The prefix is a
prefix of text: "runs/a" lists "runs/ab/x". Every create that returned before the
call began is seen, every delete too; what happens meanwhile may be seen or not.
A page shorter than `limit` is the last one. *A crash* leaves nothing.

**delete(key)** removes the key; of a missing key it is a success. After it
returned the key can be created again, so delete nothing whose name could be
believed to be still free or still taken. *A crash* leaves the key or not.

**probe()** proves that this store honours put-if-absent and raises `Unsafe` if
not. What it proved it remembers in the store under ``probe/passed``. *A crash*
leaves one small key under ``probe/``, which means nothing.

What is a legal key is told in `continuations_storage.keys`. One more rule keeps
keys portable: no key is the folder of another ("a" and "a/b"). Stores that can
tell, refuse the second one with `InvalidKey`; an object store cannot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

__all__ = ["PAGE_SIZE", "Page", "Store", "all_keys"]

PAGE_SIZE = 1000  # what S3 lists in one request


class Page(list[str]):
    """Keys, and the store's own time when it listed them, if it tells that.

    A store may return one from `keys`: whoever has to compare clocks then need not
    create anything to learn the time.
    """

    store_time: datetime | None = None


class Store(Protocol):
    """A place for bodies that are created once; see the module for the promises."""

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put the body if the key is absent; durable when it returns.

        Returns the store's own time (aware, UTC) where the store has one.
        Raises AlreadyExists to all creators of a key but one.
        """
        ...

    async def read(self, key: str) -> bytes:
        """Return the whole body, or raise NotFound."""
        ...

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys with the prefix and greater than `after`, in order.

        The list may be a `Page`, which tells the store's own time.
        """
        ...

    async def delete(self, key: str) -> None:
        """Remove the key; succeeds also when there is none."""
        ...

    async def probe(self) -> None:
        """Prove that the store honours put-if-absent, or raise Unsafe."""
        ...


async def all_keys(store: Store, prefix: str, after: str = "") -> AsyncIterator[str]:
    """Go through every key with the prefix in byte order, page by page."""
    while True:
        page = await store.keys(prefix, after, PAGE_SIZE)
        for key in page:
            yield key
        if len(page) < PAGE_SIZE:
            return
        after = page[-1]
