"""ULIDs: ids that sort by the time they were made (github.com/ulid/spec)."""

from __future__ import annotations

import re

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 26
RANDOM_BYTES = 10
# 48 bits of time in the first ten letters: the first of them holds three.
_ULID = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}\Z")
# What int() takes for the same 32 digits.
_DIGITS = str.maketrans(_ALPHABET, "0123456789abcdefghijklmnopqrstuv")


class NotUlid(ValueError):
    """A text that is not a ULID."""


def encode_ulid(milliseconds: int, randomness: bytes) -> str:
    """Return the ULID of a time and ten random bytes."""
    number = milliseconds << 80 | int.from_bytes(randomness, "big")
    digits = [_ALPHABET[number >> 5 * place & 31] for place in range(LENGTH)]
    return "".join(reversed(digits))


def milliseconds_of(text: str) -> int:
    """Return the time in a ULID; raises `NotUlid`."""
    if not _ULID.match(text):
        msg = f"{text[:40]!r} is not a ULID"
        raise NotUlid(msg)
    return int(text.translate(_DIGITS), 32) >> 8 * RANDOM_BYTES
