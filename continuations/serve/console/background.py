"""Reading that goes on after the page that began it was answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class BackgroundReading:
    """Lets one reading at a time serve all pages that wait for its end.

    A page waits for some time, and then shows what was read so far. An error is raised
    to the pages that wait; the next page tries again.

    Args:
        read: Reads what is missing, and returns when nothing is.
    """

    def __init__(self, read: Callable[[], Coroutine[None, None, None]]) -> None:
        self._read = read
        self._task: asyncio.Task[None] | None = None

    async def wait(self, seconds: float) -> None:
        """Read, and wait so long for the end."""
        task = self._task
        loop = asyncio.get_running_loop()
        if task is None or task.done() or task.get_loop() is not loop:
            task = self._task = loop.create_task(self._read())
            task.add_done_callback(_take_error)
        await asyncio.wait({task}, timeout=seconds)
        if task.done() and not task.cancelled():
            task.result()

    def close(self) -> None:
        """Read no more, because the server stops."""
        if self._task is not None and not self._task.get_loop().is_closed():
            self._task.cancel()


def _take_error(task: asyncio.Task[None]) -> None:
    """Take the error of a reading that no page waits for any more."""
    if not task.cancelled():
        task.exception()
