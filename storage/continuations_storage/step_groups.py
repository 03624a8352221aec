"""Operations that wait at the same time are made together, in one thread.

An operation is a generator. It does what is quick, and yields the slow calls that must
end before it goes on: flushes, and removals of files. All operations of a group stop at
their slow calls. Then those of all go at the same time, a flush of one folder once.

With a thread for each operation, every system call hands the interpreter to another
thread. Sixteen creates at a time then spent more time on that than on their work.
"""

from __future__ import annotations

import threading
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, cast

from continuations_storage.fork_safety import PerProcess
from continuations_storage.thread_pool import (
    AwaitedResult,
    DaemonThreadPool,
    deliver_together,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from typing import TypeAlias

    # A function and the descriptor for it; two that are equal are made once.
    SlowCall: TypeAlias = tuple[Callable[[int], None], int]

__all__ = ["StepGroups", "flush_together"]

T = TypeVar("T")

_MAX_GROUP = 32
# Not the threads that make the groups: those wait for these.
_flushers = DaemonThreadPool(_MAX_GROUP, "continuations-flush")


class StepGroups:
    """The operations of one store, in groups: all that wait when a group begins.

    Args:
        pool: Its threads make the groups, one group at a time.
        slow_calls: Its threads make the slow calls of a group, at the same time.
    """

    def __init__(
        self, pool: DaemonThreadPool, slow_calls: DaemonThreadPool | None = None
    ) -> None:
        self._pool = pool
        self._slow_calls = slow_calls or _flushers
        self._waiting = PerProcess(_Waiting)  # its thread does not survive a fork

    async def run(self, steps: Generator[Sequence[SlowCall], None, T]) -> T:
        """Make an operation, and return its result.

        After a cancellation, an operation that has not begun is not made; one that has
        begun goes on to its end.

        Raises:
            Exception: The exception of the operation.
        """
        operation = _Operation(steps)
        waiting = self._waiting()
        try:
            if waiting.add(operation):
                # Later, so that the operations of all tasks that are ready now are in
                # the group. A thread beside these tasks takes the interpreter at each
                # of its system calls.
                operation.loop.call_soon(self._start_group, waiting)
        except BaseException:  # Ctrl-C, for example
            operation.future.cancel()  # so it is not made
            raise
        return cast("T", await operation.future)

    def _start_group(self, waiting: _Waiting) -> None:
        """Give the waiting operations to a thread, unless one works on them."""
        work = _GroupWork(self._pool, self._slow_calls, waiting)
        try:
            if waiting.begins():
                self._pool.start(work)
        except BaseException:  # Ctrl-C, for example
            self._pool.start(work)  # a second thread does no harm
            raise


class _Operation(AwaitedResult):
    """An operation whose result an event loop awaits.

    Attributes:
        slow_calls: They must end before the next step; None after the last step.
    """

    def __init__(self, steps: Generator[Sequence[SlowCall], None, Any]) -> None:
        super().__init__()
        self._steps = steps
        self.slow_calls: Sequence[SlowCall] | None = ()

    def begins(self) -> bool:
        """Return whether to make the operation: it is not cancelled."""
        if self.future.cancelled():
            self._steps.close()
            return False
        return True

    def advance(self, errors: Mapping[SlowCall, BaseException]) -> None:
        """Make the next step, after the slow calls have ended or raised an error."""
        failed = [errors[each] for each in self.slow_calls or () if each in errors]
        try:
            if failed:
                self.slow_calls = self._steps.throw(failed[0])
            else:
                self.slow_calls = next(self._steps)
        except StopIteration as end:
            self.result, self.slow_calls = end.value, None
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            self.error, self.slow_calls = error, None


class _Waiting:
    """The operations of one process that no group has yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._operations: list[_Operation] = []
        self._is_worked_on = False

    def add(self, operation: _Operation) -> bool:
        """Add an operation; return whether no thread works on these operations."""
        with self._lock:
            self._operations.append(operation)
            return not self._is_worked_on

    def begins(self) -> bool:
        """Return whether the caller must start a thread."""
        with self._lock:
            start = bool(self._operations) and not self._is_worked_on
            self._is_worked_on |= start
        return start

    def next_group(self) -> list[_Operation]:
        """Remove and return a group."""
        with self._lock:
            group = self._operations[:_MAX_GROUP]
            del self._operations[:_MAX_GROUP]
        return group

    def goes_on(self) -> bool:
        """Return whether operations wait; if none does, the thread ends its work."""
        with self._lock:
            goes_on = self._is_worked_on = bool(self._operations)
        return goes_on


class _GroupWork:
    """The work of a thread: one group. Other work of the pool goes before the next."""

    def __init__(
        self, pool: DaemonThreadPool, slow_calls: DaemonThreadPool, waiting: _Waiting
    ) -> None:
        self._pool = pool
        self._slow_calls = slow_calls
        self._waiting = waiting

    def run(self) -> None:
        _make_group(self._waiting.next_group(), self._slow_calls)

    def deliver(self) -> None:
        """Queue the next group; each operation has delivered its own result."""
        if self._waiting.goes_on():
            self._pool.start(self)


def _make_group(group: Sequence[_Operation], pool: DaemonThreadPool) -> None:
    """Make the steps of a group; results of the same step are delivered together."""
    going = [each for each in group if each.begins()]
    errors: Mapping[SlowCall, BaseException] = {}
    while going:
        for each in going:
            each.advance(errors)
        deliver_together([each for each in going if each.slow_calls is None])
        going = [each for each in going if each.slow_calls is not None]
        errors = _make_together(
            chain.from_iterable(each.slow_calls or () for each in going), pool
        )


def flush_together(flushes: Iterable[SlowCall]) -> None:
    """Make flushes at the same time: the system then needs one write for all.

    Raises:
        Exception: The error of one of them.
    """
    for error in _make_together(flushes, _flushers).values():
        raise error


def _make_together(
    calls: Iterable[SlowCall], pool: DaemonThreadPool
) -> dict[SlowCall, BaseException]:
    """Make slow calls at the same time; return the errors."""
    errors: dict[SlowCall, BaseException] = {}

    def make(call: SlowCall) -> None:
        function, descriptor = call
        try:
            function(descriptor)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            errors[call] = error

    pool.run_together([partial(make, each) for each in dict.fromkeys(calls)])
    return errors
