"""From a URL to a store: ``file:path``, ``memory:`` and ``memory:name``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations_storage.errors import Unsupported

if TYPE_CHECKING:
    from continuations_storage.contract import Store
    from continuations_storage.memory import MemoryStore

__all__ = ["open_store"]

_named: dict[str, MemoryStore] = {}


def open_store(url: str) -> Store:
    """Open the store that a URL names; opening touches neither disk nor network.

    ``file:path`` (relative or absolute, taken literally, also ``file:///path``),
    ``memory:`` (a new one each time), ``memory:name`` (one for each name in this
    process). Anything else raises Unsupported.
    """
    scheme, colon, place = url.partition(":")
    if not colon:
        raise Unsupported(url, f"no scheme; for a folder write 'file:{url}'")
    match scheme:
        case "file":
            return _open_files(url, place)
        case "memory":
            return _open_memory(place)
        case "s3":
            raise Unsupported(url, "this version has no S3 store")
        case _:
            raise Unsupported(url, f"unknown scheme {scheme!r}")


def _open_files(url: str, place: str) -> Store:
    from continuations_storage.files import FileStore  # noqa: PLC0415 -- path = price

    if place.startswith("//"):
        host, slash, path = place[2:].partition("/")
        if host not in {"", "localhost"}:
            raise Unsupported(url, f"files of another host, {host!r}")
        place = slash + path
    if not place:
        raise Unsupported(url, "no path")
    return FileStore(place)


def _open_memory(name: str) -> Store:
    from continuations_storage.memory import MemoryStore  # noqa: PLC0415 -- likewise

    if not name:
        return MemoryStore()
    # setdefault and not check-then-set: two threads must get the same one.
    return _named.setdefault(name, MemoryStore())
