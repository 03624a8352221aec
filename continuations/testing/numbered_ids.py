"""Ids that count, so that a test sees the same ids each time."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LENGTH = 26
_NUMBER_BITS = 80


class NumberedIds:
    """A source of ids that are numbered 1, 2, 3 …: pass it as `ids=` to a runner.

    The ids are ULIDs of the clock's time. Their last part is the number. All
    runners that share a store must share the source, because an id must never repeat.
    Do not use it outside tests: anyone can guess the next id.
    """

    def __init__(self) -> None:
        self._numbers = count(1)

    def new_ulid(self, now: datetime) -> str:
        """Return the next id.

        Args:
            now: The time of the id, with a time zone.

        Returns:
            A ULID in lower case.
        """
        # `next` of a counter is atomic, so threads may share the source.
        milliseconds = round(now.timestamp() * 1000)
        value = milliseconds << _NUMBER_BITS | next(self._numbers)
        places = reversed(range(_LENGTH))
        return "".join(_ALPHABET[value >> 5 * place & 31] for place in places)
