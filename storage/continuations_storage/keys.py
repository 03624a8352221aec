"""What a legal key is.

A key is one to many segments joined by "/". A segment is 1 to 255 bytes of
``[A-Za-z0-9._@=~-]`` and neither "." nor "..". A whole key is at most 900 bytes.
That is what every file system and every object store can hold as it is, without
escaping; 255 is the longest file name of ext4, XFS and APFS, and 900 stays below
S3's 1,024 with room for a store's own prefix.

All legal characters are ASCII, so the order of Python strings is byte order.
"""

from __future__ import annotations

import re

from continuations_storage.errors import InvalidKey

__all__ = [
    "MAX_KEY_LENGTH",
    "MAX_STORE_PREFIX_LENGTH",
    "check_key",
    "check_limit",
    "check_prefix",
    "check_store_prefix",
    "is_key",
    "is_segment",
]

MAX_KEY_LENGTH = 900
MAX_STORE_PREFIX_LENGTH = (
    123  # and a slash: together the 1,024 of an object's name in S3
)

_SEGMENT = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._@=~-]{1,255}")
_PARTIAL = re.compile(r"[A-Za-z0-9._@=~-]{0,255}")


def is_segment(name: str) -> bool:
    """Tell whether a name can stand between two slashes of a key."""
    return _SEGMENT.fullmatch(name) is not None


def is_key(text: str) -> bool:
    """Tell whether a text is a legal key."""
    return len(text) <= MAX_KEY_LENGTH and all(map(is_segment, text.split("/")))


def check_key(key: str) -> list[str]:
    """Return the segments of a legal key, or raise InvalidKey."""
    segments = key.split("/")
    if len(key) > MAX_KEY_LENGTH:
        raise InvalidKey(key, f"{len(key)} characters, at most {MAX_KEY_LENGTH}")
    for segment in segments:
        if not is_segment(segment):
            raise InvalidKey(key, f"segment {segment!r}")
    return segments


def check_store_prefix(prefix: str) -> None:
    """Refuse what cannot stand before every key of a store; nothing always can."""
    if prefix:
        check_key(prefix)
    if len(prefix) > MAX_STORE_PREFIX_LENGTH:
        detail = f"a store's prefix has at most {MAX_STORE_PREFIX_LENGTH} characters"
        raise InvalidKey(prefix, detail)


def check_prefix(prefix: str) -> tuple[list[str], str]:
    """Return a prefix's whole segments and the rest, or raise InvalidKey.

    A prefix is any beginning of a legal key: it may end inside a segment, with
    a slash, or be empty.
    """
    *folders, rest = prefix.split("/")
    if len(prefix) > MAX_KEY_LENGTH:
        raise InvalidKey(prefix, f"prefix of {len(prefix)}, at most {MAX_KEY_LENGTH}")
    for segment in folders:
        if not is_segment(segment):
            raise InvalidKey(prefix, f"prefix with the segment {segment!r}")
    if not _PARTIAL.fullmatch(rest):
        raise InvalidKey(prefix, f"prefix that ends in {rest!r}")
    return folders, rest


def check_limit(limit: int) -> None:
    """Refuse a page of no keys, which would look like the end of the list."""
    if limit < 1:
        raise ValueError(f"a page holds at least one key, not {limit}")
