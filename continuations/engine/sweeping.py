"""Follow the markers that are due: mend what a crash left, resume what can move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.core.run import ENDED
from continuations.engine import fold
from continuations.engine.standing import abandoned, publish, wakes
from continuations.errors import ContinuationsError, RunBusy, RunNotFound, StaleRun
from continuations.ledger import markers, waits
from continuations.ledger.arrivals import arrivals, decided_waits
from continuations.wire.fields import milliseconds

if TYPE_CHECKING:
    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import Pause, Ports
    from continuations.engine.worker import Worker
    from continuations.ledger.layout import Marker
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import Loaded

# A run that cannot go on now is looked at again after this long, then after twice as
# long each time, so that neither a model that is down nor a run that never came to be
# is asked about for ever.
LATER = timedelta(minutes=1)
LATEST = timedelta(days=1)

MakeWorker = Callable[[str], "Worker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep did: outcomes of what it resumed, errors of what it could not."""

    looked: int = 0
    resumed: tuple[Outcome, ...] = ()
    failed: dict[str, ContinuationsError] = field(
        default_factory=dict[str, ContinuationsError]
    )


@dataclass(frozen=True, slots=True)
class Sweeper:
    """Finds the runs whose time has come, and looks at each of them."""

    objects: Objects
    ports: Ports
    make: MakeWorker
    pause: Pause | None = None

    async def sweep(self) -> Swept:
        """Look once at every run that has a marker due, one after the other."""
        resumed: list[Outcome] = []
        failed: dict[str, ContinuationsError] = {}
        looked = 0
        for run_id, found in (await self.due()).items():
            if self.pause is not None and self.pause():
                break
            looked += 1
            try:
                outcome = await self.look(run_id, found)
            except ContinuationsError as error:
                failed[run_id] = error
            else:
                resumed.extend([outcome] if outcome is not None else [])
        return Swept(looked=looked, resumed=tuple(resumed), failed=failed)

    async def due(self) -> dict[str, list[Marker]]:
        """Return the markers that are due, by run, the oldest first."""
        by_run: dict[str, list[Marker]] = {}
        async for marker in markers.due(self.objects, self.ports.clock.now()):
            by_run.setdefault(marker.run_id, []).append(marker)
        return by_run

    async def look(self, run_id: str, found: list[Marker]) -> Outcome | None:
        """Look at one run; returns its outcome if it was resumed.

        Raises what kept it from going on; then it is looked at again later.
        """
        look = _Look(self.objects, self.ports, self.make(run_id))
        try:
            return await look.at(found)
        except (RunBusy, StaleRun):
            return None
        except ContinuationsError:
            await _redate(self.objects, self.ports, found)
            raise


@dataclass(frozen=True, slots=True)
class _Look:
    objects: Objects
    ports: Ports
    worker: Worker

    async def at(self, found: list[Marker]) -> Outcome | None:
        """Look at one run; returns its outcome if it was resumed."""
        try:
            newest = await self.worker.versions.newest()
        except RunNotFound:
            # Its starter died before the first version, or is about to write it.
            await _redate(self.objects, self.ports, found)
            return None
        claim = newest.table.run.claim
        if claim is not None and claim.until > self.ports.clock.now():
            return None
        outcome = None
        if await self._can_move(newest):
            outcome = await self.worker.resume()
        await self._mend(found)
        return outcome

    async def _can_move(self, newest: Loaded) -> bool:
        table = newest.table
        if table.run.status in ENDED:
            return False
        now = self.ports.clock.now()
        late = any(fold.is_late(wait, now) for wait in table.waits.values())
        if late or abandoned(table):
            return True
        return wakes(table, await arrivals(self.objects, table))

    async def _mend(self, found: list[Marker]) -> None:
        """Make what the newest version names, and drop the markers that are done."""
        newest = await self.worker.versions.newest()
        table = newest.table
        if table.run.claim is not None:
            return
        if table.run.status not in ENDED:
            await publish(self.objects, table.waits.values())
        # Also of waits that are long over: whoever made an object once more after the
        # decision, and died before it could look, left it for us.
        decided = await decided_waits(self.objects, table.run.id)
        await waits.withdraw(self.objects, decided)
        for marker in found:
            if not markers.stands(marker, newest.number, table):
                await self.objects.delete(marker.key)


def _needed(found: list[Marker]) -> list[Marker]:
    """Leave out all guards but the newest: each try of a run makes one."""
    guards = [marker for marker in found if marker.letter == "g"]
    newest = max(guards, key=lambda marker: int(marker.what), default=None)
    return [marker for marker in found if marker.letter != "g" or marker is newest]


async def _redate(objects: Objects, ports: Ports, found: list[Marker]) -> None:
    """Have the run looked at later; the new marker is there before the old one goes."""
    now = ports.clock.now()
    for marker in _needed(found):
        later = now + min(LATER * 2**marker.tries, LATEST)
        await markers.make(objects, marker.again(milliseconds(later)))
    for marker in found:
        await objects.delete(marker.key)
