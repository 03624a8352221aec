"""The sync face: coroutines run to their end from plain code, also inside a loop.

One background thread runs one event loop for the whole process, so that connections
which a model's client keeps open outlive a call, and so that plain code may call even
from a thread in which an event loop is already running.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar, cast

from continuations.errors import ContinuationsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

T = TypeVar("T")
_BATCH_SIZE = 1000
# How long Ctrl-C waits for a run to give up its claim, in seconds.
_CANCEL_TIMEOUT = 5.0
_lock = threading.Lock()
_thread: threading.Thread | None = None
_loop: asyncio.AbstractEventLoop | None = None


def run_until_complete(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns; Ctrl-C cancels it and is raised here.

    Raises `ContinuationsError` inside of what is itself run here (an async tool, for
    example): waiting there would wait for itself.
    """
    if threading.current_thread() is _thread:
        coroutine.close()
        msg = (
            "This is an async function that continuations itself runs; a plain call "
            "would wait for itself. Use AsyncRunner, run_async or resume_async here."
        )
        raise ContinuationsError(msg)
    over = threading.Event()
    future = asyncio.run_coroutine_threadsafe(
        _capture_result(coroutine, over), _running_loop()
    )
    try:
        result, error = future.result()
    except KeyboardInterrupt:
        future.cancel()
        over.wait(_CANCEL_TIMEOUT)
        raise
    if error is not None:
        raise error
    return cast("T", result)


async def _capture_result(
    coroutine: Coroutine[Any, Any, T], done: threading.Event
) -> tuple[T | None, BaseException | None]:
    # A SystemExit that left a task would end the loop for everybody (asyncio lets it
    # through); it belongs to the caller.
    try:
        return await coroutine, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - raised again by the caller
        return None, error
    finally:
        done.set()


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    """Go through an asynchronous iterator from plain code."""
    while some := run_until_complete(_next_batch(items)):
        yield from some


async def _next_batch(items: AsyncIterator[T]) -> list[T]:
    # One way to the other thread and back costs more than many items.
    some: list[T] = []
    async for item in items:
        some.append(item)
        if len(some) == _BATCH_SIZE:
            break
    return some


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop, _thread  # noqa: PLW0603 - one loop for the process is the point
    with _lock:
        if _loop is None or _thread is None or not _thread.is_alive():
            _loop = asyncio.new_event_loop()
            _thread = threading.Thread(
                target=_loop.run_forever, name="continuations", daemon=True
            )
            _thread.start()
        return _loop


def _reset_after_fork() -> None:
    # The thread does not survive a fork; the child makes its own.
    global _loop, _thread, _lock
    _loop, _thread, _lock = None, None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
