"""Stores for bodies that are created once and never change.

`open_store` opens a folder, memory, an S3 bucket, a Google Cloud Storage bucket or an
Azure container by its URL. `continuations_storage.contract` states what every store
promises.

PYTEST_DONT_REWRITE: the package may be imported before pytest, for its plugin.
"""

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
from continuations_storage.files import FileStore
from continuations_storage.memory import MemoryStore
from continuations_storage.sync import SyncStore
from continuations_storage.url import open_store

__all__ = [
    "AlreadyExists",
    "Damaged",
    "Denied",
    "FileStore",
    "Inconclusive",
    "InvalidKey",
    "MemoryStore",
    "NotFound",
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
