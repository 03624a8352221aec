"""Work on one run in a store: apply arrivals, claim, run the loop, commit, publish."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from continuations import errors
from continuations.authoring import callables
from continuations.core.changes import tool_messages
from continuations.core.changes.events import TurnBeginning
from continuations.core.rows.event_matching import awaited_signals
from continuations.core.rows.state import ROOT_FRAME_ID, RunState
from continuations.engine import deadlines
from continuations.engine.arrivals import arrival_reducer, readiness
from continuations.engine.arrivals.arrival_reducer import ArrivalReducer
from continuations.engine.calls.rule_approvals import RuleApprovals
from continuations.engine.code_changes import find_code_changes, with_current_manifest
from continuations.engine.inbox_messages import find_beginning_message, leaves_messages
from continuations.engine.journal.job_cancellation import JobCanceller
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.journal.publishing import Publisher
from continuations.engine.journal.run_ending import RunEnder
from continuations.engine.outcomes import Outcome, Suspended, outcome_of
from continuations.engine.side_task import finish_if_cancelled, with_side_task
from continuations.engine.stack.stack_binding import StackBinding
from continuations.engine.start.new_run import problem_of, stored_instructions
from continuations.engine.worker.performer import Performer
from continuations.engine.worker.run_loop import RunLoop
from continuations.engine.worker_options import DEFAULT_RUN_OPTIONS, RunOptions
from continuations.engine.workflow.flows_of_worker import FlowsOfWorker
from continuations.ledger import claims, layout, markers
from continuations.ledger.arrivals import recorded_decisions
from continuations.ledger.arrivals.arrivals import Arrivals, read_arrivals
from continuations.ledger.index.run_overview import (
    read_ahead,
    read_overview,
    unread_decision_keys,
)
from continuations.ledger.store_clock import StoreClock
from continuations.ledger.versions import LoadedVersion, Versions
from continuations.value_class import dataclass, replace
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from continuations.authoring.manifest import ManifestChange
    from continuations.authoring.registry import AgentRegistry
    from continuations.authoring.tool.tool_protocol import AgentProtocol
    from continuations.core.rows.attachments import Content
    from continuations.core.rows.waits import Wait
    from continuations.engine.events.event_feeds import RunFeed
    from continuations.engine.model_registry import ModelRegistry
    from continuations.engine.ports import Ports
    from continuations.engine.worker_options import WorkerOptions
    from continuations.ledger.index.run_overview import RunOverview
    from continuations.ledger.objects import Objects
    from continuations.wire.arrivals import InboxMessage


_log = logging.getLogger("continuations")

# A process remembers so many runs whose code it lacks, and then begins anew.
_MAX_NOTED_RUNS = 1000


@dataclass(slots=True, eq=False, kw_only=True)
class Worker:
    """Works on one run in a store, in this process."""

    objects: Objects
    agent_registry: AgentRegistry
    model_registry: ModelRegistry
    ports: Ports
    options: WorkerOptions
    run_id: str
    run_options: RunOptions = DEFAULT_RUN_OPTIONS
    feed: RunFeed | None = None
    _journal: StoreJournal | None = field(default=None, init=False)
    _first_version: int = field(default=0, init=False)
    _store_clock: StoreClock = field(init=False)
    _flows: FlowsOfWorker = field(init=False)

    def __post_init__(self) -> None:
        """Begin with the time of the machine; listings of the store correct it."""
        self._store_clock = StoreClock(self.ports.clock)
        self._flows = FlowsOfWorker(StackBinding(self.agent_registry), self.ports)

    @property
    def versions(self) -> Versions:
        """The versions of the run."""
        return Versions(self.objects, self.run_id)

    @property
    def keeps_markers(self) -> bool:
        """Whether this worker left markers, so that a sweep does what failed."""
        return self._journal is not None and self._journal.keeps_markers

    def has_followed(self, before: int, newest: int) -> bool:
        """Return whether only this worker wrote versions after one, up to another."""
        if not self._first_version:
            return before == newest  # it did not work
        last = self._journal.version_number if self._journal else self._first_version
        return (self._first_version, last) == (before, newest)

    def _ender(self, state: RunState, journal: StoreJournal) -> RunEnder:
        canceller = self._job_canceller(state, journal)
        return RunEnder(self.objects, self.ports, canceller)

    def _job_canceller(self, state: RunState, journal: StoreJournal) -> JobCanceller:
        return JobCanceller(
            stack_binding=StackBinding(self.agent_registry),
            ports=self.ports,
            journal=journal,
            context=self.run_options.context,
            objects=self.objects,
            # One worker more than for other code: it ends a run without attempts left.
            gives_up=claims.next_attempt(state.run) > self.options.max_attempts + 1,
        )

    @property
    def _publisher(self) -> Publisher:
        return Publisher(self.objects, self.ports)

    async def start(self, state: RunState) -> Outcome:
        """Create the run and work on it; raises `StaleRun` if its id is taken."""
        return await self._work(None, state, Arrivals())

    async def start_or_resume(self, state: RunState) -> Outcome:
        """Create the run, or resume it if it began with the same input."""
        try:
            outcome = await self.start(state)
        except errors.StaleRun:
            await self.check_same_input(state)
            return await self.resume()
        if isinstance(outcome, Suspended) and outcome.paused:
            self.objects.announce_work()
        return outcome

    async def start_or_resume_with_files(
        self, state: RunState, contents: Sequence[Content]
    ) -> Outcome:
        """Create the run and its attachments, or resume it; see `start_or_resume`.

        A marker comes first, then the attachments, then version 1, which refers to
        them. After a crash in between, a sweep deletes the attachments a day and a half
        later.
        """
        from continuations.ledger.repair.run_files import RunFiles  # noqa: PLC0415 - few runs have attachments

        if await self.versions.newest_number():
            return await self.start_or_resume(state)
        await self._list_tools(None, state, Arrivals())
        run, objects = state.run, self.objects
        files = RunFiles.of(objects, run)
        due = self.ports.clock.now() + timedelta(seconds=self.options.lease)
        guard = markers.guard(run.id, 1, due, run.run_nonce)
        await markers.create(objects, guard)
        await files.add(contents)
        try:
            outcome = await self.start(state)
        except errors.StaleRun:
            if await self._is_another_run(state):
                await files.delete()
            await objects.delete(guard.key)
            return await self.start_or_resume(state)
        await objects.delete(guard.key)
        return outcome

    async def _is_another_run(self, state: RunState) -> bool:
        """Return whether another process created the run under this id."""
        try:
            newest = await self.versions.load_newest()
        except (errors.RunErased, errors.RunNotFound):
            return True
        return newest.state.run.run_nonce != state.run.run_nonce

    async def resume(self) -> Outcome:
        """Work on the run if it can progress, and return its outcome."""
        clock = self.ports.clock
        sent_at = clock.now()
        overview = await read_overview(self.objects, self.run_id, with_bodies=True)
        clock_reading = claims.ClockReading(
            sent_at, overview.store_time, clock.now(), self.objects.time_resolution
        )
        if overview.newest_number == 0:
            raise self.versions.run_not_found_error()
        self._first_version = self._first_version or overview.newest_number
        loaded, objects = await self._load(overview)
        state = loaded.state
        self.run_options.check_run(state.run)
        if self.feed is not None:
            await self.feed.catch_up(loaded.number)
        if state.run.has_ended:
            return self._outcome(loaded, find_code_changes(state, self.agent_registry))
        lease = self.options.lease
        claims.check_clock_for(state, clock_reading, lease)
        self._store_clock.observe(clock_reading)
        await self._store_clock.check_free(
            self.objects, state.run, lease, self.ports.ids.new_ulid
        )
        # Nothing is done for a run with a message that cannot be read.
        state.read_messages()
        if state.run.rewind_to:
            from continuations.engine.past.rewinding import Rewinder  # noqa: PLC0415 - rarely needed

            parts = self.objects, self.agent_registry, self.ports, self.options.lease
            await Rewinder(*parts).finish(loaded)
            return await self.resume()
        arrived = await read_arrivals(objects, state, overview.arrival_keys)
        if arrived.followed:
            followed = replace(state, waits={**state.waits, **arrived.followed})
            claims.check_clock_for(followed, clock_reading, self.options.lease)
        return await self._work(loaded, state, arrived, clock_reading)

    async def _load(self, overview: RunOverview) -> tuple[LoadedVersion, Objects]:
        """Load the newest version, and read new decisions at the same time."""
        number = overview.newest_number
        body = overview.bodies.get(layout.version_key(self.run_id, number))
        loading = self.versions.load(number, {} if body is None else {number: body})
        unread = unread_decision_keys(self.objects, self.run_id, overview)
        if unread:
            reading = read_ahead(self.objects, overview, unread)
            return await with_side_task(loading, reading)
        loaded = await loading
        return loaded, await read_ahead(self.objects, overview, ())

    async def check_same_input(self, state: RunState) -> None:
        """Raise `RunExists` unless the run in the store began with the same input."""
        newest = await self.versions.load_newest()
        if newest.state.run.input_digest != state.run.input_digest:
            msg = (
                f"run_id {self.run_id!r} is taken: that run has another input or "
                "agent, and was not changed. Use another run_id, or resume that run."
            )
            raise errors.RunExists(msg, run_id=self.run_id)

    async def _work(
        self,
        loaded: LoadedVersion | None,
        state: RunState,
        arrived: Arrivals,
        clock_reading: claims.ClockReading | None = None,
    ) -> Outcome:
        """Work on the run and log what was done."""
        began, first = self.ports.clock.elapsed(), loaded.number if loaded else 0
        result, code, failed = "", None, None
        try:
            outcome = await self._list_tools(loaded, state, arrived)
            outcome = outcome or await self._work_until_blocked(
                loaded, state, arrived, clock_reading
            )
            result = outcome_name(outcome)
            failure = outcome.continuation.run_state.run.failure
            code = None if failure is None else failure.code
        except BaseException as error:
            result, failed = type(error).__name__, error
            if isinstance(error, errors.AgentChanged) and loaded is not None:
                await self._note_missing_code(error, loaded.number)
            raise
        finally:
            if self.run_options.session is not None:
                self.run_options.session.end(result, code, failed)
            self._flows.close()
            last = self._journal.version_number if self._journal else first
            seconds = self.ports.clock.elapsed() - began
            log_work(
                self.run_id, versions=(first, last), result=result, seconds=seconds
            )
        return outcome

    async def _note_missing_code(
        self, error: errors.AgentChanged, loaded_number: int = 0
    ) -> None:
        """Store what this process lacks, for people who look at the run."""
        newest = max(
            loaded_number, self._journal.version_number if self._journal else 0
        )
        noted = self.objects.noted_missing_code
        if error.change == "removed" and noted.get(self.run_id) != newest:
            from continuations.ledger import missing_code  # noqa: PLC0415 - rarely needed

            if len(noted) == _MAX_NOTED_RUNS:
                noted.clear()
            noted[self.run_id] = newest
            lacked = missing_code.MissingCode(
                at=self._store_clock.now(), text=str(error)
            )
            await missing_code.post(self.objects, self.run_id, newest, lacked)

    async def _list_tools(
        self, loaded: LoadedVersion | None, state: RunState, arrived: Arrivals
    ) -> Outcome | None:
        """List the tools of the agents' sources, before anything is bound or written.

        Returns the outcome if the run only waits and the tools cannot be listed; else
        raises `ToolsUnavailable`. A run can be cancelled without the tools, unless one
        of them must cancel a job.
        """
        if not self.agent_registry.has_sources(state.run.agent):
            return None
        if self.run_options.should_pause():
            # Nothing begins now, also if the function says something else later.
            self.run_options = replace(self.run_options, should_pause=_always)
            return None
        try:
            self.agent_registry = await self.agent_registry.listed(state.run.agent)
        except errors.ToolsUnavailable as error:
            jobs = any(wait.cancels for wait in state.waits.values())
            if arrived.cancel_request is not None and not jobs:
                return None
            now = self._store_clock.now()
            waits = map(arrived.current, state.waits.values())
            if (
                loaded is None
                or readiness.can_progress(state, arrived)
                or deadlines.late_waits(waits, now)
            ):
                msg = f"run {self.run_id} did not continue: {error}"
                raise errors.ToolsUnavailable(msg, run_id=self.run_id) from error
            return self._outcome(loaded)
        self._flows = FlowsOfWorker(StackBinding(self.agent_registry), self.ports)
        return None

    async def _work_until_blocked(
        self,
        loaded: LoadedVersion | None,
        state: RunState,
        arrived: Arrivals,
        clock_reading: claims.ClockReading | None,
    ) -> Outcome:
        outcome: Callable[[], Outcome] | None = None
        while True:
            if loaded is not None and self.run_options.should_pause():
                return self._outcome(
                    loaded, paused=readiness.can_progress(state, arrived)
                )
            before = state
            previous = self._journal
            self._journal = journal = self._make_journal(loaded, clock_reading, arrived)
            clock_reading = None  # it belongs to the first listing only
            try:
                state = await self._apply_arrivals(state, arrived, journal)
            except errors.AgentChanged as error:
                if outcome is None:
                    raise
                # It worked on the run before, and wrote nothing since.
                self._journal = previous
                _log.warning(
                    "run %s is left to other processes: %s", self.run_id, error
                )
                await self._note_missing_code(error)
                return outcome()
            if loaded is not None and readiness.only_waits(loaded, state):
                await self._publisher.finish_publishing(loaded)
                changes = find_code_changes(before, self.agent_registry)
                return self._outcome(loaded, changes)
            state, arrived = await self._run_loop(before, state, journal, arrived)
            paused = readiness.is_runnable(state)
            unchanged = state is before and not journal.holds_a_claim
            if paused and unchanged and loaded is not None:
                return self._outcome(loaded, paused=True)
            # Not before: making the schemas of unused tools takes time.
            changes = find_code_changes(before, self.agent_registry)
            state = with_current_manifest(state, self.agent_registry, changes)
            leaves_some = leaves_messages(state, arrived)
            if paused or leaves_some or awaited_signals(state):
                await journal.make_release_marker()
            arrived = await finish_if_cancelled(
                self._publisher.commit_and_publish(journal, before, state, arrived)
            )
            loaded = journal.loaded
            assert loaded is not None  # noqa: S101 - it was just committed
            state = loaded.state
            stops = paused and not arrived.operator_requests
            stops = stops or self.run_options.is_enough(state.run)
            outcome = partial(self._outcome, loaded, changes, paused=paused)
            if stops or not readiness.arrivals_unblock(state, arrived):
                return outcome()

    async def _apply_arrivals(
        self, state: RunState, arrived: Arrivals, journal: StoreJournal
    ) -> RunState:
        """Return the run with everything that arrived; nothing is claimed yet."""
        ender = self._ender(state, journal)
        if arrived.cancel_request is not None:
            await journal.ensure_guarded()
            return await ender.end_as_cancelled(state, arrived.cancel_request)
        stack_binding = StackBinding(self.agent_registry)
        readiness.check_code(
            state, arrived, stack_binding, self.run_options, self.options
        )
        parts = self._flows, self.feed, self.run_options.session
        reducer = ArrivalReducer(stack_binding, self.ports, *parts)
        if state.run.claim is not None:
            attempt = claims.next_attempt(state.run)
            if attempt > self.options.max_attempts:
                # The claim comes first: only the process that ends the run closes its
                # waits, not one that finds the run's worker alive after all.
                await journal.commit(state, progressed=False)
                return await ender.end_after_attempts(state, attempt - 1)
        taken_in = readiness.take_in(
            state,
            arrived,
            reducer,
            reopens=self.run_options.reopens,
            beginning=await turn_beginning(
                state, arrived, stack_binding, self.run_options.context
            ),
        )
        before, after = taken_in.interrupted, taken_in.state
        cancels = before.waits.keys() - taken_in.operated.waits.keys()
        now = self._store_clock.now()
        open_waits = [arrived.current(wait) for wait in _stored(after, state)]
        due = readiness.due_decisions(after, open_waits, now)
        readiness.check_tools(after, due, stack_binding, reopens=True)
        ended, moved = await deadlines.pass_slot_deadlines(
            self.objects, open_waits, self.ports, now=now
        )
        await self._publisher.announce_moved(after, moved)
        after = reducer.with_decisions(after, ended)
        late = deadlines.late_waits(_stored(after, state), now)
        late = [wait for wait in late if not wait.has_slots]
        if after is state and not late and not awaited_signals(after):
            return state
        # After everything that can raise: the next steps write to the store.
        await journal.ensure_guarded()
        settled = state.waits.keys() - before.waits.keys()
        requests = arrived.operator_requests
        await ender.close_settled_and_cancelled(state, settled, cancels, requests)
        taken = await arrival_reducer.end_waits(
            self.objects, after, arrived.signals, self.ports, now=now
        )
        after = reducer.with_decisions(after, taken)
        expired = await deadlines.expire_waits(self.objects, late, self.ports, now=now)
        expiries = {**arrived.decisions, **ended, **expired}
        await self._job_canceller(state, journal).cancel_expired(state, expiries)
        return await ender.close_waits_if_ended(
            state, reducer.with_decisions(after, expired)
        )

    async def _run_loop(
        self,
        before: RunState,
        state: RunState,
        journal: StoreJournal,
        arrived: Arrivals,
    ) -> tuple[RunState, Arrivals]:
        """Run the loop until it must stop.

        `before` is the last version, which does not contain what arrived. Returns the
        state to commit and everything that has arrived.
        """
        journal.ender = self._ender(state, journal)
        performer = self._make_performer(journal)
        loop = RunLoop(state, performer, journal, arrived, self.run_options)
        try:
            await loop.run()
        except (errors.ClockOff, errors.RunErased, errors.StaleRun, errors.StoreError):
            raise
        except BaseException as error:
            # A bug or Ctrl-C: no worker died, so the claim should not stay. But an
            # interrupted call may go on in its thread or on the other side. While the
            # claim lasts, no process asks for its outcome.
            if journal.holds_a_claim and not loop.call_interrupted:
                now = not isinstance(error, Exception)
                release = self._publisher.release_unfinished(
                    journal,
                    before,
                    loop.state,
                    arrived.followed_by(loop.arrivals_taken_in),
                    retry_now=now,
                )
                with suppress(errors.ContinuationsError):
                    await asyncio.shield(release)
            raise
        arrived = arrived.followed_by(loop.arrivals_taken_in)
        if loop.cancel_request is not None and not loop.state.run.has_ended:
            arrived = arrived.followed_by(Arrivals(cancel_request=loop.cancel_request))
            ender = self._ender(before, journal)
            ended = await ender.end_as_cancelled(loop.state, loop.cancel_request)
            return ended, arrived
        if loop.failure is not None:
            if not journal.holds_a_claim:
                await journal.commit(loop.state, progressed=False)
            ender = self._ender(before, journal)
            ended = await ender.end_as_failed(loop.ending_state, loop.failure)
            return ended, arrived
        stopped_by = loop.model_error or loop.look_error
        if stopped_by is not None:
            await self._publisher.release_unfinished(
                journal, before, loop.state, arrived, retry_now=False
            )
            raise stopped_by
        return loop.state, arrived

    def _make_performer(self, journal: StoreJournal) -> Performer:
        return Performer(
            StackBinding(self.agent_registry),
            self.ports,
            self.model_registry,
            self.run_options,
            self.options.max_depth,
            RuleApprovals(partial(recorded_decisions.record, self.objects)),
            claim_end=lambda: journal.claim_end,
            feed=self.feed,
            objects=self.objects,
            flows=self._flows,
        )

    def _make_journal(
        self,
        loaded: LoadedVersion | None,
        clock_reading: claims.ClockReading | None,
        arrived: Arrivals,
    ) -> StoreJournal:
        return StoreJournal(
            self.objects,
            self.feed.versions if self.feed else self.versions,
            loaded,
            self.ports,
            lease=self.options.lease,
            clock_reading=clock_reading,
            arrival_markers=arrived.marker_keys(self.run_id),
            session=self.run_options.session,
        )

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


def _always() -> bool:
    return True


async def turn_beginning(
    state: RunState, arrived: Arrivals, stack_binding: StackBinding, context: Any
) -> TurnBeginning | None:
    """Return what the next turn of a thread begins with; `None`: no turn begins.

    A turn that has begun keeps its instructions. Raises `InvalidInput` if the function
    of the instructions fails. Nothing is stored then, and the message stays.
    """
    message = find_beginning_message(state, arrived.inbox_messages)
    if message is None:
        return None
    agent = stack_binding.agent(state, ROOT_FRAME_ID)
    log = state.logs[ROOT_FRAME_ID]
    # A function was called with the first message when the thread was made.
    is_made = not isinstance(agent.instructions, str) and message.number == 1
    if tool_messages.is_frozen(log) or (is_made and log.messages):
        return TurnBeginning(max_turns=agent.max_turns)
    text = await _instructions(state, agent, message, context)
    changed = tool_messages.new_instructions(log, text)
    return TurnBeginning(max_turns=agent.max_turns, instructions=changed)


async def _instructions(
    state: RunState, agent: AgentProtocol, message: InboxMessage, context: Any
) -> str:
    try:
        return await stored_instructions(agent, message.message.content, context)
    except BaseException as error:
        if callables.is_task_cancellation(error):
            raise
        run_id = state.run.id
        msg = (
            f"run {run_id} did not continue: agent {agent.name}: the instructions "
            f"function {problem_of(error)}. Nothing ran, and message {message.number} "
            "stays. Correct the function, or pass the context= that it needs, then "
            "resume the run."
        )
        raise errors.InvalidInput(msg, run_id=run_id) from error


def log_work(
    run_id: str, *, versions: tuple[int, int], result: str, seconds: float
) -> None:
    """Log what a worker did to a run, without arguments and texts of the run.

    The record has the fields `run_id`, `version_from`, `version_to`, `outcome` and
    `seconds`. A worker that wrote no version is not logged.

    Args:
        run_id: Id of the run.
        versions: The newest version before and after the work; 0 for a new run.
        result: The outcome, or the name of the error that ended the work.
        seconds: The duration of the work.
    """
    first, last = versions
    if first == last:
        return
    fields = {
        "run_id": run_id,
        "version_from": first,
        "version_to": last,
        "outcome": result,
        "seconds": round(seconds, 3),
    }
    _log.info(
        "run %s: %s after %.3f s, version %s to %s",
        run_id,
        result,
        seconds,
        first,
        last,
        extra=fields,
    )


def _stored(state: RunState, loaded: RunState) -> list[Wait]:
    """Return the open waits of a run that a version has.

    The times of the others come from the clock of this machine, which may be wrong.
    """
    return [wait for wait in state.waits.values() if wait.id in loaded.waits]


def outcome_name(outcome: Outcome) -> str:
    """Return "finished", "failed", "cancelled", "suspended" or "paused"."""
    if isinstance(outcome, Suspended):
        return "paused" if outcome.paused else "suspended"
    return outcome.continuation.status
