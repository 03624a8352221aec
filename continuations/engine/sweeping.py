"""Find the due runs of a store, and look at several of them at the same time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from continuations.engine.run_options import DEFAULT_RUN_OPTIONS, RunOptions
from continuations.engine.run_sweep import RunReport, RunSweep
from continuations.errors import (
    AgentChanged,
    ClockOff,
    ContinuationsError,
    NewerFormat,
    PriceUnknown,
    RunBusy,
    RunErased,
    StaleRun,
    StoreError,
)
from continuations.ledger import markers
from continuations.ledger.misdated_markers import redate_misdated
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Any

    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import Ports
    from continuations.engine.sweep_memory import SweepMemory
    from continuations.engine.worker import Worker
    from continuations.ledger.event_keys import EventMarker
    from continuations.ledger.layout import Marker
    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock

_log = logging.getLogger("continuations")

MakeWorker = Callable[[str, RunOptions], "Worker"]

# After these errors another process may be able to work on the run, so this one does
# not date its markers later.
_OWN_ERRORS = (AgentChanged, ClockOff, NewerFormat, PriceUnknown, StoreError)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The result of a sweep.

    Attributes:
        runs_checked: Number of runs that this sweep looked at.
        resumed: Outcomes of the runs that were resumed.
        errors: Errors by run id. These runs are checked again later.
        skipped: Runs that only other processes can work on, with the reason by run id:
            this process does not have their agent, or their format is newer. They are
            due for other processes as before. The same runner looks at them again
            after a minute, then after twice as long each time, up to an hour.
    """

    runs_checked: int = 0
    resumed: tuple[Outcome, ...] = ()
    errors: dict[str, ContinuationsError] = field(
        default_factory=dict[str, ContinuationsError]
    )
    skipped: dict[str, ContinuationsError] = field(
        default_factory=dict[str, ContinuationsError]
    )


@dataclass(frozen=True, slots=True)
class DueRuns:
    """The due markers of each run, and the time until the next marker is due."""

    markers_by_run: dict[str, list[Marker]]
    seconds_to_next: float | None


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Finds the due runs of a store and looks at each of them."""

    objects: Objects
    ports: Ports
    make_worker: MakeWorker
    memory: SweepMemory
    clock: StoreClock
    run_options: RunOptions = DEFAULT_RUN_OPTIONS

    async def sweep(self, max_concurrent_runs: int) -> SweepResult:
        """Look at every run that has a due marker, several at the same time."""
        reports: dict[str, RunReport] = {}
        free_slots = asyncio.Semaphore(max_concurrent_runs)

        async def look(run_id: str, run_markers: list[Marker]) -> None:
            try:
                if not self.run_options.should_pause():
                    reports[run_id] = await self.try_run(run_id, run_markers)
            finally:
                free_slots.release()

        due = (await self.due_runs()).markers_by_run
        try:
            async with asyncio.TaskGroup() as group:
                for run_id, run_markers in due.items():
                    await free_slots.acquire()
                    group.create_task(look(run_id, run_markers))
        except BaseExceptionGroup as errors:
            # Only `should_pause` can raise here: a look reports every other error.
            raise errors.exceptions[0] from None
        return SweepResult(
            runs_checked=len(reports),
            resumed=tuple(each.outcome for each in reports.values() if each.outcome),
            errors={key: each.error for key, each in reports.items() if each.error},
            skipped={
                key: each.skipped for key, each in reports.items() if each.skipped
            },
        )

    async def due_runs(self) -> DueRuns:
        """Return the due runs that this process does not leave alone.

        The order is random: no run always comes after all others, also if a process
        has time for only a few of them.
        """
        seed = self.ports.ids.new_ulid(self.ports.clock.now())
        if self.memory.should_check_dates():
            await redate_misdated(self.objects, self.clock, seed)
        found = await markers.read_due(self.objects, self.clock)
        run_markers = [*found.due]
        if found.due_events:
            run_markers += await self._process_events(found.due_events)
        by_run: dict[str, list[Marker]] = {}
        for marker in run_markers:
            by_run.setdefault(marker.run_id, []).append(marker)
        due = [item for item in by_run.items() if self.memory.may_look_at(*item)]
        random.Random(seed).shuffle(due)  # noqa: S311 - not for secrets
        return DueRuns(dict(due), found.seconds_to_next)

    async def _process_events(self, due: Sequence[EventMarker]) -> list[Marker]:
        """End waits by events whose publisher died; return the markers of the runs."""
        from continuations.engine.event_sweep import EventSweep  # noqa: PLC0415 - rare

        clock, ids = self.ports.clock, self.ports.ids
        events = EventSweep(self.objects, self.clock, lambda: ids.new_ulid(clock.now()))
        return await events.process(due)

    async def try_run(self, run_id: str, due_markers: list[Marker]) -> RunReport:
        """Look at one run; report everything that it raises.

        The run has a task of its own. So code of the application that cancels its task,
        or raises `SystemExit`, stops only this run, and never the sweep.
        """
        run_sweep = RunSweep(
            self.objects, self.clock, self.make_worker(run_id, self.run_options)
        )
        look = asyncio.create_task(_settle(run_sweep, due_markers))
        try:
            await asyncio.wait({look})
        except asyncio.CancelledError:
            # The sweep itself is cancelled. Its runs release their claims first.
            look.cancel()
            await asyncio.wait({look})
            raise
        result = asyncio.CancelledError() if look.cancelled() else look.result()
        if isinstance(result, RunReport):
            report = result
        elif isinstance(result, RunBusy | RunErased | StaleRun):
            return RunReport()
        else:
            report = _report_of_error(run_id, result)
            if not _is_of_this_process(result):
                await _log_errors(run_id, run_sweep.back_off(due_markers))
                return report
        self._remember(run_id, due_markers, report)
        return report

    def _remember(
        self, run_id: str, due_markers: list[Marker], report: RunReport
    ) -> None:
        if report.error is None and report.skipped is None:
            self.memory.forget(run_id)
            return
        is_first = self.memory.leave_alone(run_id, due_markers)
        if is_first and report.skipped is not None:
            _log.info("run %s is left to other processes: %s", run_id, report.skipped)


async def _settle(
    run_sweep: RunSweep, due_markers: list[Marker]
) -> RunReport | BaseException:
    # An exception like SystemExit would stop the event loop if a task raised it.
    try:
        return await run_sweep.process(due_markers)
    except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - reported by the caller
        return error


def _report_of_error(run_id: str, error: BaseException) -> RunReport:
    if isinstance(error, NewerFormat):
        return RunReport(skipped=error)
    if isinstance(error, ContinuationsError):
        return RunReport(error=error)
    msg = (
        f"run {run_id} cannot continue: code of the application raised "
        f"{type(error).__name__}. Correct the cause, which is the `__cause__` of this "
        "error. A later sweep tries the run again."
    )
    reported = ContinuationsError(msg, run_id=run_id)
    reported.__cause__ = error
    return RunReport(error=reported)


def _is_of_this_process(error: BaseException) -> bool:
    """Return whether an error says something about this process, not about the run."""
    return isinstance(error, _OWN_ERRORS)


async def _log_errors(run_id: str, operation: Coroutine[Any, Any, None]) -> None:
    """Run an operation whose failure must not hide the error that is reported."""
    try:
        await operation
    except ContinuationsError:
        _log.warning("run %s could not be postponed", run_id, exc_info=True)
