"""ULIDs: ids that sort by the time they were made (github.com/ulid/spec)."""

from __future__ import annotations

import re

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26
RANDOM_BYTES = 10
# The first ten characters hold 48 bits of time, so the first character is at most 7.
_ULID = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}\Z")
# The 32 digits that int(text, 32) reads, in place of those of a ULID.
_DIGITS = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")


class NotUlid(ValueError):
    """A text that is not a ULID."""


def encode_ulid(milliseconds: int, randomness: bytes) -> str:
    """Return the ULID of a time in milliseconds since 1970 and 10 random bytes."""
    number = milliseconds << 80 | int.from_bytes(randomness, "big")
    digits = [_ALPHABET[number >> 5 * place & 31] for place in range(LENGTH)]
    return "".join(reversed(digits))


def is_ulid(text: str) -> bool:
    """Return whether a text is a ULID."""
    return _ULID.match(text) is not None


def milliseconds_of(text: str) -> int:
    """Return the time of a ULID in milliseconds since 1970; raises `NotUlid`."""
    if not _ULID.match(text):
        msg = f"{text[:40]!r} is not a ULID: it needs {LENGTH} characters 0-9, a-z"
        raise NotUlid(msg)
    return int(text.translate(_DIGITS), 32) >> 8 * RANDOM_BYTES
