"""Await an operation beside another one, or in spite of a cancellation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
S = TypeVar("S")

# How long an interrupted run waits for its last commit and for calls that may not be
# repeated, in seconds. A second interruption ends the wait.
INTERRUPT_GRACE_SECONDS = 5.0


async def with_side_task(
    main: Coroutine[Any, Any, T], side: Coroutine[Any, Any, S]
) -> tuple[T, S]:
    """Return the results of both. If `main` raises, `side` is cancelled first."""
    beside = asyncio.ensure_future(side)
    try:
        result = await main
    except BaseException:
        beside.cancel()
        await asyncio.gather(beside, return_exceptions=True)
        raise
    return result, await beside


async def finish_if_cancelled(operation: Coroutine[Any, Any, T]) -> T:
    """Return the result; a cancellation waits some seconds for the operation first.

    A second cancellation does not wait.
    """
    task = asyncio.ensure_future(operation)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        try:
            await asyncio.wait({task}, timeout=INTERRUPT_GRACE_SECONDS)
        finally:
            task.cancel()
        raise
