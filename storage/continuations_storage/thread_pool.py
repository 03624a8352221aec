"""Threads for verbs that block; they outlive the pools of `concurrent.futures`.

Those close as soon as the main thread ends, while other threads still work and the
interpreter waits for them: what they did could then not be kept any more. And their
exit waits for every thread, also for one that hangs in a network that is gone. Ours
are daemons: whoever awaits an errand is waited for, the thread that runs it is not.
"""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DaemonThreadPool"]

T = TypeVar("T")


class DaemonThreadPool:
    """At most so many threads of a process, made as they are needed, then kept.

    One for a kind of store and not for each store object, so that objects may come and
    go. Errands wait in line when all threads are busy.
    """

    def __init__(self, max_threads: int, name: str) -> None:
        self._max_threads = max_threads
        self._name = name
        self._process_pool = _ProcessThreads()

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Return or raise what the errand does, run in a thread.

        Cancelled, it is not begun any more; once begun it goes on to its end.
        """
        if self._process_pool.pid != os.getpid():
            self._process_pool = _ProcessThreads()  # threads do not survive a fork
        future: Future[Any] = Future()
        self._process_pool.submit(
            future, lambda: function(*args), self._max_threads, self._name
        )
        return cast("T", await asyncio.wrap_future(future))


class _ProcessThreads:
    """The threads of one process, and the errands that wait for them."""

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
        """Put an errand in line, with one more thread if none is free for it."""
        with self._lock:
            self._unfinished += 1
            hire = self._threads < min(self._unfinished, max_threads)
            self._threads += hire
        self._queue.put((future, function))
        if hire:
            self._start_thread(name)

    def _start_thread(self, name: str) -> None:
        try:
            threading.Thread(target=self._run_tasks, name=name, daemon=True).start()
        except RuntimeError:
            # The system gives no more threads: those that there are do it, or we.
            with self._lock:
                self._threads -= 1
                alone = self._threads == 0
            if alone:
                self._run_next_task()

    def _run_tasks(self) -> None:
        while True:
            self._run_next_task()

    def _run_next_task(self) -> None:
        future, errand = self._queue.get()
        if future.set_running_or_notify_cancel():
            try:
                result = errand()
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                future.set_exception(error)
            else:
                future.set_result(result)
        with self._lock:
            self._unfinished -= 1
