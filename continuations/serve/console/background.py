"""Reading that goes on after the page that began it was answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class BackgroundReading:
    """Lets one reading at a time serve all pages that wait for its end.

    A page waits for some time, and then shows what was read so far. An error is raised
    to the pages that wait; the next page tries again.

    Args:
        read: Reads what is missing, and returns when nothing is.
    """

    def __init__(self, read: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self._read = read
        self._task: asyncio.Task[object] | None = None

    async def wait(self, seconds: float | None) -> bool:
        """Read, or join the reading, and wait so long; return whether it has ended."""
        task = self._running()
        if task is None:
            task = self._task = _begin(self._read())
        return await _ends(task, seconds)

    async def renew(self, seconds: float | None) -> bool:
        """Wait as `wait` does for a reading that begins now or later."""
        loop = asyncio.get_running_loop()
        before, began = self._running(), loop.time()
        if before is not None:
            # It may have passed the place of the newest change.
            await asyncio.wait({before}, timeout=seconds)
            if not before.done():
                return False
            seconds = seconds and max(0, seconds - (loop.time() - began))
        return await self.wait(seconds)

    def _running(self) -> asyncio.Task[object] | None:
        task = self._task
        if task is None or task.done():
            return None
        return task if task.get_loop() is asyncio.get_running_loop() else None

    def close(self) -> None:
        """Read no more, because the server stops."""
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.cancel()


async def finish_within(
    seconds: float | None, work: Coroutine[Any, Any, object]
) -> bool:
    """Do some work, and wait so long for its end; return whether it has ended.

    Otherwise it goes on in the background.
    """
    return await _ends(_begin(work), seconds)


# An event loop keeps no task alive.
_tasks: set[asyncio.Task[object]] = set()


def _begin(work: Coroutine[Any, Any, object]) -> asyncio.Task[object]:
    task = asyncio.get_running_loop().create_task(work)
    _tasks.add(task)
    task.add_done_callback(_end)
    return task


def _end(task: asyncio.Task[object]) -> None:
    """Take the error of a reading that no page waits for any more."""
    _tasks.discard(task)
    if not task.cancelled():
        task.exception()


async def _ends(task: asyncio.Task[object], seconds: float | None) -> bool:
    await asyncio.wait({task}, timeout=seconds)
    if task.done() and not task.cancelled():
        task.result()
    return task.done()
