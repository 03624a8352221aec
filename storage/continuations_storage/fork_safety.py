"""What must not cross a fork: connections, and whatever holds a lock."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from continuations_storage.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PerProcess", "SingleProcessGuard"]

T = TypeVar("T")


class PerProcess(Generic[T]):
    """One value for each process, made when it first asks; safe to ask from threads.

    What another process made is kept but never touched: closing a connection there
    would say goodbye on a line that the other one still uses.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._slots: dict[int, _Slot[T]] = {}

    def __call__(self) -> T:
        """Return this process's value."""
        # A lock for each process: one held while the process forked is held in the
        # child for ever. setdefault is atomic, so two threads get the same slot.
        process = os.getpid()
        slot = self._slots.get(process)
        if slot is None:
            slot = self._slots.setdefault(process, _Slot())
        with slot.lock:
            if not slot.values:
                slot.values.append(self._make())
        return slot.values[0]


class _Slot(Generic[T]):
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values: list[T] = []


class SingleProcessGuard:
    """Lets the first process in that comes, and no child that it has meanwhile."""

    def __init__(self, resource: str, advice: str) -> None:
        self._refusal = (
            f"{resource} was in use when this process was forked off; {advice}"
        )
        self._process: int | None = None

    def check_process(self) -> None:
        """Raise Unavailable in every other process."""
        if self._process is None:
            self._process = os.getpid()
        if self._process != os.getpid():
            raise Unavailable(None, self._refusal)
