"""The methods of AsyncRunner that work on all runs which are due."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from continuations.engine.async_threads import AsyncThreads
from continuations.engine.worker_options import check_concurrency

if TYPE_CHECKING:
    from continuations.engine.run_options import ShouldPause
    from continuations.engine.sweeping import SweepResult

# A process that only decides should start fast: it imports neither the engine nor the
# agents.
# ruff: noqa: PLC0415


class AsyncSweeps(AsyncThreads):
    """Looks for runs that are due, and resumes them."""

    async def sweep(
        self,
        *,
        context: Any = None,
        should_pause: ShouldPause | None = None,
        max_concurrent_runs: int = 8,
    ) -> SweepResult:
        """Check every run that is due, and resume those that can make progress.

        A run is due if it has a new decision or message, if a deadline has passed, if
        it was paused, or if its worker died. A sweep also creates objects that are
        missing after a crash. Nothing that one run raises stops it. Call it regularly.

        Args:
            context: Your object for the tools, `ctx.context`. It is never stored.
                Several runs use it at the same time.
            should_pause: As for `start`. Once it returns True, no other run is checked.
            max_concurrent_runs: Maximum number of runs at the same time, at least 1.

        Returns:
            The outcomes and errors of the runs, and the runs of other processes.

        Raises:
            InvalidInput: `context`, `should_pause` or `max_concurrent_runs` is
                invalid.
            StoreError: The due runs could not be listed.
        """
        check_concurrency(max_concurrent_runs)
        run_options = self._run_options(context, should_pause)
        async with self._listening(run_options, None) as options:
            return await self._make_sweeper(options).sweep(max_concurrent_runs)

    async def serve_forever(
        self,
        *,
        interval: float = 10.0,
        max_concurrent_runs: int = 8,
        context: Any = None,
        stop: asyncio.Event | None = None,
        handle_signals: bool = False,
    ) -> None:
        """Resume due runs until `stop` is set.

        Then nothing new begins, calls in progress are completed, their runs are
        suspended, and the method returns. If its task is cancelled, the runs release
        their claims, except those with a tool in progress. Errors of the store and of
        runs are logged.

        Args:
            interval: Longest time between two looks for due runs, in seconds. The loop
                also looks when the next marker is due, and when this runner records a
                decision, message or signal. After work, the first pause is one second.
            max_concurrent_runs: Maximum number of runs at the same time, at least 1.
            context: Your object for the tools, `ctx.context`. It is never stored.
            stop: Set it to stop the loop.
            handle_signals: Stop the loop on SIGTERM or SIGINT too. By default, the
                application that runs the event loop keeps its own handlers. With True,
                the first signal stops only this loop. Then the earlier handlers are
                restored, so a second signal has its usual effect.

        Raises:
            InvalidInput: `interval`, `max_concurrent_runs`, `context` or `stop` is
                invalid.
        """
        from continuations.engine.stop_signals import stop_signals_handled
        from continuations.engine.sweep_loop import check_loop_options, run_sweep_loop

        stopping = asyncio.Event() if stop is None else stop
        check_loop_options(interval, max_concurrent_runs, stopping)
        loop = asyncio.get_running_loop()
        with ExitStack() as handlers:
            if handle_signals:
                handlers.enter_context(
                    stop_signals_handled(
                        lambda _: loop.call_soon_threadsafe(stopping.set)
                    )
                )
            run_options = self._run_options(context, stopping.is_set)
            async with self._listening(run_options, None) as options:
                await run_sweep_loop(
                    self._make_sweeper(options),
                    stopping,
                    interval=interval,
                    max_concurrent_runs=max_concurrent_runs,
                )
