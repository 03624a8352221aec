"""The listing of keys with obstore, and the part of its stores that is used here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from continuations_storage.contract import PAGE_SIZE
from continuations_storage.errors import Unsafe
from continuations_storage.keys import is_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["Listing", "ObstoreClient", "folder_of", "list_keys"]

# The characters of a segment in byte order.
_ALPHABET = "".join(
    filter(re.compile(r"[A-Za-z0-9._@=~-]").match, map(chr, range(128)))
)


class ObstoreClient(Protocol):
    """The part of obstore's stores that is used here."""

    put: Callable[..., Any]
    get: Callable[..., Any]
    head: Callable[..., Any]
    delete: Callable[..., Any]
    list: Callable[..., Iterator[Sequence[Mapping[str, Any]]]]


@dataclass(slots=True, kw_only=True)
class Listing:
    """The keys of a listing; `last` and `number_of_names` count other names too.

    A listing that ends after a multiple of whole pages may lack its last page: obstore
    takes a page that is not of a store for an empty one.
    """

    keys: list[str] = field(default_factory=list[str])
    last: str = ""
    number_of_names: int = 0
    may_end_too_early: bool = False


def folder_of(key: str) -> str:
    """Return the folder of a key with a slash at the end, or "" for the root.

    The folder of a folder is its parent.
    """
    return key[: key.rstrip("/").rfind("/") + 1]


def list_keys(
    client: ObstoreClient, folder: str, prefix: str, after: str, limit: int
) -> Listing:
    """List the first keys of a prefix.

    Args:
        client: The store of obstore.
        folder: The folder that the server lists; the prefix begins with it.
        prefix: The beginning of the keys.
        after: Return only keys that are greater than this text.
        limit: The number of keys, at least 1.

    Raises:
        Unsafe: The names are not in order.
    """
    offset = max(after, _listing_offset(prefix))
    listed = Listing()
    # obstore takes a prefix of whole segments; the rest is filtered here.
    for chunk in client.list(
        folder.rstrip("/") or None, offset=offset or None, chunk_size=PAGE_SIZE
    ):
        for item in chunk:
            name = item["path"]
            if listed.number_of_names and name <= listed.last:
                raise Unsafe(None, f"listed {name!r} after {listed.last!r}")
            listed.last = name
            listed.number_of_names += 1
            if name > after and name.startswith(prefix) and is_key(name):
                listed.keys.append(name)
            if len(listed.keys) == limit:
                return listed
        if listed.last > prefix and not listed.last.startswith(prefix):
            return listed
    listed.may_end_too_early = listed.number_of_names % PAGE_SIZE == 0
    return listed


def _listing_offset(prefix: str) -> str:
    """Return a text that sorts before the keys of a prefix, but after most others."""
    if not prefix or prefix.endswith("/"):
        return prefix.removesuffix("/")
    rest, place = prefix[:-1], _ALPHABET.index(prefix[-1])
    return f"{rest}{_ALPHABET[place - 1]}~~~" if place else rest.rstrip("/")
