"""How a run is resumed after a decision: in this process, or by a `Dispatcher`.

A lost wake-up loses no run: the decision's marker is due, and the next sweep resumes
the run. A repeated wake-up is harmless: only one resume makes progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from continuations.serve.option_checks import check_async_runner

if TYPE_CHECKING:
    from continuations.engine.runner.async_runner import AsyncRunner

__all__ = ["Dispatcher", "InlineDispatcher"]


class Dispatcher(Protocol):
    """Causes `resume` to be called for a run, soon and in some process."""

    async def wake(self, run_id: str) -> None:
        """Request that a run is resumed.

        Args:
            run_id: The run.

        Raises:
            Exception: The request failed. The next sweep resumes the run.
        """
        ...


class InlineDispatcher:
    """Resume the run in this process, before the client gets its response.

    Args:
        runner: The runner; it needs the run's agents.
        context: The application's object for its tools, `ctx.context`.

    Raises:
        InvalidInput: `runner` is not an `AsyncRunner`.
    """

    def __init__(self, runner: AsyncRunner, *, context: Any = None) -> None:
        check_async_runner(runner)
        self._runner = runner
        self._context = context

    async def wake(self, run_id: str) -> None:
        """Resume the run; raise what `AsyncRunner.resume` raises."""
        await self._runner.resume(run_id, context=self._context)
