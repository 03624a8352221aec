"""A loop for one machine: resume due runs, several at a time, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.engine.worker_options import check_concurrency, is_number
from continuations.errors import ContinuationsError, InvalidInput

if TYPE_CHECKING:
    from continuations.engine.sweeping import Sweeper
    from continuations.ledger.layout import Marker

_log = logging.getLogger("continuations")


async def run_sweep_loop(
    sweeper: Sweeper, stop: asyncio.Event, *, interval: float, max_concurrent_runs: int
) -> None:
    """Resume due runs until `stop` is set; then wait for the runs in progress."""
    pool = _WorkerPool(sweeper, stop, max_concurrent_runs)
    try:
        while not stop.is_set():
            await pool.start_due_runs()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), interval)
        await pool.join()
    finally:
        # A caller that cancels the loop cancels its runs; they release their claims.
        await pool.cancel()


def check_loop_options(
    interval: object, max_concurrent_runs: object, stop: object
) -> None:
    """Raise `InvalidInput` for an invalid option of `serve_forever`."""
    if not is_number(interval) or interval <= 0:
        msg = f"interval must be a number of seconds above 0, got {interval!r}."
        raise InvalidInput(msg)
    check_concurrency(max_concurrent_runs)
    if not isinstance(stop, asyncio.Event):
        msg = f"stop must be an asyncio.Event, got {type(stop).__name__}."
        raise InvalidInput(msg)


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
            if run_id in self._tasks_by_run:
                continue
            await self._wait_for_free_slot()
            if self._stop.is_set():
                return
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

    async def cancel(self) -> None:
        """Cancel the runs in progress, and wait until each has ended."""
        tasks = [*self._tasks_by_run.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

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
