"""A loop for one machine: resume due runs, several at a time, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from continuations.engine.worker_options import check_concurrency, is_number
from continuations.errors import ContinuationsError, InvalidInput
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Generator

    from continuations.engine.sweep.sweeping import Sweeper
    from continuations.ledger.layout import Marker
    from continuations.ledger.objects import Objects

_log = logging.getLogger("continuations")

# The time from a look that began work to the next one, in seconds; without work it
# grows by the factor, up to `interval`.
_FIRST_PAUSE = 1.0
_PAUSE_GROWTH = 1.25
_SHORTEST_PAUSE = 0.001


async def run_sweep_loop(
    sweeper: Sweeper, stop: asyncio.Event, *, interval: float, max_concurrent_runs: int
) -> None:
    """Resume due runs until `stop` is set; then wait for the runs in progress."""
    pool = _WorkerPool(sweeper, stop, max_concurrent_runs)
    pace = _Pace(interval)
    try:
        with _woken_by_work(sweeper.objects) as has_work:
            while not stop.is_set():
                has_work.clear()
                look = await pool.start_due_runs()
                await _first_of((stop, has_work), pace.seconds_after(look))
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


@dataclass(frozen=True, slots=True)
class _Look:
    """The result of one look for due runs.

    Attributes:
        began_work: Whether work on a run began.
        seconds_to_next: Time until the next marker is due, `None` if it is not known.
    """

    began_work: bool
    seconds_to_next: float | None = None


class _Pace:
    """The time from one look to the next: short after work, longer without.

    Another process may make a marker that is due now. Only a look finds it.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._pause = min(_FIRST_PAUSE, longest)

    def seconds_after(self, look: _Look) -> float:
        """Return how long to sleep after a look."""
        if look.began_work:
            self._pause = min(_FIRST_PAUSE, self._longest)
        pause = self._pause
        self._pause = min(pause * _PAUSE_GROWTH, self._longest)
        if look.seconds_to_next is None:
            return pause
        return min(pause, max(look.seconds_to_next, _SHORTEST_PAUSE))


@contextmanager
def _woken_by_work(objects: Objects) -> Generator[asyncio.Event]:
    """Yield an event that is set when this process makes work for a worker."""
    has_work = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wake() -> None:
        # A decision may come from another thread, also while the loop is closed.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(has_work.set)

    objects.on_work.add(wake)
    try:
        yield has_work
    finally:
        objects.on_work.discard(wake)


async def _first_of(events: tuple[asyncio.Event, ...], seconds: float) -> None:
    """Wait until one of the events is set, at most some seconds."""
    waits = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waits:
            each.cancel()


class _WorkerPool:
    """The runs that this process works on, each in its own task."""

    def __init__(
        self, sweeper: Sweeper, stop: asyncio.Event, max_concurrent_runs: int
    ) -> None:
        self._sweeper = sweeper
        self._stop = stop
        self._max_concurrent_runs = max_concurrent_runs
        self._tasks_by_run: dict[str, asyncio.Task[None]] = {}
        # The runs that were due again while their tasks worked.
        self._skipped: set[str] = set()
        self._pruning: asyncio.Task[None] | None = None

    async def start_due_runs(self) -> _Look:
        """Start a task for each due run, waiting for a free slot before each.

        Runs that another process holds are due too; their tasks end at once.
        """
        try:
            due = await self._sweeper.due_runs()
        except ContinuationsError:
            _log.exception("the due runs could not be listed")
            return _Look(began_work=False)
        self._start_pruning()
        began_work = False
        for run_id, run_markers in due.markers_by_run.items():
            if run_id in self._tasks_by_run:
                self._skipped.add(run_id)
                continue
            await self._wait_for_free_slot()
            if self._stop.is_set():
                break
            began_work = True
            task = asyncio.create_task(self._process_run(run_id, run_markers))
            self._tasks_by_run[run_id] = task
        return _Look(began_work, due.seconds_to_next)

    def _start_pruning(self) -> None:
        """Erase old ended runs beside the work on due runs, if the runner says so."""
        is_idle = self._pruning is None or self._pruning.done()
        if self._sweeper.retention is not None and is_idle:
            self._pruning = asyncio.create_task(self._prune())

    async def _prune(self) -> None:
        pruned = await self._sweeper.apply_retention()
        for receipt in pruned.erased:
            _log.info("run %s ended long ago and was erased", receipt.run_id)
        for run_id, error in pruned.errors.items():
            _log.warning("run %s ended long ago and was not erased: %s", run_id, error)

    def _tasks(self) -> list[asyncio.Task[None]]:
        return [*self._tasks_by_run.values(), *filter(None, [self._pruning])]

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
        await asyncio.gather(*self._tasks())

    async def cancel(self) -> None:
        """Cancel the runs in progress, and wait until each has ended."""
        tasks = self._tasks()
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
            if run_id in self._skipped:
                self._skipped.remove(run_id)
                self._sweeper.objects.announce_work()
