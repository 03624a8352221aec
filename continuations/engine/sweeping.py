"""Follow the markers that are due: mend what a crash left, resume what can move."""

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

# A run that cannot go on now is looked at again after this long, then after twice as
# long each time, so that neither a model that is down nor a run that never came to be
# is asked about for ever.
FIRST_RETRY_DELAY = timedelta(minutes=1)
MAX_RETRY_DELAY = timedelta(days=1)

MakeWorker = Callable[[str, RunOptions], "Worker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepResult:
    """What a sweep did: outcomes of what it resumed, errors of what it could not."""

    runs_checked: int = 0
    resumed: tuple[Outcome, ...] = ()
    errors: dict[str, ContinuationsError] = field(
        default_factory=dict[str, ContinuationsError]
    )


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Finds the runs whose time has come, and looks at each of them."""

    objects: Objects
    ports: Ports
    make_worker: MakeWorker
    run_options: RunOptions = DEFAULT_RUN_OPTIONS

    async def sweep(self) -> SweepResult:
        """Look once at every run that has a marker due, one after the other."""
        resumed: list[Outcome] = []
        failed: dict[str, ContinuationsError] = {}
        looked = 0
        for run_id, found in (await self.due_markers()).items():
            if self.run_options.should_pause():
                break
            looked += 1
            try:
                outcome = await self.process_run(run_id, found)
            except ContinuationsError as error:
                failed[run_id] = error
            else:
                resumed.extend([outcome] if outcome is not None else [])
        return SweepResult(runs_checked=looked, resumed=tuple(resumed), errors=failed)

    async def due_markers(self) -> dict[str, list[Marker]]:
        """Return the markers that are due, by run, the oldest first."""
        by_run: dict[str, list[Marker]] = {}
        async for marker in markers.list_due(self.objects, self.ports.clock.now()):
            by_run.setdefault(marker.run_id, []).append(marker)
        return by_run

    async def process_run(
        self, run_id: str, due_markers: list[Marker]
    ) -> Outcome | None:
        """Look at one run; returns its outcome if it was resumed.

        Raises what kept it from going on; then it is looked at again later.
        """
        look = _RunSweep(
            self.objects, self.ports, self.make_worker(run_id, self.run_options)
        )
        try:
            return await look.process(due_markers)
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
        """Look at one run; returns its outcome if it was resumed."""
        try:
            newest = await self.worker.versions.load_newest()
        except RunNotFound:
            # Its starter died before the first version, or is about to write it.
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
        """Make what the newest version names, and drop the markers that are done."""
        newest = await self.worker.versions.load_newest()
        state = newest.state
        if state.run.claim is not None:
            return
        if state.run.status not in ENDED_STATUSES:
            await publish_waits(self.objects, state.waits.values())
        # Also of waits that are long over: whoever made an object once more after the
        # decision, and died before it could look, left it for us.
        decided = await list_decided_wait_ids(self.objects, state.run.id)
        await waits.delete(self.objects, decided)
        for marker in due_markers:
            if not markers.is_needed(marker, newest.number, state):
                await self.objects.delete(marker.key)


def _without_old_guards(due_markers: list[Marker]) -> list[Marker]:
    """Leave out all guards but the newest: each try of a run makes one."""
    guards = [marker for marker in due_markers if marker.kind == "g"]
    newest = max(guards, key=lambda marker: int(marker.target), default=None)
    return [marker for marker in due_markers if marker.kind != "g" or marker is newest]


async def _postpone(objects: Objects, ports: Ports, due_markers: list[Marker]) -> None:
    """Have the run looked at later; the new marker is there before the old one goes."""
    now = ports.clock.now()
    for marker in _without_old_guards(due_markers):
        later = now + min(FIRST_RETRY_DELAY * 2**marker.tries, MAX_RETRY_DELAY)
        await markers.create(objects, marker.postponed(to_milliseconds(later)))
    for marker in due_markers:
        await objects.delete(marker.key)
