"""Wrong code of an application, which cancels the task in which it runs."""

from __future__ import annotations

import asyncio


async def cancel_own_task() -> bool:
    """Cancel the task that runs now. Return True only if the task goes on."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return True
