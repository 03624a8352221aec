"""The store as the ledger sees it: the same verbs, with errors of our own.

`AlreadyExists` and `NotFound` pass through, they are answers and the ledger acts on
them; everything else is a failure, and gets a name and a next step.
"""

from __future__ import annotations

from os import PathLike, fspath
from typing import TYPE_CHECKING, cast

from continuations.errors import (
    Corrupt,
    Inconclusive,
    InvalidId,
    InvalidInput,
    StoreDenied,
    StoreError,
    StoreUnavailable,
    StoreUnsafe,
)
from continuations_storage import errors as storage
from continuations_storage.contract import PAGE_SIZE
from continuations_storage.url import open_store as storage_open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine
    from datetime import datetime
    from typing import Any, TypeVar, Unpack

    from continuations_storage.contract import Store
    from continuations_storage.url import S3Options

    T = TypeVar("T")

AlreadyExists = storage.AlreadyExists
NotFound = storage.NotFound

_ERROR_CLASSES: tuple[tuple[type[storage.StorageError], type[Exception]], ...] = (
    (storage.Denied, StoreDenied),
    (storage.Throttled, StoreUnavailable),
    (storage.Unavailable, StoreUnavailable),
    (storage.Inconclusive, Inconclusive),
    (storage.Damaged, Corrupt),
    (storage.Unsafe, StoreUnsafe),
    (storage.InvalidKey, InvalidId),
)


def open_store(url: str, **options: Unpack[S3Options]) -> Store:
    """Return the store of a URL: `file:path`, `memory:name`, `s3://bucket/prefix`.

    `options` are for S3 alone: `endpoint`, `region`, `profile`, `path_style`,
    `kms_key_id`, `checksums`, a ready-made `client`, `timeout` in seconds, and
    `driver`, "boto3" or "obstore" (an extra). What is left out goes by the
    environment. Opening touches neither disk nor network. Raises `InvalidInput` for
    what is no store.
    """
    try:
        if "\0" in url or not url.isprintable():
            raise storage.Unsupported(url, "it has characters that no path has")
        return storage_open_store(url, **options)
    except storage.StorageError as error:
        raise InvalidInput(str(error)) from None
    except (RecursionError, TypeError, ValueError) as error:
        msg = f"{str(url)[:80]!r} names no store: {type(error).__name__}"
        raise InvalidInput(msg) from None


def to_store(store_or_url: object) -> Store:
    """Return a store that was given by its URL, its folder or itself.

    Raises `InvalidInput` for anything else.
    """
    if isinstance(store_or_url, str):
        return open_store(store_or_url)
    if isinstance(store_or_url, PathLike):
        return open_store(f"file:{fspath(cast('PathLike[str]', store_or_url))}")
    verbs = ("create", "read", "keys", "delete", "probe")
    if all(callable(getattr(store_or_url, verb, None)) for verb in verbs):
        return cast("Store", store_or_url)
    msg = (
        f"A {type(store_or_url).__name__} is no store. Give a URL (file:path, s3://bucket), a "
        "path, or an object with the verbs of continuations_storage.Store."
    )
    raise InvalidInput(msg)


class Objects:
    """The verbs of a store, raising this library's errors."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def create(self, key: str, body: bytes) -> datetime | None:
        """Put an object if its key is free; raises `AlreadyExists` if it is not."""
        return await _translate_errors(self.store.create(key, body))

    async def read(self, key: str) -> bytes:
        """Return an object; raises `NotFound`."""
        return await _translate_errors(self.store.read(key))

    async def keys(
        self, prefix: str, after: str = "", limit: int = PAGE_SIZE
    ) -> list[str]:
        """Return the first keys of a prefix."""
        return await _translate_errors(self.store.keys(prefix, after, limit))

    async def all_keys(self, prefix: str, after: str = "") -> AsyncIterator[str]:
        """Go through every key of a prefix that sorts after one, page by page."""
        while True:
            page = await self.keys(prefix, after)
            for key in page:
                yield key
            if len(page) < PAGE_SIZE:
                return
            after = page[-1]

    async def delete(self, key: str) -> None:
        """Remove an object; a missing one is a success."""
        await _translate_errors(self.store.delete(key))

    async def probe(self) -> None:
        """Prove that the store honours put-if-absent; raises `StoreUnsafe`."""
        await _translate_errors(self.store.probe())


async def _translate_errors(operation: Coroutine[Any, Any, T]) -> T:
    try:
        return await operation
    except (storage.AlreadyExists, storage.NotFound):
        raise
    except storage.StorageError as error:
        for theirs, ours in _ERROR_CLASSES:
            if isinstance(error, theirs):
                raise ours(str(error)) from error
        raise StoreError(str(error)) from error
