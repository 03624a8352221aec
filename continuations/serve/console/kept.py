"""Values that a process keeps, the oldest ones go first."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Kept(dict[str, T]):
    """Values by id, at most so many.

    Args:
        limit: The largest number of values.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def put(self, name: str, value: T) -> None:
        """Keep a value as the newest one."""
        self.pop(name, None)
        self[name] = value
        if len(self) > self._limit:
            del self[next(iter(self))]
