"""A loop for one machine: resume due runs, several at a time, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from continuations.errors import ContinuationsError, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Generator

    from continuations.engine.sweeping import Sweeper
    from continuations.ledger.layout import Marker

_log = logging.getLogger("continuations")


async def run_sweep_loop(
    sweeper: Sweeper, stop: asyncio.Event, *, interval: float, max_concurrent_runs: int
) -> None:
    """Resume due runs until `stop` is set, or SIGTERM or SIGINT arrives."""
    if not interval > 0:
        raise InvalidInput(f"interval must be more than 0 seconds, got {interval!r}.")
    if max_concurrent_runs < 1:
        msg = f"max_concurrent_runs must be at least 1, got {max_concurrent_runs!r}."
        raise InvalidInput(msg)
    pool = _WorkerPool(sweeper, stop, max_concurrent_runs)
    with _stop_on_signals(stop):
        while not stop.is_set():
            await pool.start_due_runs()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), interval)
        await pool.join()


class _WorkerPool:
    """The runs that this process works on, each in its own task."""

    def __init__(
        self, sweeper: Sweeper, stop: asyncio.Event, max_concurrent_runs: int
    ) -> None:
        self._sweeper = sweeper
        self._stop = stop
        self._max_concurrent_runs = max_concurrent_runs
        self._tasks_by_run: dict[str, asyncio.Task[None]] = {}

    async def start_due_runs(self) -> None:
        """Start a task for each due run, waiting for a free slot before each.

        Runs that another process holds are due too; their tasks end at once.
        """
        try:
            due = await self._sweeper.due_runs()
        except ContinuationsError:
            _log.exception("the due runs could not be listed")
            return
        for run_id, run_markers in due.items():
            await self._wait_for_free_slot()
            if self._stop.is_set():
                return
            if run_id not in self._tasks_by_run:
                task = asyncio.create_task(self._process_run(run_id, run_markers))
                self._tasks_by_run[run_id] = task

    async def _wait_for_free_slot(self) -> None:
        """Wait until another run may start, or the loop is stopped."""
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            while (
                len(self._tasks_by_run) >= self._max_concurrent_runs
                and not stopped.done()
            ):
                waiting = {stopped, *self._tasks_by_run.values()}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()

    async def join(self) -> None:
        """Wait until every started run has ended or was suspended."""
        await asyncio.gather(*self._tasks_by_run.values())

    async def _process_run(self, run_id: str, due_markers: list[Marker]) -> None:
        try:
            report = await self._sweeper.try_run(run_id, due_markers)
        except Exception:  # noqa: BLE001 - one run's error must not stop the others
            _log.exception("run %s cannot continue now", run_id)
        else:
            if report.error is not None:
                cause = report.error.__cause__
                text = "run %s cannot continue now: %s"
                _log.warning(text, run_id, report.error, exc_info=cause)
        finally:
            del self._tasks_by_run[run_id]


@contextmanager
def _stop_on_signals(stop: asyncio.Event) -> Generator[None]:
    """Let the first SIGTERM or SIGINT set the event, and restore the handlers.

    Where handlers cannot be set (outside the main thread, on Windows), do nothing.
    """
    loop = asyncio.get_running_loop()
    installed: list[signal.Signals] = []

    def remove_handlers() -> None:
        while installed:
            loop.remove_signal_handler(installed.pop())

    def handle_signal() -> None:
        stop.set()
        remove_handlers()

    with suppress(NotImplementedError, RuntimeError, ValueError):
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, handle_signal)
            installed.append(number)
    try:
        yield
    finally:
        remove_handlers()
