"""Work on one run in a store: take in what came, claim, drive, keep, tell."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from continuations import __version__
from continuations.authoring.manifest import differences, manifest_of
from continuations.core.events import RunStopped
from continuations.core.plan import plan
from continuations.core.reducer import advance
from continuations.core.run import ENDED, Failure
from continuations.engine import fold, opening
from continuations.engine.bound import Bound
from continuations.engine.drive import Drive, heard, never
from continuations.engine.fold import Folder
from continuations.engine.journal import StoreJournal
from continuations.engine.outcomes import outcome_of
from continuations.engine.perform import Performer
from continuations.engine.standing import (
    abandoned,
    can_go_on,
    deadline_key,
    publish,
    tell,
    wakes,
)
from continuations.errors import (
    ClockOff,
    ContinuationsError,
    InvalidInput,
    RunExists,
    StaleRun,
    StoreError,
)
from continuations.ledger import claims, inbox, waits
from continuations.ledger.arrivals import Arrivals, arrivals, read_cancellation
from continuations.ledger.claims import Told
from continuations.ledger.decide import close
from continuations.ledger.glance import glance
from continuations.ledger.versions import Versions
from continuations.wire.continuation import Continuation
from continuations.wire.records import Cancellation, Letter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.authoring.agent import Agent
    from continuations.authoring.binding import Binding
    from continuations.authoring.manifest import Change
    from continuations.core.table import Table
    from continuations.core.waits import Wait
    from continuations.engine.outcomes import Outcome
    from continuations.engine.perform import ModelShelf
    from continuations.engine.ports import Pause, Ports
    from continuations.engine.settings import Settings
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import Loaded

_log = logging.getLogger("continuations")


@dataclass(slots=True, kw_only=True)
class Worker:
    """Moves one run of a store on, in this process."""

    objects: Objects
    binding: Binding
    models: ModelShelf
    ports: Ports
    settings: Settings
    run_id: str
    context: Any = None
    pause: Pause = never

    @property
    def versions(self) -> Versions:
        """The versions of the run."""
        return Versions(self.objects, self.run_id)

    # The two ways in ----------------------------------------------------------

    async def start(self, table: Table) -> Outcome:
        """Create the run and work on it; raises `StaleRun` if its id is taken."""
        return await self._work(None, table, Arrivals())

    async def resume(self) -> Outcome:
        """Work on the run if anything can move; else tell how it stands."""
        clock = self.ports.clock
        before = clock.now()
        seen = await glance(self.objects, self.run_id)
        told = Told(before, seen.told, clock.now())
        loaded = await self.versions.newest(seen.newest)
        if loaded.table.run.status in ENDED:
            return self._outcome(loaded, self._changes(loaded.table))
        claims.check_free(loaded.table.run, clock.now())
        arrived = await arrivals(self.objects, loaded.table, seen.arrived)
        return await self._work(loaded, loaded.table, arrived, told)

    async def cancel(self) -> Continuation:
        """End the run if it was cancelled and nobody holds it; needs no agents."""
        loaded = await self.versions.newest()
        run = loaded.table.run
        busy = run.claim is not None and run.claim.until > self.ports.clock.now()
        if run.status in ENDED or busy:
            return Continuation(loaded.table, loaded.number)
        # Its decisions are not read: one that is damaged must not keep a run alive.
        wish = await read_cancellation(self.objects, self.run_id)
        if wish is None:
            return Continuation(loaded.table, loaded.number)
        arrived = Arrivals(cancellation=wish)
        journal = self._journal(loaded)
        await journal.prepare()
        table = await self._cancelled(loaded.table, wish)
        await self._keep(journal, loaded.table, table, arrived)
        return Continuation(table, journal.number)

    async def check_same(self, table: Table) -> None:
        """Raise `RunExists` unless the run in the store began with the same input."""
        newest = await self.versions.newest()
        if newest.table.run.input_digest != table.run.input_digest:
            msg = (
                f"A run {self.run_id!r} was started with another input or agent. It "
                "was not touched. Use another run id, or resume that run."
            )
            raise RunExists(msg, run_id=self.run_id)

    # From outside -------------------------------------------------------------

    async def has_ended(self) -> bool:
        """Tell whether the run has ended; raises `RunNotFound`."""
        return (await self.versions.newest()).table.run.status in ENDED

    async def wish_cancelled(self, by: str | None, reason: str | None) -> None:
        """Record the wish to end the run; a crash leaves it recorded or not."""
        now = self.ports.clock.now()
        ulid = self.ports.ids.ulid(now)
        wish = Cancellation(id=ulid, at=now, by=by, reason=reason)
        await inbox.cancel(self.objects, self.run_id, wish)

    async def post(self, text: str, *, by: str | None) -> int:
        """Post a user message; raises `InvalidInput` if the run has ended."""
        message = opening.said_by_user(text)
        await self._check_open(0)
        now = self.ports.clock.now()
        letter = Letter(
            id=self.ports.ids.ulid(now), number=0, at=now, message=message, by=by
        )
        posted = await inbox.post(self.objects, self.run_id, letter)
        await self._check_open(posted.number)
        return posted.number

    async def _check_open(self, number: int) -> None:
        run = (await self.versions.newest()).table.run
        if run.status in ENDED and (number == 0 or run.inbox < number):
            msg = f"Run {run.id} is {run.status}; the message will not be read."
            raise InvalidInput(msg, run_id=run.id)

    # Working ------------------------------------------------------------------

    async def _work(
        self,
        loaded: Loaded | None,
        table: Table,
        arrived: Arrivals,
        told: Told | None = None,
    ) -> Outcome:
        while True:
            if loaded is not None and self.pause():
                return self._outcome(loaded, paused=_moves(table, arrived))
            before = table
            journal = self._journal(loaded, told, arrived.markers)
            told = None  # it is of the first look
            table = await self._taken_in(table, arrived, journal)
            if table is before and loaded is not None and not plan(table):
                return self._outcome(loaded, self._changes(before))
            table = await self._driven(table, journal, arrived)
            paused = can_go_on(table)
            untouched = table is before and not journal.holds_a_claim
            if paused and untouched and loaded is not None:
                return self._outcome(loaded, paused=True)
            # Only now: the schemas of tools that nobody waits for take their time.
            changes = self._changes(before)
            table = self._noted(table, changes)
            if paused:
                await journal.prepare_pause()
            arrived = await self._keep(journal, before, table, arrived)
            loaded = journal.loaded
            assert loaded is not None  # noqa: S101 - it was just committed
            table = loaded.table
            if paused or not wakes(table, arrived):
                return self._outcome(loaded, changes, paused=paused)

    async def _taken_in(
        self, table: Table, arrived: Arrivals, journal: StoreJournal
    ) -> Table:
        """Return the run with all that arrived; nothing is claimed yet."""
        if arrived.cancellation is not None:
            await journal.prepare()
            return await self._cancelled(table, arrived.cancellation)
        bound = Bound(self.binding)
        bound.check(table)
        folder = Folder(bound, self.ports)
        if table.run.claim is not None:
            attempt = claims.next_attempt(table.run)
            if attempt > self.settings.max_attempts:
                # Claimed first: its waits are closed by whoever ends the run, not by
                # one who finds that the run's worker is alive after all.
                await journal.commit(table, progressed=False)
                return await self._given_up(table, attempt - 1)
        after = folder.decided(folder.interrupted(table), arrived.decisions)
        after = heard(after, arrived.letters)
        now = self.ports.clock.now()
        late = any(fold.is_late(wait, now) for wait in after.waits.values())
        if after is table and not late:
            return table
        # Only after the last thing that can fail: from here on it is written.
        await journal.prepare()
        expired = await fold.expired(self.objects, after, self.ports)
        return await self._closing(table, folder.decided(after, expired))

    async def _driven(
        self, table: Table, journal: StoreJournal, arrived: Arrivals
    ) -> Table:
        """Drive the run as far as it goes, and keep what it came to if it must stop."""
        performer = Performer(
            Bound(self.binding),
            self.ports,
            self.models,
            self.context,
            self.settings.max_depth,
        )
        drive = Drive(table, performer, journal, arrived.letters, self.pause)
        try:
            await drive.drive()
        except (ClockOff, StaleRun, StoreError):
            raise
        except BaseException:
            # A fault in the code, or Ctrl-C: no worker died, so no claim must stay. But
            # a call may go on in its thread, or on the other side: as long as the claim
            # lasts nobody asks what became of it.
            if journal.holds_a_claim and not drive.cut_off:
                with suppress(ContinuationsError):
                    await asyncio.shield(journal.finish(drive.table))
            raise
        if drive.cancellation is not None and drive.table.run.status not in ENDED:
            return await self._cancelled(drive.table, drive.cancellation)
        if drive.failure is not None:
            if not journal.holds_a_claim:
                await journal.commit(drive.table, progressed=False)
            return await self._failed(drive.table, drive.failure)
        if drive.model_error is not None:
            # The guard stays: a sweep tries again.
            await journal.finish(drive.table)
            new = [w for key, w in drive.table.waits.items() if key not in table.waits]
            await publish(self.objects, new)
            kept = [w for key, w in drive.table.waits.items() if key in table.waits]
            await waits.mend(self.objects, kept)
            await tell(self.ports.notify, new)
            raise drive.model_error
        return drive.table

    async def _keep(
        self,
        journal: StoreJournal,
        before: Table,
        table: Table,
        arrived: Arrivals,
    ) -> Arrivals:
        """Commit a state that nobody works on, then do what follows from it.

        In this order: the version; the wait objects and deadlines that it names;
        people are told; what came in between is looked at; the markers go. A crash
        anywhere leaves a marker, and a sweep does the rest.
        """
        was_running = before.run.status == "running"
        await journal.finish(table)
        new = [
            wait
            for key, wait in table.waits.items()
            if was_running or key not in before.waits
        ]
        await publish(self.objects, new)
        await tell(self.ports.notify, new)
        over = [wait for key, wait in before.waits.items() if key not in table.waits]
        await waits.withdraw(self.objects, (wait.id for wait in over))
        came = Arrivals()
        if table.run.status not in ENDED:
            assert journal.loaded is not None  # noqa: S101 - it was just committed
            came = await arrivals(self.objects, journal.loaded.table)
            # Decided before its object was made, by somebody who read the version.
            await waits.withdraw(self.objects, came.decisions)
        await self._clear(journal, arrived, over)
        return came

    async def _clear(
        self, journal: StoreJournal, arrived: Arrivals, over: Iterable[Wait]
    ) -> None:
        deadlines = [deadline_key(wait) for wait in over]
        keys = {*arrived.markers, *deadlines, *journal.pauses, journal.guard or ""}
        for key in sorted(key for key in keys if key):
            await self.objects.delete(key)

    # Ways to end --------------------------------------------------------------

    async def _cancelled(self, table: Table, wish: Cancellation) -> Table:
        reason = wish.reason or "The run was cancelled."
        return await self._failed(table, Failure(code="cancelled", message=reason))

    async def _given_up(self, table: Table, attempts: int) -> Table:
        reason = f"its worker died {attempts} times in a row without making progress"
        return await self._failed(table, Failure(code="attempts", message=reason))

    async def _failed(self, table: Table, failure: Failure) -> Table:
        return await self._closing(table, advance(table, RunStopped(failure=failure)))

    async def _closing(self, before: Table, after: Table) -> Table:
        """Close the waits that end with their run, before its end is committed.

        The first decision stands here too: a person's yes that came before does not
        run any more, but it is what is on record.
        """
        if after.run.status not in ENDED:
            return after
        now = self.ports.clock.now()
        reason = after.run.failure.message if after.run.failure else None
        closing = [
            close(
                self.objects,
                wait,
                "cancel",
                now=now,
                ulid=self.ports.ids.ulid(now),
                reason=reason,
            )
            for wait in before.waits.values()
        ]
        await asyncio.gather(*closing)
        return after

    # Small questions ----------------------------------------------------------

    def _journal(
        self,
        loaded: Loaded | None,
        told: Told | None = None,
        standing: tuple[str, ...] = (),
    ) -> StoreJournal:
        return StoreJournal(
            self.objects,
            self.versions,
            loaded,
            self.ports,
            lease=self.settings.lease,
            attempt=claims.next_attempt(loaded.table.run) if loaded else 1,
            told=told,
            standing=standing,
        )

    def _changes(self, table: Table) -> tuple[Change, ...]:
        """Return how the code differs from that which the run last went on with."""
        agent = self.binding.find(table.run.agent)
        return differences(table.manifest, manifest(agent)) if agent else ()

    def _noted(self, table: Table, changes: tuple[Change, ...]) -> Table:
        agent = self.binding.find(table.run.agent)
        if not changes or agent is None:
            return table
        for change in changes:
            _log.info("run %s goes on with other code: %s", self.run_id, change)
        return replace(table, manifest=manifest(agent))

    def _outcome(
        self, loaded: Loaded, changes: tuple[Change, ...] = (), *, paused: bool = False
    ) -> Outcome:
        agent = self.binding.find(loaded.table.run.agent)
        continuation = Continuation(loaded.table, loaded.number)
        return outcome_of(continuation, agent, changes, paused=paused)


def _moves(table: Table, arrived: Arrivals) -> bool:
    return abandoned(table) or wakes(table, arrived)


def manifest(agent: Agent) -> str:
    """Return what an agent's code looks like in this process."""
    return manifest_of(agent, sdk_version=__version__)
