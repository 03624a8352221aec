"""ULIDs: ids that sort by the time they were made (github.com/ulid/spec)."""

from __future__ import annotations

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME = 10
LENGTH = 26
RANDOM_BYTES = 10


class NotUlid(ValueError):
    """A text that is not a ULID."""


def ulid(milliseconds: int, randomness: bytes) -> str:
    """Return the ULID of a time and ten random bytes."""
    number = milliseconds << 80 | int.from_bytes(randomness, "big")
    digits = [_ALPHABET[number >> 5 * place & 31] for place in range(LENGTH)]
    return "".join(reversed(digits))


def milliseconds_of(text: str) -> int:
    """Return the time in a ULID; raises `NotUlid`."""
    places = [_ALPHABET.find(letter) for letter in text]
    # The first letter holds three bits: 48 bits of time in ten letters.
    if len(text) != LENGTH or min(places) < 0 or places[0] > 7:  # noqa: PLR2004 - the spec's own number
        msg = f"{text!r} is not a ULID"
        raise NotUlid(msg)
    number = 0
    for place in places[:_TIME]:
        number = number << 5 | place
    return number
