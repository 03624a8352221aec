"""A loop for one machine: look for what is due, work on some of it at a time, stop."""

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
    """Work on what is due until `stop` is set, or this process is told to end."""
    if not interval > 0 or max_concurrent_runs < 1:
        msg = "every is a number of seconds above 0, at_once a number of runs"
        raise InvalidInput(msg)
    crew = _WorkerPool(sweeper, stop, max_concurrent_runs)
    with _stop_on_signals(stop):
        while not stop.is_set():
            await crew.start_due_runs()
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), interval)
        await crew.join()


class _WorkerPool:
    """The runs that are worked on in this process, each by a task of its own."""

    def __init__(
        self, sweeper: Sweeper, stop: asyncio.Event, max_concurrent_runs: int
    ) -> None:
        self._sweeper = sweeper
        self._stop = stop
        self._max_concurrent_runs = max_concurrent_runs
        self._tasks_by_run: dict[str, asyncio.Task[None]] = {}

    async def start_due_runs(self) -> None:
        """Begin with all that is due, one after the other as there is room.

        Runs that another process holds are due as well; each is let go of at once, and
        the next one has its place.
        """
        try:
            due = await self._sweeper.due_markers()
        except ContinuationsError:
            _log.exception("the store could not be asked for what is due")
            return
        for run_id, found in due.items():
            await self._wait_for_free_slot()
            if self._stop.is_set():
                return
            if run_id not in self._tasks_by_run:
                task = asyncio.create_task(self._process_run(run_id, found))
                self._tasks_by_run[run_id] = task

    async def _wait_for_free_slot(self) -> None:
        """Wait until one more may begin, or nothing more."""
        told = asyncio.ensure_future(self._stop.wait())
        try:
            while (
                len(self._tasks_by_run) >= self._max_concurrent_runs and not told.done()
            ):
                waiting = {told, *self._tasks_by_run.values()}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()

    async def join(self) -> None:
        """Wait until all that was begun has come to its end or was suspended."""
        await asyncio.gather(*self._tasks_by_run.values())

    async def _process_run(self, run_id: str, due_markers: list[Marker]) -> None:
        try:
            await self._sweeper.process_run(run_id, due_markers)
        except ContinuationsError as error:
            _log.warning("run %s cannot go on now: %s", run_id, error)
        except Exception:  # noqa: BLE001 - one run's fault must not stop the others
            _log.exception("run %s cannot go on now", run_id)
        finally:
            del self._tasks_by_run[run_id]


@contextmanager
def _stop_on_signals(stop: asyncio.Event) -> Generator[None]:
    """Have the first signal to end set the event, and the second do as it always did.

    Where handlers cannot be set (not the main thread, Windows) nothing is changed.
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
