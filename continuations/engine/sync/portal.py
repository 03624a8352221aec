"""Run coroutines from synchronous code.

One background thread runs one event loop for the whole process. So a model client keeps
its connections from call to call. Synchronous code may call from any thread in which no
event loop is running.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, cast

from continuations.engine.sync.batches import Flattened, in_batches
from continuations.errors import ContinuationsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator
    from concurrent.futures import Future
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
    check_no_loop_runs(coroutine)
    done = threading.Event()
    future = asyncio.run_coroutine_threadsafe(
        _capture_result(coroutine, done), _running_loop()
    )
    try:
        result, error = _wait_for_result(future)
    except BaseException:
        future.cancel()
        done.wait(_CANCEL_TIMEOUT)
        raise
    if error is not None:
        raise error
    return cast("T", result)


def check_no_loop_runs(coroutine: Coroutine[Any, Any, Any]) -> None:
    """Close the coroutine, and raise `ContinuationsError`, if this thread has a loop.

    That is so in tasks, in callbacks of a loop, and at the prompt of `python -m
    asyncio`.
    """
    if not _is_called_by_a_loop():
        return
    coroutine.close()
    msg = (
        "A synchronous call was made inside a running event loop: it would block the "
        "loop. Use AsyncRunner, or the functions of continuations.aio, and await "
        "the call."
    )
    raise ContinuationsError(msg)


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


async def _capture_result(
    coroutine: Coroutine[Any, Any, T], done: threading.Event
) -> tuple[T | None, BaseException | None]:
    # asyncio lets a SystemExit of a task end the loop for all callers. It belongs to
    # this caller alone.
    try:
        return await coroutine, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - raised again by the caller
        return None, error
    finally:
        done.set()


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
