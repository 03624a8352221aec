"""The sync face: coroutines run to their end from plain code, also inside a loop.

One background thread runs one event loop for the whole process, so that connections
which a model's client keeps open outlive a call, and so that plain code may call even
from a thread in which an event loop is already running.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

T = TypeVar("T")
_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def call(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns; Ctrl-C cancels it and is raised here."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _running())
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


def each(items: AsyncIterator[T]) -> Iterator[T]:
    """Go through an asynchronous iterator from plain code."""
    while True:
        try:
            yield call(_next(items))
        except StopAsyncIteration:
            return


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


def _running() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603 - one loop for the process is the point
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            thread = threading.Thread(
                target=_loop.run_forever, name="continuations", daemon=True
            )
            thread.start()
        return _loop


def _forget() -> None:
    # The thread does not survive a fork; the child makes its own.
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
