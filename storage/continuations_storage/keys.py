"""Valid keys and prefixes.

A key is one or more segments joined by "/". A segment is 1 to 255 characters of
``[A-Za-z0-9._@=~-]`` and neither "." nor "..". A whole key is at most 900 characters.
Every file system and every object store can hold such a key without escaping:

- 255 is the longest file name of ext4, XFS and APFS.
- 900 is below the 1,024 bytes of an S3 object name, with room for a store's prefix.

All valid characters are ASCII, so the order of Python strings is byte order.
"""

from __future__ import annotations

import re

from continuations_storage.errors import InvalidKey

__all__ = [
    "MAX_KEY_LENGTH",
    "MAX_STORE_PREFIX_LENGTH",
    "SEGMENT_CHARACTERS",
    "check_key",
    "check_limit",
    "check_prefix",
    "check_store_prefix",
    "is_key",
    "is_segment",
    "split_key",
    "split_prefix",
]

MAX_KEY_LENGTH = 900
# With a slash and the longest key: the 1,024 bytes of an S3 object name.
MAX_STORE_PREFIX_LENGTH = 123

SEGMENT_CHARACTERS = (
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@=~-"
)
# An error shows so much of a segment.
_SHOWN_CHARS = 60
_SEGMENT = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._@=~-]{1,255}")
_INVALID_CHARACTER = re.compile(r"[^A-Za-z0-9._@=~-]")
_PARTIAL = re.compile(r"[A-Za-z0-9._@=~-]{0,255}")


def is_segment(name: str) -> bool:
    """Return whether a name is a valid segment of a key."""
    return _SEGMENT.fullmatch(name) is not None


def is_key(text: str) -> bool:
    """Return whether a text is a valid key."""
    return len(text) <= MAX_KEY_LENGTH and all(map(is_segment, text.split("/")))


def check_key(key: str) -> None:
    """Raise InvalidKey unless the text is a valid key."""
    split_key(key)


def split_key(key: str) -> list[str]:
    """Return the segments of a valid key.

    Args:
        key: The key.

    Raises:
        InvalidKey: The text is not a valid key.
    """
    segments = key.split("/")
    if len(key) > MAX_KEY_LENGTH:
        raise InvalidKey(key, f"{len(key)} characters, at most {MAX_KEY_LENGTH}")
    for segment in segments:
        if not is_segment(segment):
            raise InvalidKey(key, _segment_problem(segment))
    return segments


def check_store_prefix(prefix: str) -> None:
    """Raise InvalidKey unless a store can put the prefix before every key.

    Args:
        prefix: The prefix of the whole store, without a slash at its end; "" for none.

    Raises:
        InvalidKey: The prefix is not a valid key, or is longer than 123 characters.
    """
    if prefix:
        check_key(prefix)
    if len(prefix) > MAX_STORE_PREFIX_LENGTH:
        detail = f"a store's prefix has at most {MAX_STORE_PREFIX_LENGTH} characters"
        raise InvalidKey(prefix, detail)


def check_prefix(prefix: str) -> None:
    """Raise InvalidKey unless some valid key can begin with the prefix."""
    split_prefix(prefix)


def split_prefix(prefix: str) -> tuple[list[str], str]:
    """Return the complete segments of a prefix, and the text behind the last slash.

    A prefix may end inside a segment or with a slash, or be empty.

    Args:
        prefix: The beginning of a valid key.

    Raises:
        InvalidKey: No valid key begins with the text.
    """
    *folders, rest = prefix.split("/")
    if len(prefix) > MAX_KEY_LENGTH:
        raise InvalidKey(prefix, f"prefix of {len(prefix)}, at most {MAX_KEY_LENGTH}")
    for segment in folders:
        if not is_segment(segment):
            raise InvalidKey(prefix, f"prefix with the {_segment_problem(segment)}")
    if not _PARTIAL.fullmatch(rest):
        raise InvalidKey(prefix, f"prefix that ends in {_shortened(rest)!r}")
    return folders, rest


def _segment_problem(segment: str) -> str:
    """Return why a segment is not valid; name its first invalid character, if any."""
    invalid = _INVALID_CHARACTER.search(segment)
    character = f" with the character {invalid[0]!r}" if invalid else ""
    return f"segment {_shortened(segment)!r}{character}"


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def check_limit(limit: int) -> None:
    """Raise ValueError for a limit below 1: an empty page means the end of the list."""
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}.")
