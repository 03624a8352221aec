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
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["DaemonThreadPool"]

T = TypeVar("T")


class DaemonThreadPool:
    """A pool of threads that are started when they are needed, and then kept.

    Each kind of store has one pool, not each store object. If all threads are busy,
    functions wait in a queue.

    Args:
        max_threads: The most threads of one process.
        name: The name of the threads.
    """

    def __init__(self, max_threads: int, name: str) -> None:
        self._max_threads = max_threads
        self._name = name
        self._process_pool = _ProcessThreads()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Run a blocking function in a thread, and return its result.

        After a cancellation, a function that has not begun does not run; one that has
        begun runs to its end.

        Raises:
            Exception: The exception of the function.
        """
        future = self._submit(lambda: function(*args))
        return cast("T", await asyncio.wrap_future(future))

    def run_together(self, functions: Sequence[Callable[[], None]]) -> None:
        """Run blocking functions at the same time, the last one in this thread.

        Returns when all of them have ended.

        Raises:
            Exception: The exception of one of the functions.
        """
        futures = [self._submit(function) for function in functions[:-1]]
        try:
            for function in functions[-1:]:
                function()
        finally:
            errors = [future.exception() for future in futures]
        for error in filter(None, errors):
            raise error

    def _submit(self, function: Callable[[], Any]) -> Future[Any]:
        if self._process_pool.pid != os.getpid():
            self._process_pool = _ProcessThreads()  # threads do not survive a fork
        future: Future[Any] = Future()
        self._process_pool.submit(future, function, self._max_threads, self._name)
        return future


class _ProcessThreads:
    """The threads of one process and their queue."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._queue: SimpleQueue[tuple[Future[Any], Callable[[], Any]]]
        self._queue = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0

    def submit(
        self,
        future: Future[Any],
        function: Callable[[], Any],
        max_threads: int,
        name: str,
    ) -> None:
        """Queue a function; start one more thread if none is free."""
        with self._lock:
            self._unfinished += 1
            start = self._threads < min(self._unfinished, max_threads)
            self._threads += start
        self._queue.put((future, function))
        if start:
            self._start_thread(name)

    def _start_thread(self, name: str) -> None:
        try:
            threading.Thread(target=self._run_tasks, name=name, daemon=True).start()
        except RuntimeError:
            # The system allows no more threads. The other threads run the function. If
            # the pool has no other thread, the calling thread runs it.
            with self._lock:
                self._threads -= 1
                alone = self._threads == 0
            if alone:
                self._run_next_task()

    def _run_tasks(self) -> None:
        while True:
            self._run_next_task()

    def _run_next_task(self) -> None:
        future, function = self._queue.get()
        if future.set_running_or_notify_cancel():
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                future.set_exception(error)
            else:
                future.set_result(result)
        with self._lock:
            self._unfinished -= 1
