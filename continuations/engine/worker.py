"""Work on one run in a store: take in what came, claim, drive, keep, tell."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from continuations import __version__
from continuations.authoring.manifest import compare_manifests, make_manifest
from continuations.core.events import RunStopped
from continuations.core.plan import plan
from continuations.core.reducer import advance
from continuations.core.run import ENDED_STATUSES, Failure
from continuations.engine import arrival_reducer, new_run
from continuations.engine.arrival_reducer import ArrivalReducer
from continuations.engine.journal import StoreJournal
from continuations.engine.outcomes import outcome_of
from continuations.engine.performer import Performer
from continuations.engine.publishing import (
    arrivals_unblock,
    deadline_key,
    is_runnable,
    needs_worker,
    notify_waits,
    publish_waits,
)
from continuations.engine.run_loop import RunLoop, never_pause, with_messages
from continuations.engine.stack_binding import StackBinding
from continuations.errors import (
    ClockOff,
    ContinuationsError,
    InvalidInput,
    RunExists,
    StaleRun,
    StoreError,
)
from continuations.ledger import claims, inbox, waits
from continuations.ledger.arrivals import Arrivals, read_arrivals, read_cancel_request
from continuations.ledger.claims import ClockReading
from continuations.ledger.decisions import close_wait
from continuations.ledger.run_overview import read_overview
from continuations.ledger.versions import Versions
from continuations.wire.continuation import Continuation
from continuations.wire.records import CancelRequest, InboxMessage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from continuations.authoring.agent import Agent
    from continuations.authoring.manifest import ManifestChange
    from continuations.authoring.registry import AgentRegistry
    from continuations.core.state import RunState
    from continuations.core.waits import Wait
    from continuations.engine.outcomes import Outcome
    from continuations.engine.performer import ModelRegistry
    from continuations.engine.ports import Ports, ShouldPause
    from continuations.engine.worker_options import WorkerOptions
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import LoadedVersion

_log = logging.getLogger("continuations")


@dataclass(slots=True, kw_only=True)
class Worker:
    """Moves one run of a store on, in this process."""

    objects: Objects
    agent_registry: AgentRegistry
    model_registry: ModelRegistry
    ports: Ports
    options: WorkerOptions
    run_id: str
    context: Any = None
    should_pause: ShouldPause = never_pause

    @property
    def versions(self) -> Versions:
        """The versions of the run."""
        return Versions(self.objects, self.run_id)

    # The two ways in ----------------------------------------------------------

    async def start(self, state: RunState) -> Outcome:
        """Create the run and work on it; raises `StaleRun` if its id is taken."""
        return await self._work(None, state, Arrivals())

    async def resume(self) -> Outcome:
        """Work on the run if anything can move; else tell how it stands."""
        clock = self.ports.clock
        before = clock.now()
        seen = await read_overview(self.objects, self.run_id)
        told = ClockReading(before, seen.store_time, clock.now())
        if seen.newest_number == 0:
            raise self.versions.run_not_found_error()
        loaded = await self.versions.load(seen.newest_number)
        if loaded.state.run.status in ENDED_STATUSES:
            return self._outcome(loaded, self._code_changes(loaded.state))
        claims.check_free(loaded.state.run, clock.now())
        arrived = await read_arrivals(self.objects, loaded.state, seen.arrival_keys)
        return await self._work(loaded, loaded.state, arrived, told)

    async def cancel(self) -> Continuation:
        """End the run if it was cancelled and nobody holds it; needs no agents."""
        loaded = await self.versions.load_newest()
        run = loaded.state.run
        busy = run.claim is not None and run.claim.until > self.ports.clock.now()
        if run.status in ENDED_STATUSES or busy:
            return Continuation(loaded.state, loaded.number)
        # Its decisions are not read: one that is damaged must not keep a run alive.
        wish = await read_cancel_request(self.objects, self.run_id)
        if wish is None:
            return Continuation(loaded.state, loaded.number)
        arrived = Arrivals(cancel_request=wish)
        journal = self._make_journal(loaded)
        await journal.ensure_guarded()
        state = await self._end_as_cancelled(loaded.state, wish)
        await self._commit_and_publish(journal, loaded.state, state, arrived)
        return Continuation(state, journal.version_number)

    async def check_same_input(self, state: RunState) -> None:
        """Raise `RunExists` unless the run in the store began with the same input."""
        newest = await self.versions.load_newest()
        if newest.state.run.input_digest != state.run.input_digest:
            msg = (
                f"A run {self.run_id!r} was started with another input or agent. It "
                "was not touched. Use another run id, or resume that run."
            )
            raise RunExists(msg, run_id=self.run_id)

    # From outside -------------------------------------------------------------

    async def has_ended(self) -> bool:
        """Tell whether the run has ended; raises `RunNotFound`."""
        return (await self.versions.load_newest()).state.run.status in ENDED_STATUSES

    async def request_cancel(self, by: str | None, reason: str | None) -> None:
        """Record the wish to end the run; a crash leaves it recorded or not."""
        now = self.ports.clock.now()
        ulid = self.ports.ids.new_ulid(now)
        wish = CancelRequest(id=ulid, at=now, by=by, reason=reason)
        await inbox.record_cancel_request(self.objects, self.run_id, wish)

    async def post(self, text: str, *, by: str | None) -> int:
        """Post a user message; raises `InvalidInput` if the run has ended."""
        message = new_run.parse_user_message(text)
        await self._check_accepts_messages(0)
        now = self.ports.clock.now()
        letter = InboxMessage(
            id=self.ports.ids.new_ulid(now), number=0, at=now, message=message, by=by
        )
        posted = await inbox.post(self.objects, self.run_id, letter)
        await self._check_accepts_messages(posted.number)
        return posted.number

    async def _check_accepts_messages(self, message_number: int) -> None:
        run = (await self.versions.load_newest()).state.run
        if run.status in ENDED_STATUSES and (
            message_number == 0 or run.last_inbox_number < message_number
        ):
            msg = f"Run {run.id} is {run.status}; the message will not be read."
            raise InvalidInput(msg, run_id=run.id)

    # Working ------------------------------------------------------------------

    async def _work(
        self,
        loaded: LoadedVersion | None,
        state: RunState,
        arrived: Arrivals,
        clock_reading: ClockReading | None = None,
    ) -> Outcome:
        while True:
            if loaded is not None and self.should_pause():
                return self._outcome(loaded, paused=_can_progress(state, arrived))
            before = state
            journal = self._make_journal(loaded, clock_reading, arrived.marker_keys)
            clock_reading = None  # it is of the first look
            state = await self._apply_arrivals(state, arrived, journal)
            if state is before and loaded is not None and not plan(state):
                return self._outcome(loaded, self._code_changes(before))
            state = await self._run_loop(state, journal, arrived)
            paused = is_runnable(state)
            untouched = state is before and not journal.holds_a_claim
            if paused and untouched and loaded is not None:
                return self._outcome(loaded, paused=True)
            # Only now: the schemas of tools that nobody waits for take their time.
            changes = self._code_changes(before)
            state = self._with_current_manifest(state, changes)
            if paused:
                await journal.make_pause_marker()
            arrived = await self._commit_and_publish(journal, before, state, arrived)
            loaded = journal.loaded
            assert loaded is not None  # noqa: S101 - it was just committed
            state = loaded.state
            if paused or not arrivals_unblock(state, arrived):
                return self._outcome(loaded, changes, paused=paused)

    async def _apply_arrivals(
        self, state: RunState, arrived: Arrivals, journal: StoreJournal
    ) -> RunState:
        """Return the run with all that arrived; nothing is claimed yet."""
        if arrived.cancel_request is not None:
            await journal.ensure_guarded()
            return await self._end_as_cancelled(state, arrived.cancel_request)
        bound = StackBinding(self.agent_registry)
        bound.check_agents(state)
        folder = ArrivalReducer(bound, self.ports)
        if state.run.claim is not None:
            attempt = claims.next_attempt(state.run)
            if attempt > self.options.max_attempts:
                # Claimed first: its waits are closed by whoever ends the run, not by
                # one who finds that the run's worker is alive after all.
                await journal.commit(state, progressed=False)
                return await self._end_after_attempts(state, attempt - 1)
        after = folder.with_decisions(
            folder.with_interrupted_calls(state), arrived.decisions
        )
        after = with_messages(after, arrived.inbox_messages)
        now = self.ports.clock.now()
        late = any(
            arrival_reducer.is_past_deadline(wait, now) for wait in after.waits.values()
        )
        if after is state and not late:
            return state
        # Only after the last thing that can fail: from here on it is written.
        await journal.ensure_guarded()
        expired = await arrival_reducer.expire_waits(self.objects, after, self.ports)
        return await self._close_waits_if_ended(
            state, folder.with_decisions(after, expired)
        )

    async def _run_loop(
        self, state: RunState, journal: StoreJournal, arrived: Arrivals
    ) -> RunState:
        """Drive the run as far as it goes, and keep what it came to if it must stop."""
        performer = Performer(
            StackBinding(self.agent_registry),
            self.ports,
            self.model_registry,
            self.context,
            self.options.max_depth,
        )
        drive = RunLoop(
            state, performer, journal, arrived.inbox_messages, self.should_pause
        )
        try:
            await drive.drive()
        except (ClockOff, StaleRun, StoreError):
            raise
        except BaseException:
            # A fault in the code, or Ctrl-C: no worker died, so no claim must stay. But
            # a call may go on in its thread, or on the other side: as long as the claim
            # lasts nobody asks what became of it.
            if journal.holds_a_claim and not drive.call_interrupted:
                with suppress(ContinuationsError):
                    await asyncio.shield(journal.commit_and_release(drive.state))
            raise
        if (
            drive.cancel_request is not None
            and drive.state.run.status not in ENDED_STATUSES
        ):
            return await self._end_as_cancelled(drive.state, drive.cancel_request)
        if drive.failure is not None:
            if not journal.holds_a_claim:
                await journal.commit(drive.state, progressed=False)
            return await self._end_as_failed(drive.state, drive.failure)
        if drive.model_error is not None:
            # The guard stays: a sweep tries again.
            await journal.commit_and_release(drive.state)
            new = [w for key, w in drive.state.waits.items() if key not in state.waits]
            await publish_waits(self.objects, new)
            kept = [w for key, w in drive.state.waits.items() if key in state.waits]
            await waits.recreate_missing(self.objects, kept)
            await notify_waits(self.ports.notify, new)
            raise drive.model_error
        return drive.state

    async def _commit_and_publish(
        self,
        journal: StoreJournal,
        before: RunState,
        state: RunState,
        arrived: Arrivals,
    ) -> Arrivals:
        """Commit a state that nobody works on, then do what follows from it.

        In this order: the version; the wait objects and deadlines that it names;
        people are told; what came in between is looked at; the markers go. A crash
        anywhere leaves a marker, and a sweep does the rest.
        """
        was_running = before.run.status == "running"
        await journal.commit_and_release(state)
        new = [
            wait
            for key, wait in state.waits.items()
            if was_running or key not in before.waits
        ]
        await publish_waits(self.objects, new)
        await notify_waits(self.ports.notify, new)
        over = [wait for key, wait in before.waits.items() if key not in state.waits]
        await waits.delete(self.objects, (wait.id for wait in over))
        came = Arrivals()
        if state.run.status not in ENDED_STATUSES:
            assert journal.loaded is not None  # noqa: S101 - it was just committed
            came = await read_arrivals(self.objects, journal.loaded.state)
            # Decided before its object was made, by somebody who read the version.
            await waits.delete(self.objects, came.decisions)
        await self._delete_markers(journal, arrived, over)
        return came

    async def _delete_markers(
        self, journal: StoreJournal, arrived: Arrivals, closed_waits: Iterable[Wait]
    ) -> None:
        deadlines = [deadline_key(wait) for wait in closed_waits]
        keys = {
            *arrived.marker_keys,
            *deadlines,
            *journal.pause_markers,
            journal.guard_key or "",
        }
        for key in sorted(key for key in keys if key):
            await self.objects.delete(key)

    # Ways to end --------------------------------------------------------------

    async def _end_as_cancelled(
        self, state: RunState, cancel_request: CancelRequest
    ) -> RunState:
        reason = cancel_request.reason or "The run was cancelled."
        return await self._end_as_failed(
            state, Failure(code="cancelled", message=reason)
        )

    async def _end_after_attempts(self, state: RunState, attempts: int) -> RunState:
        reason = f"its worker died {attempts} times in a row without making progress"
        return await self._end_as_failed(
            state, Failure(code="attempts", message=reason)
        )

    async def _end_as_failed(self, state: RunState, failure: Failure) -> RunState:
        return await self._close_waits_if_ended(
            state, advance(state, RunStopped(failure=failure))
        )

    async def _close_waits_if_ended(
        self, before: RunState, after: RunState
    ) -> RunState:
        """Close the waits that end with their run, before its end is committed.

        The first decision stands here too: a person's yes that came before does not
        run any more, but it is what is on record.
        """
        if after.run.status not in ENDED_STATUSES:
            return after
        now = self.ports.clock.now()
        reason = after.run.failure.message if after.run.failure else None
        closing = [
            close_wait(
                self.objects,
                wait,
                "cancel",
                now=now,
                decision_id=self.ports.ids.new_ulid(now),
                reason=reason,
            )
            for wait in before.waits.values()
        ]
        await asyncio.gather(*closing)
        return after

    # Small questions ----------------------------------------------------------

    def _make_journal(
        self,
        loaded: LoadedVersion | None,
        clock_reading: ClockReading | None = None,
        arrival_markers: tuple[str, ...] = (),
    ) -> StoreJournal:
        return StoreJournal(
            self.objects,
            self.versions,
            loaded,
            self.ports,
            lease=self.options.lease,
            attempt=claims.next_attempt(loaded.state.run) if loaded else 1,
            clock_reading=clock_reading,
            arrival_markers=arrival_markers,
        )

    def _code_changes(self, state: RunState) -> tuple[ManifestChange, ...]:
        """Return how the code differs from that which the run last went on with."""
        agent = self.agent_registry.find_root_agent(state.run.agent)
        return (
            compare_manifests(state.manifest, current_manifest(agent)) if agent else ()
        )

    def _with_current_manifest(
        self, state: RunState, code_changes: tuple[ManifestChange, ...]
    ) -> RunState:
        agent = self.agent_registry.find_root_agent(state.run.agent)
        if not code_changes or agent is None:
            return state
        for change in code_changes:
            _log.info("run %s goes on with other code: %s", self.run_id, change)
        return replace(state, manifest=current_manifest(agent))

    def _outcome(
        self,
        loaded: LoadedVersion,
        code_changes: tuple[ManifestChange, ...] = (),
        *,
        paused: bool = False,
    ) -> Outcome:
        agent = self.agent_registry.find_root_agent(loaded.state.run.agent)
        continuation = Continuation(loaded.state, loaded.number)
        return outcome_of(continuation, agent, code_changes, paused=paused)


def _can_progress(state: RunState, arrived: Arrivals) -> bool:
    return needs_worker(state) or arrivals_unblock(state, arrived)


def current_manifest(agent: Agent) -> str:
    """Return what an agent's code looks like in this process."""
    return make_manifest(agent, sdk_version=__version__)
