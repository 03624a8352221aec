"""Stores for bodies that are created once and never change.

`open_store` opens a folder, an SQLite file, memory, an S3 bucket, a Google Cloud
Storage bucket or an Azure container by its URL. `continuations_storage.contract` states
what every store promises. The class of a store is imported when it is first used.

PYTEST_DONT_REWRITE: the package may be imported before pytest, for its plugin.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from continuations_storage.contract import Store, all_keys
from continuations_storage.errors import (
    AlreadyExists,
    Damaged,
    Denied,
    Inconclusive,
    InvalidKey,
    NotFound,
    StorageError,
    Throttled,
    Unavailable,
    Unsafe,
    Unsupported,
)
from continuations_storage.url import open_store

if TYPE_CHECKING:
    from continuations_storage.files import FileStore
    from continuations_storage.memory import MemoryStore
    from continuations_storage.sqlite import SQLiteStore
    from continuations_storage.sync import SyncStore

__all__ = [
    "AlreadyExists",
    "Damaged",
    "Denied",
    "FileStore",
    "Inconclusive",
    "InvalidKey",
    "MemoryStore",
    "NotFound",
    "SQLiteStore",
    "StorageError",
    "Store",
    "SyncStore",
    "Throttled",
    "Unavailable",
    "Unsafe",
    "Unsupported",
    "all_keys",
    "open_store",
]

_STORES = {
    "FileStore": "files",
    "MemoryStore": "memory",
    "SQLiteStore": "sqlite",
    "SyncStore": "sync",
}


def __getattr__(name: str) -> Any:
    module_name = _STORES.get(name)
    if module_name is None:
        msg = f"module 'continuations_storage' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(f"continuations_storage.{module_name}"), name)
    globals()[name] = value
    return value
