"""How a run is woken once somebody has decided: here, by a queue, by an invocation.

A wake-up that is lost strands nobody: the decision's marker stays due, and the next
sweep finds it. A wake-up that comes twice is harmless: one resume makes progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from continuations.engine.async_runner import AsyncRunner

__all__ = ["Dispatcher", "InlineDispatcher"]


class Dispatcher(Protocol):
    """Sees to it that `resume` is called for a run, soon and somewhere."""

    async def wake(self, run_id: str) -> None:
        """Have a run resumed; raises if that cannot even be asked for."""
        ...


class InlineDispatcher:
    """Resumes in this process, before the caller is answered.

    Raises what `AsyncRunner.resume` raises.
    """

    def __init__(self, runner: AsyncRunner, *, context: Any = None) -> None:
        self._runner = runner
        self._context = context

    async def wake(self, run_id: str) -> None:
        """Resume the run here."""
        await self._runner.resume(run_id, context=self._context)
