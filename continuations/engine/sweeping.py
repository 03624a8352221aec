"""Process due markers: resume runs that can progress, repair after crashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.core.run import ENDED_STATUSES
from continuations.engine import deadlines
from continuations.engine.publishing import publish_waits
from continuations.engine.readiness import arrivals_unblock, needs_worker
from continuations.engine.run_options import DEFAULT_RUN_OPTIONS, RunOptions
from continuations.errors import ContinuationsError, RunBusy, RunNotFound, StaleRun
from continuations.ledger import markers, waits
from continuations.ledger.arrivals import list_decided_wait_ids, read_arrivals
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import Ports
    from continuations.engine.worker import Worker
    from continuations.ledger.layout import Marker
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import LoadedVersion

# The first retry of a run that cannot continue comes after this time, each further one
# after twice the time. So a model that is down, or a run that was never created, costs
# little.
FIRST_RETRY_DELAY = timedelta(minutes=1)
MAX_RETRY_DELAY = timedelta(days=1)

MakeWorker = Callable[[str, RunOptions], "Worker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """The result of a sweep.

    Attributes:
        runs_checked: Number of runs that were due.
        resumed: Outcomes of the runs that were resumed.
        errors: Errors by run id. These runs are checked again later.
    """

    runs_checked: int = 0
    resumed: tuple[Outcome, ...] = ()
    errors: dict[str, ContinuationsError] = field(
        default_factory=dict[str, ContinuationsError]
    )


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Finds the due runs of a store and processes each of them."""

    objects: Objects
    ports: Ports
    make_worker: MakeWorker
    run_options: RunOptions = DEFAULT_RUN_OPTIONS

    async def sweep(self) -> SweepResult:
        """Process every run that has a due marker, one after the other."""
        resumed: list[Outcome] = []
        errors: dict[str, ContinuationsError] = {}
        runs_checked = 0
        for run_id, run_markers in (await self.due_markers()).items():
            if self.run_options.should_pause():
                break
            runs_checked += 1
            try:
                outcome = await self.process_run(run_id, run_markers)
            except ContinuationsError as error:
                errors[run_id] = error
            else:
                resumed.extend([outcome] if outcome is not None else [])
        return SweepResult(
            runs_checked=runs_checked, resumed=tuple(resumed), errors=errors
        )

    async def due_markers(self) -> dict[str, list[Marker]]:
        """Return the due markers by run id, the oldest first."""
        by_run: dict[str, list[Marker]] = {}
        async for marker in markers.list_due(self.objects, self.ports.clock.now()):
            by_run.setdefault(marker.run_id, []).append(marker)
        return by_run

    async def process_run(
        self, run_id: str, due_markers: list[Marker]
    ) -> Outcome | None:
        """Resume and repair one run; return its outcome if it was resumed.

        Raises the error that stopped it, after its markers were postponed.
        """
        run_sweep = _RunSweep(
            self.objects, self.ports, self.make_worker(run_id, self.run_options)
        )
        try:
            return await run_sweep.process(due_markers)
        except (RunBusy, StaleRun):
            return None
        except ContinuationsError:
            await _postpone(self.objects, self.ports, due_markers)
            raise


@dataclass(frozen=True, slots=True)
class _RunSweep:
    objects: Objects
    ports: Ports
    worker: Worker

    async def process(self, due_markers: list[Marker]) -> Outcome | None:
        """Resume and repair the run; return its outcome if it was resumed."""
        try:
            newest = await self.worker.versions.load_newest()
        except RunNotFound:
            # The starting process died before version 1, or is about to write it.
            await _postpone(self.objects, self.ports, due_markers)
            return None
        claim = newest.state.run.claim
        if claim is not None and claim.until > self.ports.clock.now():
            return None
        outcome = None
        if await self._can_progress(newest):
            outcome = await self.worker.resume()
        await self._repair(due_markers)
        return outcome

    async def _can_progress(self, newest: LoadedVersion) -> bool:
        state = newest.state
        if state.run.status in ENDED_STATUSES:
            return False
        late = deadlines.has_late_wait(state, self.ports.clock.now())
        if late or needs_worker(state):
            return True
        return arrivals_unblock(state, await read_arrivals(self.objects, state))

    async def _repair(self, due_markers: list[Marker]) -> None:
        """Create missing wait objects; delete objects and markers that are done."""
        newest = await self.worker.versions.load_newest()
        state = newest.state
        if state.run.claim is not None:
            return
        if state.run.status not in ENDED_STATUSES:
            await publish_waits(self.objects, state.waits.values())
        # This includes waits that were decided long ago: a process may have created a
        # wait object again after the decision, and died before it could delete it.
        decided = await list_decided_wait_ids(self.objects, state.run.id)
        await waits.delete(self.objects, decided)
        for marker in due_markers:
            if not markers.is_needed(marker, newest.number, state):
                await self.objects.delete(marker.key)


def _without_old_guards(due_markers: list[Marker]) -> list[Marker]:
    """Leave out all guards but the newest; every try of a run creates one."""
    guards = [marker for marker in due_markers if marker.reason == "g"]
    newest = max(guards, key=lambda marker: int(marker.target), default=None)
    return [
        marker for marker in due_markers if marker.reason != "g" or marker is newest
    ]


async def _postpone(objects: Objects, ports: Ports, due_markers: list[Marker]) -> None:
    """Replace due markers by later ones; create the new before deleting the old."""
    now = ports.clock.now()
    for marker in _without_old_guards(due_markers):
        later = now + min(
            FIRST_RETRY_DELAY * 2**marker.fruitless_looks, MAX_RETRY_DELAY
        )
        await markers.create(objects, marker.postponed(to_milliseconds(later)))
    for marker in due_markers:
        await objects.delete(marker.key)
