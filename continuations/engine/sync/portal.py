"""Run coroutines and read asynchronous iterators from synchronous code.

One background thread runs one event loop for the whole process. So a model client keeps
its connections from call to call. Synchronous code may call from any thread in which no
event loop is running.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from continuations.errors import ContinuationsError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator
    from types import FrameType


T = TypeVar("T")
# Seconds that Ctrl-C waits for a run to finish its calls and to release its claim.
_CANCEL_TIMEOUT = 10.0
# How often the main thread looks for a signal, in seconds.
_SIGNAL_INTERVAL = 0.25
_RUN_FOREVER = asyncio.BaseEventLoop.run_forever.__code__
_lock = threading.Lock()
_thread: threading.Thread | None = None
_loop: asyncio.AbstractEventLoop | None = None


def run_until_complete(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return a coroutine's result; an exception of a signal handler cancels it.

    `KeyboardInterrupt`, `SystemExit` or another one is raised here after the coroutine
    has ended, or after some seconds. A second one is raised at once.

    Raises `ContinuationsError` where an event loop is running, for example in an async
    tool or in a notebook: nothing else would run meanwhile on that loop. On the loop of
    this module, waiting would be a deadlock.
    """
    work = _Work(coroutine)
    try:
        check_no_loop_runs(coroutine)
        work.send(_running_loop())
        result, error = _wait_for_result(work.outcome)
    except BaseException:
        work.give_up()
        raise
    if error is not None:
        raise error
    return cast("T", result)


class _Work(Generic[T]):
    """A coroutine that runs on the loop of this module, and its outcome.

    A signal may be handled between any two steps of the main thread. So the loop,
    and not the waiting thread, knows whether the coroutine has begun.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self.coroutine = coroutine
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[None] | None = None
        self.outcome: Future[tuple[T | None, BaseException | None]] = Future()
        self.ended = threading.Event()

    def send(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the coroutine run on the loop."""
        self.loop = loop
        loop.call_soon_threadsafe(self._begin)

    def give_up(self) -> None:
        """Let the coroutine end, and wait some seconds for its end."""
        if self.loop is None:
            self.coroutine.close()
        else:
            self.loop.call_soon_threadsafe(self._end)
            self.ended.wait(_CANCEL_TIMEOUT)

    def _begin(self) -> None:
        self.task = asyncio.get_running_loop().create_task(self._run())
        self.task.add_done_callback(self._close)

    def _end(self) -> None:
        if self.task is None:  # it was never sent
            self._close()
        else:
            self.task.cancel()

    def _close(self, _task: object = None) -> None:
        # A task that is cancelled before its first step runs no `finally`.
        self.coroutine.close()
        self.ended.set()

    async def _run(self) -> None:
        # asyncio lets a SystemExit of a task end the loop for all callers. It belongs
        # to this caller alone.
        try:
            self.outcome.set_result((await self.coroutine, None))
        except asyncio.CancelledError:
            self.outcome.cancel()
            raise
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            self.outcome.set_result((None, error))


def check_no_loop_runs(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Close the coroutine, and raise `ContinuationsError`, if this thread has a loop.

    That is so in tasks, in callbacks of a loop, and at the prompt of `python -m
    asyncio`.
    """
    if not _is_called_by_a_loop():
        return
    coroutine.close()
    raise ContinuationsError(
        "A synchronous call was made inside a running event loop: it would block the "
        "loop. Use AsyncRunner, or the functions of continuations.aio, and await "
        "the call."
    )


def _is_called_by_a_loop() -> bool:
    """Return whether a task or a callback of an event loop makes this call.

    The sync API of Playwright runs a loop beside the code of its caller, in the same
    thread. That loop stands still during each call, so the call may block.
    """
    try:
        if asyncio.current_task() is not None:
            return True
        asyncio.get_running_loop()
    except RuntimeError:  # no event loop is running in this thread
        return False
    frame: FrameType | None = sys._getframe()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - `inspect` is slow to import
    while frame is not None and frame.f_code is not _RUN_FOREVER:
        frame = frame.f_back
    return frame is not None


def _wait_for_result(future: Future[T]) -> T:
    # A signal just before the main thread blocks does not wake it. Python runs handlers
    # in this thread only, so without a timeout the signal had no effect until the end.
    while threading.current_thread() is threading.main_thread():
        with suppress(TimeoutError):
            return future.result(_SIGNAL_INTERVAL)
    return future.result()


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    """Iterate over an asynchronous iterator from synchronous code."""
    # A round trip to the other thread costs more than many items.
    batches = items.batches if isinstance(items, Flattened) else in_batches(items)
    # Not in a generator, which would be entered once more for each item.
    return chain.from_iterable(_iterate_batches(batches))


def _iterate_batches(batches: AsyncIterator[list[T]]) -> Iterator[list[T]]:
    while (batch := run_until_complete(_next_or_none(batches))) is not None:
        yield batch


async def _next_or_none(batches: AsyncIterator[list[T]]) -> list[T] | None:
    return await anext(batches, None)


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop, _thread  # noqa: PLW0603 - one loop for the whole process
    # Read before the lock: a signal must not leave the lock taken for good.
    if _loop is not None and _thread is not None and _thread.is_alive():
        return _loop
    with _lock:
        if _loop is None or _thread is None or not _thread.is_alive():
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(
                target=_loop.run_forever, name="continuations", daemon=True
            )
            _thread.start()
        return _loop


def _reset_after_fork() -> None:
    # The thread does not exist after a fork; the child process makes its own.
    global _loop, _thread, _lock
    _loop, _thread, _lock = None, None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)

ONLY_ASYNC = (
    "an asynchronous iterator cannot be read with `for`: nothing was read. Write "
    "`async for`, or use Runner in place of AsyncRunner."
)
_BATCH_SIZE = 1000


class Flattened(Generic[T]):
    """Iterates over the items of batches.

    Attributes:
        batches: The batches. Use either them or the items.
    """

    def __init__(self, batches: AsyncIterator[list[T]]) -> None:
        self.batches = batches
        self._items = self._flatten()

    if not TYPE_CHECKING:

        def __iter__(self) -> Iterator[T]:
            """Name the remedy; type checkers see the mistake by themselves."""
            raise InvalidInput(ONLY_ASYNC)

    def __aiter__(self) -> AsyncIterator[T]:
        """Return the iterator over the items."""
        return self._items

    async def __anext__(self) -> T:
        """Return the next item."""
        return await anext(self._items)

    async def _flatten(self) -> AsyncIterator[T]:
        async for batch in self.batches:
            for item in batch:
                yield item


async def in_batches(items: AsyncIterator[T]) -> AsyncIterator[list[T]]:
    """Iterate over the items in lists of a thousand."""
    batch: list[T] = []
    async for item in items:
        batch.append(item)
        if len(batch) == _BATCH_SIZE:
            yield batch
            batch = []
    if batch:
        yield batch
