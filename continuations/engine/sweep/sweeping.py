"""Find the due runs of a store, and look at several of them at the same time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from continuations.engine import deadlines
from continuations.engine.arrivals.readiness import arrivals_unblock, needs_worker
from continuations.engine.journal.publishing import (
    look_back,
    notify_waits,
    publish_again,
    send_notices_again,
)
from continuations.engine.stack.stack_binding import StackBinding
from continuations.engine.worker_options import DEFAULT_RUN_OPTIONS, RunOptions
from continuations.errors import (
    AgentChanged,
    ClockOff,
    ContinuationsError,
    NewerFormat,
    PriceUnknown,
    RunBusy,
    RunErased,
    RunNotFound,
    StaleRun,
    StoreError,
    ToolsUnavailable,
)
from continuations.ledger import layout, markers
from continuations.ledger.arrivals.arrivals import read_arrivals
from continuations.ledger.arrivals.recorded_decisions import list_decided_wait_ids
from continuations.ledger.index import run_index, waits
from continuations.ledger.index.misdated_markers import redate_misdated
from continuations.ledger.repair.erasing import Eraser
from continuations.ledger.repair.retention import Pruner, PruneResult
from continuations.value_class import dataclass, replace
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Any

    from continuations.core.rows.waits import Wait
    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import Ports
    from continuations.engine.worker.worker import Worker
    from continuations.ledger.claims import Clock
    from continuations.ledger.event_keys import EventMarker
    from continuations.ledger.layout import Marker
    from continuations.ledger.objects import Objects
    from continuations.ledger.repair.erasing import ErasedRun
    from continuations.ledger.repair.retention import Retention
    from continuations.ledger.store_clock import StoreClock
    from continuations.ledger.versions import LoadedVersion


_log = logging.getLogger("continuations")

MakeWorker = Callable[[str, RunOptions], "Worker"]

# After these errors another process may be able to work on the run, so this one does
# not date its markers later.
_OWN_ERRORS = (
    *(AgentChanged, ClockOff, NewerFormat),
    *(PriceUnknown, StoreError, ToolsUnavailable),
)


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
        erased: The receipts of the ended runs that `Runner(retention=...)` keeps no
            longer.
    """

    runs_checked: int = 0
    resumed: tuple[Outcome, ...] = ()
    errors: dict[str, ContinuationsError] = field(
        default_factory=dict[str, ContinuationsError]
    )
    skipped: dict[str, ContinuationsError] = field(
        default_factory=dict[str, ContinuationsError]
    )
    erased: tuple[ErasedRun, ...] = ()


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
    retention: Retention | None = None

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
        pruned = await self.apply_retention()
        failed = {key: each.error for key, each in reports.items() if each.error}
        return SweepResult(
            runs_checked=len(reports),
            resumed=tuple(each.outcome for each in reports.values() if each.outcome),
            errors={**pruned.errors, **failed},
            erased=pruned.erased,
            skipped={
                key: each.skipped for key, each in reports.items() if each.skipped
            },
        )

    async def apply_retention(self) -> PruneResult:
        """Erase some of the ended runs that are kept no longer.

        It costs no request without a retention, nor within an hour after this process
        came to the newest of them. An error of the store is logged: a later sweep tries
        again.
        """
        if self.retention is None or self.run_options.should_pause():
            return PruneResult()
        if not self.memory.should_prune():
            return PruneResult()
        seed = self.ports.ids.new_ulid(self.ports.clock.now())
        pruner = Pruner(self.objects, self.clock, lambda: seed)
        try:
            result, self.memory.prune_after = await pruner.prune_some(
                self.retention, self.memory.prune_after, seed
            )
        except ContinuationsError as error:
            _log.warning("no ended run was erased: %s", error)
            return PruneResult()
        others = (RunBusy, RunErased, StaleRun)
        errors = {
            run_id: error
            for run_id, error in result.errors.items()
            if not isinstance(error, others)
        }
        return replace(result, errors=errors)

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
            try:
                run_markers += await self._process_events(found.due_events)
            except StoreError as error:
                # A transaction of an application may hold a wait for such an event.
                if not run_markers:
                    raise
                _log.warning("events are delivered later: %s", error)
        by_run: dict[str, list[Marker]] = {}
        for marker in run_markers:
            by_run.setdefault(marker.run_id, []).append(marker)
        due = [item for item in by_run.items() if self.memory.may_look_at(*item)]
        random.Random(seed).shuffle(due)  # noqa: S311 - not for secrets
        return DueRuns(dict(due), found.seconds_to_next)

    async def _process_events(self, due: Sequence[EventMarker]) -> list[Marker]:
        """End waits by events whose publisher died; return the markers of the runs."""
        from continuations.engine.sweep.event_sweep import EventSweep  # noqa: PLC0415 - rare

        clock, ids = self.ports.clock, self.ports.ids
        events = EventSweep(self.objects, self.clock, lambda: ids.new_ulid(clock.now()))
        return await events.process(due)

    async def try_run(
        self, run_id: str, due_markers: list[Marker], *, looks_again: bool = False
    ) -> RunReport:
        """Look at one run; report everything that it raises.

        The run has a task of its own. So code of the application that cancels its task,
        or raises `SystemExit`, stops only this run, and never the sweep. For
        `looks_again`, see `RunSweep`.
        """
        worker = self.make_worker(run_id, self.run_options)
        run_sweep = RunSweep(self.objects, self.clock, worker, looks_again)
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


# The delays before these looks are 34 hours together.
_LOOKS_BEFORE_DELETION = 11


@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of one look at a due run.

    Attributes:
        outcome: The outcome, if the run was resumed.
        error: Why the run cannot continue now.
        skipped: Why the run was left to other processes.
        is_early: Whether a marker says that something arrives now, and nothing has
            arrived yet. Each process creates the marker first.
    """

    outcome: Outcome | None = None
    error: ContinuationsError | None = None
    skipped: ContinuationsError | None = None
    is_early: bool = False


@dataclass(frozen=True, slots=True)
class RunSweep:
    """One look at one run, by the store's time.

    Attributes:
        objects: The store.
        clock: The store's time.
        worker: The worker of the run.
        looks_again: Whether the caller soon looks again if nothing has arrived yet.
            Otherwise this look repairs the run, and dates the markers of a run that
            does not exist later.
    """

    objects: Objects
    clock: StoreClock
    worker: Worker
    looks_again: bool = False

    async def process(self, due_markers: list[Marker]) -> RunReport:
        """Resume the run if it can progress, and repair what a crash left behind.

        Raises the error that stopped the run. Then its markers are as they were.
        """
        try:
            newest = await self.worker.versions.load_after_kept()
        except RunNotFound:
            # The starting process died before version 1, or is about to write it.
            is_early = any(m.due_ms == layout.DUE_NOW for m in due_markers)
            if is_early and self.looks_again:
                return RunReport(is_early=True)
            await self._delete_abandoned_files(due_markers)
            await self._postpone(due_markers, has_run=False)
            return RunReport()
        except RunErased:
            # The erasing process died, or a process that was frozen wrote afterwards.
            eraser = Eraser(self.objects, self.clock, self.worker.run_id)
            await eraser.finish(due_markers)
            return RunReport()
        claim = newest.state.run.claim
        if claim is not None and claim.until > self.clock.now():
            return RunReport()
        if not self._is_published(due_markers, newest):
            notify = self.worker.ports.notify
            await run_index.mend(self.objects, newest)
            await publish_again(self.objects, notify, newest.state)
            ports, open_waits = self.worker.ports, newest.state.waits.values()
            left = [m.key for m in due_markers if not _is_needed(m, newest)]
            await send_notices_again(self.objects, ports, newest, left)
            await look_back(self.objects, ports, open_waits)
        outcome = None
        if await self._can_progress(newest):
            skipped = self._why_not_ours(newest)
            if skipped is not None:
                return RunReport(skipped=skipped)
            outcome = await self.worker.resume()
        elif newest.state.run.status == "resting":
            await self._delete_releases(due_markers, newest)
        is_early = outcome is None and any(
            marker.due_ms == layout.DUE_NOW and _is_needed(marker, newest)
            for marker in due_markers
        )
        if not (is_early and self.looks_again):
            await self._repair(due_markers, newest)
        return RunReport(outcome=outcome, is_early=is_early)

    async def _delete_abandoned_files(self, due_markers: list[Marker]) -> None:
        """Delete the attachments of a start that never created its run."""
        looks = max((marker.fruitless_looks for marker in due_markers), default=0)
        if looks < _LOOKS_BEFORE_DELETION:
            return
        from continuations.ledger.repair.run_files import delete_abandoned  # noqa: PLC0415 - rarely needed

        await self._learn_time()
        await delete_abandoned(
            self.objects,
            self.worker.run_id,
            now=self.clock.now(),
            older_than=markers.MAX_RETRY_DELAY,
        )

    async def _learn_time(self) -> None:
        ports, run_id = self.worker.ports, self.worker.run_id
        nonce = ports.ids.new_ulid(ports.clock.now())
        await self.clock.learn(self.objects, run_id, nonce)

    async def back_off(self, due_markers: list[Marker]) -> None:
        """Let all sweeps look at the run later, after an error of the run itself."""
        try:
            newest = await self.worker.versions.load_newest()
        except ContinuationsError:
            await self._postpone(due_markers)
            return
        if newest.state.run.claim is not None:
            # The worker kept its claim, which may have no other guard than these
            # markers, also if the claimed version has taken the arrivals in.
            await self._postpone(due_markers)
            return
        await self._delete_unneeded(due_markers, newest)
        needed = [marker for marker in due_markers if _is_needed(marker, newest)]
        release = _release_marker(newest)
        if release is not None and not any(map(release.is_dated_copy, needed)):
            # The worker released the run in this look. After an error its marker is due
            # later; after a cancellation it is due now.
            is_due = release.due_ms <= to_milliseconds(self.clock.now())
            needed += [release] if is_due else []
        await self._postpone(needed)

    def _why_not_ours(self, newest: LoadedVersion) -> AgentChanged | None:
        """Return why this process cannot have the run's agents, or `None`."""
        state, registry = newest.state, self.worker.agent_registry
        if registry.find_root_agent(state.run.agent) is not None:
            return None
        try:
            StackBinding(registry).check_agents(state, {})
        except AgentChanged as error:
            return error
        return None

    async def _can_progress(self, newest: LoadedVersion) -> bool:
        state = newest.state
        if state.run.has_ended:
            return False
        now, open_waits = self.clock.now(), state.waits.values()
        plain = (wait for wait in open_waits if not wait.has_slots)
        if deadlines.late_waits(plain, now) or needs_worker(state):
            return True
        arrived = await read_arrivals(self.objects, state)
        late = deadlines.late_waits(map(arrived.current, open_waits), now)
        return bool(late) or arrivals_unblock(state, arrived)

    async def _tell_people(
        self, due_markers: list[Marker], newest: LoadedVersion
    ) -> None:
        """Remind people of open waits, and announce waits with a later deadline.

        The marker of each is deleted last, so no person is left out after a crash.
        """
        state = newest.state
        if state.run.has_ended:
            return
        by_ulid = {
            layout.parse_wait_id(wait.id).ulid: wait
            for wait in state.waits.values()
            if wait.has_slots or wait.remind_after
        }
        reasons = {"e": self._finish_moving, "n": self._remind}
        due = [m for m in due_markers if m.reason in reasons and m.target in by_ulid]
        left = [m for m in due if await self.objects.keys(m.key, limit=1)]
        if not left:
            return
        arrived = await read_arrivals(self.objects, state)
        for marker in left:
            wait = by_ulid[marker.target]
            if wait.id not in arrived.decisions:
                await reasons[marker.reason](marker, wait, arrived.current(wait))

    async def _finish_moving(self, marker: Marker, opened: Wait, wait: Wait) -> None:
        """Announce a wait whose deadline was moved, and delete the old one's marker.

        The process that moved the deadline stopped before it did that. The marker of
        the new deadline precedes its slot, so it exists.
        """
        if not opened.has_slots or wait.deadline is None:
            return
        # With a clock that was ahead until now, it may be the marker of the new one.
        is_old = marker.due_ms < to_milliseconds(wait.deadline)
        if is_old and self.clock.now() < wait.deadline:
            await notify_waits(self.worker.ports.notify, [wait])
            await self.objects.delete(marker.key)

    async def _remind(self, marker: Marker, opened: Wait, wait: Wait) -> None:
        """Remind people of a wait, and create the marker of the next reminder.

        The clock of this machine may be ahead. Then the reminder is not due yet.
        """
        await self._learn_time()
        if marker.due_ms > to_milliseconds(self.clock.now()):
            return
        number = markers.reminder_number(opened, self.clock.now())
        reminder = replace(wait, notice=f"reminder-{number}")
        await notify_waits(self.worker.ports.notify, [reminder])
        following = markers.reminder_marker(opened, number + 1)
        if following is not None:
            await markers.create(self.objects, following)
        await self.objects.delete(marker.key)

    async def _repair(self, due_markers: list[Marker], before: LoadedVersion) -> None:
        """Delete wait objects and markers that are done."""
        newest = await self.worker.versions.load_after_kept()
        state = newest.state
        if state.run.claim is not None or self.worker.keeps_markers:
            return  # in the second case the next sweep repairs the run
        if not self.worker.has_followed(before.number, newest.number):
            # Another process wrote a version during this look. If it died before it
            # published the version, the markers lead the next sweep to that version.
            return
        if not self._is_published(due_markers, before):
            # This includes waits that were decided long ago: a process may have created
            # a wait object again after the decision, and died before it deleted it.
            decided = await list_decided_wait_ids(self.objects, state.run.id)
            await waits.delete(self.objects, decided)
        await self._tell_people(due_markers, newest)
        await self._delete_unneeded(due_markers, newest)

    def _is_published(self, due_markers: list[Marker], version: LoadedVersion) -> bool:
        """Return whether everything that follows from a version was published.

        A worker deletes the marker of its version at last. So a marker that the version
        does not need was left by a process that stopped in between.
        """
        return all(_is_needed(marker, version) for marker in due_markers)

    async def _delete_unneeded(
        self, due_markers: list[Marker], newest: LoadedVersion
    ) -> None:
        for marker in due_markers:
            if not _is_needed(marker, newest):
                await self.objects.delete(marker.key)

    async def _delete_releases(
        self, due_markers: list[Marker], newest: LoadedVersion
    ) -> None:
        """Delete the release markers of a thread that rests over no message.

        They guard messages behind the turn that ended. A later message has its own.
        """
        for marker in due_markers:
            if marker.reason == "r" and int(marker.target) <= newest.number:
                await self.objects.delete(marker.key)

    async def _postpone(
        self, due_markers: list[Marker], *, has_run: bool = True
    ) -> None:
        """Replace due markers by later ones; create the new before deleting the old."""
        for marker in _without_old_guards(due_markers):
            await markers.postpone(self.objects, self.clock, marker, has_run=has_run)
        for marker in due_markers:
            await self.objects.delete(marker.key)


def _is_needed(marker: Marker, version: LoadedVersion) -> bool:
    return markers.is_needed(marker, version.number, version.state)


def _release_marker(version: LoadedVersion) -> Marker | None:
    """Return the marker with which the run's last worker released it, or `None`."""
    if version.state.run.claim is not None:
        return None
    keys = filter(layout.is_release_marker, version.marker_keys)
    return next(map(layout.parse_marker, keys), None)


def _without_old_guards(due_markers: list[Marker]) -> list[Marker]:
    """Leave out all guards but the newest; every try of a run creates one."""
    guards = [marker for marker in due_markers if marker.reason == "g"]
    newest = max(guards, key=lambda marker: int(marker.target), default=None)
    return [
        marker for marker in due_markers if marker.reason != "g" or marker is newest
    ]


_FIRST_PAUSE_SECONDS = 60.0
_MAX_PAUSE_SECONDS = 3600.0
_MAX_RUNS = 100_000
_SECONDS_BETWEEN_CHECKS_OF_DATES = 3600.0
_SECONDS_PER_WALK = 3600.0


@dataclass(frozen=True, slots=True)
class _LeftAlone:
    until: float
    pause: float
    marker_keys: frozenset[str]


class SweepMemory:
    """The runs that this process leaves alone, and when it last checked all dates.

    Times are of the clock that counts sleep, so a wrong wall clock does not matter.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left_alone: dict[str, _LeftAlone] = {}
        self._dates_checked_at: float | None = None
        # Where the walk over ended runs goes on; "" if it came to its end.
        self.prune_after = ""
        self._pruned_at: float | None = None

    def may_look_at(self, run_id: str, due_markers: list[Marker]) -> bool:
        """Return whether this process may look at a run now.

        It may as soon as a new marker shows that something arrived.
        """
        entry = self._left_alone.get(run_id)
        if entry is None or entry.until <= self._clock.elapsed():
            return True
        return any(marker.key not in entry.marker_keys for marker in due_markers)

    def leave_alone(self, run_id: str, due_markers: list[Marker]) -> bool:
        """Leave a run alone: a minute, then twice as long each time, up to an hour.

        Returns whether this is the first time.
        """
        entry = self._left_alone.pop(run_id, None)
        pause = (
            _FIRST_PAUSE_SECONDS
            if entry is None
            else min(entry.pause * 2, _MAX_PAUSE_SECONDS)
        )
        if len(self._left_alone) >= _MAX_RUNS:
            del self._left_alone[next(iter(self._left_alone))]
        self._left_alone[run_id] = _LeftAlone(
            until=self._clock.elapsed() + pause,
            pause=pause,
            marker_keys=frozenset(marker.key for marker in due_markers),
        )
        return entry is None

    def forget(self, run_id: str) -> None:
        """Look at a run again whenever it is due."""
        self._left_alone.pop(run_id, None)

    def should_prune(self) -> bool:
        """Return True at first, while a walk has not ended, and then once an hour."""
        now, last = self._clock.elapsed(), self._pruned_at
        is_over = self.prune_after == "" and last is not None
        if is_over and now < (last or 0) + _SECONDS_PER_WALK:
            return False
        self._pruned_at = now
        return True

    def should_check_dates(self) -> bool:
        """Return True at first, and then once an hour."""
        now, last = self._clock.elapsed(), self._dates_checked_at
        if last is not None and now < last + _SECONDS_BETWEEN_CHECKS_OF_DATES:
            return False
        self._dates_checked_at = now
        return True
