"""Daemon threads for blocking functions.

The pools of `concurrent.futures` do not fit, for two reasons:

- They close when the main thread ends, while other threads still work. The results of
  these threads could then not be stored.
- The interpreter waits at exit for every pool thread, also for one that hangs in a lost
  connection. It does not wait for daemon threads.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["AwaitedResult", "DaemonThreadPool", "PoolCall", "deliver_together"]

T = TypeVar("T")


class DaemonThreadPool:
    """A pool of threads that are started when they are needed, and then kept.

    Each kind of store has one pool, not each store object. If all threads are busy,
    functions wait in a queue.

    Args:
        max_threads: The most threads of one process.
        name: The name of the threads.

    Attributes:
        name: The name of the threads.
    """

    def __init__(self, max_threads: int, name: str) -> None:
        self._max_threads = max_threads
        self.name = name
        self._process_pool = _ProcessThreads()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run a blocking function in a thread, and return its result.

        After a cancellation, a function that has not begun does not run; one that has
        begun runs to its end.

        Raises:
            Exception: The exception of the function.
        """
        # Not a `concurrent.futures.Future`: its locks and its callbacks in the event
        # loop took a third of the time of a call.
        call = _AwaitedCall(partial(function, *args))
        self.start(call)
        return cast("T", await call.future)

    def run_together(self, functions: Sequence[Callable[[], None]]) -> None:
        """Run blocking functions at the same time, the last one in this thread.

        Returns when all of them have ended.

        Raises:
            Exception: The exception of one of the functions.
        """
        calls = [_JoinedCall(function) for function in functions[:-1]]
        for call in calls:
            self.start(call)
        try:
            for function in functions[-1:]:
                function()
        finally:
            errors = [call.wait() for call in calls]
        for error in filter(None, errors):
            raise error

    def start(self, call: PoolCall) -> None:
        """Let a thread run a call as soon as one is free."""
        if self._process_pool.pid != os.getpid():
            self._process_pool = _ProcessThreads()  # threads do not survive a fork
        self._process_pool.submit(call, self._max_threads, self.name)


class PoolCall(Protocol):
    """A function that a thread of the pool runs. Its methods do not raise."""

    def run(self) -> None:
        """Run the function, and keep its result or error."""
        ...

    def deliver(self) -> None:
        """Give the result to the caller."""
        ...


class AwaitedResult:
    """A result or an error that comes from a thread, and that an event loop awaits.

    Attributes:
        loop: The event loop.
        future: The future that the event loop awaits.
        result: The result, set by the thread.
        error: The error, set by the thread.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.result: Any = None
        self.error: BaseException | None = None
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def deliver(self) -> None:
        """Give the result or the error to the event loop."""
        deliver_together([self])

    def settle(self) -> None:
        """End the future; called by the event loop."""
        if self.future.done():
            return  # cancelled meanwhile
        if self.error is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.error)


def deliver_together(results: Iterable[AwaitedResult]) -> None:
    """Give results to their event loops. Each loop is woken once.

    To wake a loop is a system call, in which another thread takes the interpreter.
    """
    by_loop: dict[asyncio.AbstractEventLoop, list[AwaitedResult]] = {}
    for each in results:
        by_loop.setdefault(each.loop, []).append(each)
    for loop, ended in by_loop.items():
        with suppress(RuntimeError):  # the loop is closed: no caller waits
            loop.call_soon_threadsafe(_settle_all, ended)


def _settle_all(results: Iterable[AwaitedResult]) -> None:
    for each in results:
        each.settle()


class _AwaitedCall(AwaitedResult):
    """A function whose result an event loop awaits."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__()
        self._function = function

    def run(self) -> None:
        if self.future.cancelled():
            return
        try:
            self.result = self._function()
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            self.error = error


class _JoinedCall:
    """A call that another thread waits for."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._error: BaseException | None = None
        self._end = threading.Lock()
        self._end.acquire()

    def run(self) -> None:
        try:
            self._function()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error

    def deliver(self) -> None:
        self._end.release()

    def wait(self) -> BaseException | None:
        """Wait for the end, and return the error of the function."""
        self._end.acquire()
        return self._error


class _ProcessThreads:
    """The threads of one process and their queue."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._queue: SimpleQueue[PoolCall] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0

    def submit(self, call: PoolCall, max_threads: int, name: str) -> None:
        """Queue a call; start one more thread if none is free."""
        with self._lock:
            self._unfinished += 1
            start = self._threads < min(self._unfinished, max_threads)
            self._threads += start
            self._queue.put(call)
        if start:
            self._start_thread(name)

    def _start_thread(self, name: str) -> None:
        try:
            threading.Thread(target=self._run_calls, name=name, daemon=True).start()
        except RuntimeError:
            # The system allows no more threads. The other threads run the function. If
            # the pool has no other thread, the calling thread runs all that wait.
            with self._lock:
                self._threads -= 1
                alone = self._threads == 0
            if alone:
                with suppress(Empty):
                    while True:
                        self._run_call(self._queue.get_nowait())

    def _run_calls(self) -> None:
        while True:
            self._run_call(self._queue.get())

    def _run_call(self, call: PoolCall) -> None:
        call.run()
        # Before the delivery: the caller's next call can take this thread.
        with self._lock:
            self._unfinished -= 1
        call.deliver()
