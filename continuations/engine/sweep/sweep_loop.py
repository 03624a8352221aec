"""A loop for one machine: resume due runs, several at a time, until it is stopped."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from continuations.engine.worker_options import (
    check_concurrency,
    is_number,
    option_error,
)
from continuations.errors import ContinuationsError, InvalidInput
from continuations.ledger import layout
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Generator

    from continuations.engine.sweep.sweeping import RunReport, Sweeper
    from continuations.ledger.layout import Marker
    from continuations.ledger.objects import Objects
    from continuations_storage.contract import Watch

_log = logging.getLogger("continuations")

# The time from a look that began work to the next one, in seconds; without work it
# grows by the factor, up to `interval`.
_FIRST_PAUSE = 1.0
_PAUSE_GROWTH = 1.25
_SHORTEST_PAUSE = 0.001
# A store may report many new markers. So the next look comes this many seconds after
# a look, or so many times its duration.
_REST_AFTER_LOOK = 0.02
_REST_FACTOR = 4
# A report comes with the marker, and the decision follows the marker. If it has not
# come yet, the run is tried again after each of these seconds.
_PAUSES_BEFORE_NEXT_TRY = (0.01, 0.02, 0.04, 0.08, 0.16)


async def run_sweep_loop(
    sweeper: Sweeper, stop: asyncio.Event, *, interval: float, max_concurrent_runs: int
) -> None:
    """Resume due runs until `stop` is set; then wait for the runs in progress."""
    objects = sweeper.objects
    async with objects.watch(layout.DUE_NOW_PREFIX) as watch:
        pool = _WorkerPool(sweeper, stop, max_concurrent_runs, watch)
        pace = _Pace(interval)
        try:
            with _woken_by_work(objects) as has_work:
                while not stop.is_set():
                    is_full = watch is None or has_work.is_set() or pace.is_due()
                    has_work.clear()
                    look = await pool.start_due_runs(only_new=not is_full)
                    pace.note(look, is_full=is_full)
                    await pace.sleep(stop, has_work, watch)
            await pool.join()
        finally:
            # A caller that cancels the loop cancels its runs; they release their
            # claims.
            await pool.cancel()


def check_loop_options(
    interval: object, max_concurrent_runs: object, stop: object
) -> None:
    """Raise `InvalidInput` for an invalid option of `serve_forever`."""
    if not is_number(interval) or interval <= 0:
        raise option_error("interval", "a number of seconds above 0", interval)
    check_concurrency(max_concurrent_runs)
    if not isinstance(stop, asyncio.Event):
        raise InvalidInput(f"stop must be an asyncio.Event, got {type(stop).__name__}.")


@dataclass(frozen=True, slots=True)
class _Look:
    """The result of one look for due runs.

    Attributes:
        began_work: Whether work on a run began.
        seconds_to_next: Time until the next marker is due, `None` if it is not known.
        seconds: How long it took to list the due runs.
    """

    began_work: bool
    seconds_to_next: float | None = None
    seconds: float = 0.0


class _Pace:
    """The time from one full look to the next: short after work, longer without.

    Another process may make a marker that is due now. Only a look finds it, if the
    store reports nothing. Looks because of reports come in between, and take only the
    runs with new markers.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._pause = min(_FIRST_PAUSE, longest)
        self._time = asyncio.get_running_loop().time
        self._next_at = self._time()
        self._rest = self._look_seconds = 0.0

    def is_due(self) -> bool:
        """Return whether it is time for a full look."""
        return self._time() >= self._next_at - _SHORTEST_PAUSE

    def note(self, look: _Look, *, is_full: bool) -> None:
        """Plan the next full look after a look."""
        now = self._time()
        if look.began_work:
            self._pause = min(_FIRST_PAUSE, self._longest)
        if is_full:
            self._next_at = now + self._pause
            self._pause = min(self._pause * _PAUSE_GROWTH, self._longest)
        elif look.began_work:
            self._next_at = min(self._next_at, now + self._pause)
        if look.seconds_to_next is not None:
            soon = now + max(look.seconds_to_next, _SHORTEST_PAUSE)
            self._next_at = min(self._next_at, soon)
        # Once, it may be other work of the event loop that takes the time of a look.
        before, self._look_seconds = self._look_seconds, look.seconds
        rest = min(before, look.seconds) * _REST_FACTOR
        self._rest = max(_REST_AFTER_LOOK, rest)

    async def sleep(
        self, stop: asyncio.Event, has_work: asyncio.Event, watch: Watch | None
    ) -> None:
        """Sleep until the next full look, an event, or a report of the store."""
        if watch is not None:
            await _first_of((stop,), min(self._rest, self._left))
        await _first_of((stop, has_work), self._left, watch)

    @property
    def _left(self) -> float:
        return self._next_at - self._time()


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


async def _first_of(
    events: tuple[asyncio.Event, ...], seconds: float, watch: Watch | None = None
) -> None:
    """Wait for an event or a report of the store, at most some seconds."""
    futures: list[asyncio.Future[Any]]
    futures = [asyncio.ensure_future(event.wait()) for event in events]
    if watch is not None:
        futures.append(asyncio.ensure_future(_report_of(watch, seconds)))
    try:
        await asyncio.wait(
            futures, timeout=max(seconds, 0), return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        for each in futures:
            each.cancel()
        # A watch has one caller at a time.
        await asyncio.wait(futures)


async def _report_of(watch: Watch, seconds: float) -> None:
    """Return when the store reports a new marker; without a report, never."""
    try:
        if await watch.wait(seconds):
            return
    except Exception:  # noqa: BLE001 - without reports, the loop looks at its interval
        _log.exception("the store cannot report new markers")
    await asyncio.get_running_loop().create_future()


class _WorkerPool:
    """The runs that this process works on, each in its own task."""

    def __init__(
        self,
        sweeper: Sweeper,
        stop: asyncio.Event,
        max_concurrent_runs: int,
        watch: Watch | None,
    ) -> None:
        self._sweeper = sweeper
        self._stop = stop
        self._max_concurrent_runs = max_concurrent_runs
        self._pauses = () if watch is None else _PAUSES_BEFORE_NEXT_TRY
        self._tasks_by_run: dict[str, asyncio.Task[None]] = {}
        # Set if the run is due again while its task works.
        self._due_again: dict[str, asyncio.Event] = {}
        self._seen: frozenset[str] = frozenset()
        self._pruning: asyncio.Task[None] | None = None

    async def start_due_runs(self, *, only_new: bool) -> _Look:
        """Start a task for each due run, waiting for a free slot before each.

        Runs that another process holds are due too; their tasks end at once.

        Args:
            only_new: Leave out runs whose markers the look before has found too.
        """
        now = asyncio.get_running_loop().time
        began_at, seen = now(), self._seen
        try:
            due = await self._sweeper.due_runs()
        except ContinuationsError as error:
            _log.error("the due runs could not be listed: %s", error)
            return _Look(began_work=False)
        self._start_pruning()
        keys = {
            run_id: frozenset(marker.key for marker in run_markers)
            for run_id, run_markers in due.markers_by_run.items()
        }
        self._seen = frozenset().union(*keys.values())
        seconds = now() - began_at
        began_work = False
        for run_id, run_markers in due.markers_by_run.items():
            is_new = not keys[run_id] <= seen
            if only_new and not is_new:
                continue
            if run_id in self._due_again:
                self._due_again[run_id].set()
                continue
            await self._wait_for_free_slot()
            if self._stop.is_set():
                break
            began_work = True
            self._start(run_id, run_markers, self._pauses if is_new else ())
        return _Look(began_work, due.seconds_to_next, seconds)

    def _start(
        self, run_id: str, run_markers: list[Marker], pauses: tuple[float, ...]
    ) -> None:
        self._due_again[run_id] = asyncio.Event()
        work = self._process_run(run_id, run_markers, pauses)
        self._tasks_by_run[run_id] = asyncio.create_task(work)

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

    async def _process_run(
        self, run_id: str, due_markers: list[Marker], pauses: tuple[float, ...]
    ) -> None:
        try:
            report = await self._try_until_it_arrives(run_id, due_markers, pauses)
        except Exception:  # noqa: BLE001 - one run's error must not stop the others
            _log.exception("run %s cannot continue now", run_id)
        else:
            if report.error is not None:
                cause = report.error.__cause__
                text = "run %s cannot continue now: %s"
                _log.warning(text, run_id, report.error, exc_info=cause)
        finally:
            del self._tasks_by_run[run_id]
            if self._due_again.pop(run_id).is_set():
                self._sweeper.objects.announce_work()

    async def _try_until_it_arrives(
        self, run_id: str, due_markers: list[Marker], pauses: tuple[float, ...]
    ) -> RunReport:
        """Look at a run; again if a marker came before the thing that it announces."""
        due_again = self._due_again[run_id]
        for seconds in pauses:
            report = await self._sweeper.try_run(run_id, due_markers, looks_again=True)
            if not report.is_early or self._stop.is_set():
                return report
            await _first_of((self._stop, due_again), seconds)
            due_again.clear()
        return await self._sweeper.try_run(run_id, due_markers)
