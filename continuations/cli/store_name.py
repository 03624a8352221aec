"""Name a store for people, as its URL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from continuations_storage import FileStore, MemoryStore

if TYPE_CHECKING:
    from continuations_storage import Store

_REPR = re.compile(r"<\w+ (.*)>", re.DOTALL)


def store_name(store: Store) -> str:
    """Return the URL of a store, or its repr if that contains no URL."""
    if isinstance(store, MemoryStore):
        return "memory:"
    # The repr names the place and never contains credentials.
    text = _place(store)
    if isinstance(store, FileStore):
        return f"file:{text}"
    return text if "://" in text else repr(store)


def _place(store: Store) -> str:
    match = _REPR.fullmatch(repr(store))
    return repr(store) if match is None else match[1]
