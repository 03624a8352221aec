"""Values and calls that must not go across a fork: connections, locks, C libraries."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from continuations_storage.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ForkGate", "PerProcess", "SingleProcessGuard"]

T = TypeVar("T")


class PerProcess(Generic[T]):
    """One value for each process, made at its first call; safe in threads.

    The value of the parent process is kept but never used or closed: to close a
    connection here would end one that the parent still uses.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._slots: dict[int, _Slot[T]] = {}

    def __call__(self) -> T:
        """Return this process's value."""
        # One lock for each process: a lock that is held during a fork stays held in
        # the child. setdefault is atomic, so two threads get the same slot.
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


class ForkGate:
    """Lets no fork happen while another thread is in a `with` block of the gate.

    For a C library with locks of its own: a lock that a thread holds during a fork
    stays held in the child. A fork waits for the blocks, `max_wait` at most: a flush to
    a busy disk may take seconds. A child that was forked without the end of all blocks
    cannot use the library, and says so.

    Args:
        max_wait: Seconds.
    """

    def __init__(self, max_wait: float = 30) -> None:
        self._max_wait = max_wait
        self._is_broken = False
        self._begin()
        os.register_at_fork(
            before=self._close,
            after_in_parent=self._open,
            after_in_child=self._begin_child,
        )

    def __enter__(self) -> None:
        """Wait while a thread forks.

        Raises:
            Unavailable: A thread held a lock when this process was forked.
        """
        if self._is_broken:
            detail = "a thread of the parent held a lock when this process was forked"
            raise Unavailable(None, detail, advice="Start a new process.")
        with self._changed:
            self._changed.wait_for(lambda: not self._forks)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._inside = self._forks = 0

    def _begin_child(self) -> None:
        self._is_broken |= bool(self._inside)
        self._begin()

    def _close(self) -> None:
        with self._changed:
            self._forks += 1
            self._changed.wait_for(lambda: not self._inside, timeout=self._max_wait)

    def _open(self) -> None:
        with self._changed:
            self._forks -= 1
            self._changed.notify_all()


class SingleProcessGuard:
    """Allows only the first process that calls it, and none of its children."""

    def __init__(self, resource: str, advice: str) -> None:
        self._refusal = (
            f"{resource} was in use before this process was forked; {advice}"
        )
        self._process: int | None = None

    def check_process(self) -> None:
        """Raise Unavailable in every other process."""
        if self._process is None:
            self._process = os.getpid()
        if self._process != os.getpid():
            raise Unavailable(None, self._refusal)
