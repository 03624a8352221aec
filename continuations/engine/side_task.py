"""Await an operation and another one beside it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")
S = TypeVar("S")


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
