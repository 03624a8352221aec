"""The methods of Runner that work on all runs which are due."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from continuations.engine import portal
from continuations.engine.sync_threads import Threads

if TYPE_CHECKING:
    from continuations.engine.run_options import ShouldPause
    from continuations.engine.sweeping import SweepResult


class Sweeps(Threads):
    """Looks for runs that are due, and resumes them."""

    def sweep(
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
        return portal.run_until_complete(
            self.async_runner.sweep(
                context=context,
                should_pause=should_pause,
                max_concurrent_runs=max_concurrent_runs,
            )
        )

    def serve_forever(
        self,
        *,
        interval: float = 10.0,
        max_concurrent_runs: int = 8,
        context: Any = None,
        handle_signals: bool = True,
    ) -> None:
        """Resume due runs until SIGTERM or SIGINT.

        After the first signal nothing new begins, calls in progress are completed,
        their runs are suspended, and the method returns. The earlier handlers are
        restored at the first signal, so a second one has its usual effect. Errors of
        the store and of runs are logged. Do not call it where an event loop is running.

        Args:
            interval: Longest time between two looks for due runs, in seconds. The loop
                also looks when the next marker is due, and when this runner records a
                decision, message or signal. After work, the first pause is one second.
            max_concurrent_runs: Maximum number of runs at the same time, at least 1.
            context: Your object for the tools, `ctx.context`. It is never stored.
            handle_signals: With False, no handlers are installed. Outside the main
                thread, Python allows none.

        Raises:
            InvalidInput: `interval`, `max_concurrent_runs` or `context` is invalid.
            ContinuationsError: An event loop is running in this thread.
        """
        serving = self.async_runner.serve_forever(
            interval=interval,
            max_concurrent_runs=max_concurrent_runs,
            context=context,
            handle_signals=handle_signals,
        )
        portal.check_no_loop_runs(serving)
        asyncio.run(serving)
