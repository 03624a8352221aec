"""Work on one run without a store: decide, run the loop, return the continuation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.authoring.manifest import compare_manifests
from continuations.core.events import RunStopped
from continuations.core.operator_waits import without_operator_waits
from continuations.core.plan import plan
from continuations.core.reducer import advance
from continuations.core.run import ENDED_STATUSES
from continuations.engine import deadlines
from continuations.engine.arrival_reducer import ArrivalReducer
from continuations.engine.code_changes import current_manifest
from continuations.engine.inbox_messages import with_confirmed_reply
from continuations.engine.job_cancellation import JobCanceller
from continuations.engine.journal_protocol import NoJournal
from continuations.engine.model_registry import ModelRegistry
from continuations.engine.outcomes import outcome_of
from continuations.engine.performer import Performer
from continuations.engine.run_loop import RunLoop
from continuations.engine.worker_options import (
    DEFAULT_MODEL_FAILURES,
    DEFAULT_MODEL_RETRY_TIME,
)
from continuations.ledger import claims
from continuations.value_class import dataclass
from continuations.wire.continuation import Continuation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from continuations.authoring.agent import Agent
    from continuations.authoring.manifest import ManifestChange
    from continuations.core.decisions import Decision
    from continuations.core.prices import Prices
    from continuations.core.state import RunState
    from continuations.engine.outcomes import Outcome
    from continuations.engine.ports import Ports
    from continuations.engine.run_options import RunOptions
    from continuations.engine.stack_binding import StackBinding
    from continuations.engine.storeless_feed import StorelessFeed


@dataclass(frozen=True, slots=True, kw_only=True)
class StorelessWork:
    """Works on one run without a store, in this process."""

    agent: Agent
    stack_binding: StackBinding
    ports: Ports
    run_options: RunOptions
    max_depth: int | None
    prices: Prices | None

    async def start(self, state: RunState, files: Mapping[str, bytes]) -> Outcome:
        """Work on a new run."""
        journal = NoJournal(0, self._feed(state, None))
        return await self._run_loop(state, journal, files, ())

    async def resume(
        self,
        continuation: Continuation,
        state: RunState,
        decisions: Mapping[str, Decision],
        now: datetime,
        *,
        unpause: bool,
    ) -> Outcome:
        """Apply decisions and passed deadlines, and work on the run if it can go on.

        Args:
            continuation: The last continuation.
            state: Its state, whose approvals are escalated.
            decisions: The decisions of the caller, by wait id.
            now: The time at which the waits were looked at.
            unpause: Whether to end the waits of conditions.
        """
        before = continuation.run_state
        changes = compare_manifests(before.manifest, current_manifest(self.agent))
        feed = self._feed(state, before)
        journal = NoJournal(continuation.version, feed)
        if state.run.status not in ENDED_STATUSES:
            expiries = deadlines.expiries_of(state.waits.values(), self.ports, now)
            canceller = JobCanceller(
                stack_binding=self.stack_binding,
                ports=self.ports,
                journal=journal,
                context=self.run_options.context,
            )
            await canceller.cancel_expired(state, expiries)
            reducer = ArrivalReducer(self.stack_binding, self.ports, feed)
            state = reducer.with_interrupted_calls(state)
            state = reducer.with_decisions(state, {**decisions, **expiries})
            if unpause:
                state = without_operator_waits(state, now)
            if unpause or decisions:
                state = with_confirmed_reply(state)
        if plan(state):
            return await self._run_loop(state, journal, continuation.files, changes)
        if state is not before:
            journal.count(state)
        same = Continuation(state, journal.version_number, continuation.files)
        return outcome_of(same, self.agent, changes, has_store=False)

    def _feed(self, state: RunState, known: RunState | None) -> StorelessFeed | None:
        sink = self.run_options.events
        if sink is None:
            return None
        from continuations.engine.storeless_feed import StorelessFeed  # noqa: PLC0415 - for listeners

        return StorelessFeed(state.run.id, sink, self.ports.clock, known)

    async def _run_loop(
        self,
        state: RunState,
        journal: NoJournal,
        files: Mapping[str, bytes],
        changes: tuple[ManifestChange, ...],
    ) -> Outcome:
        models = ModelRegistry(
            DEFAULT_MODEL_RETRY_TIME.total_seconds(),
            self.ports.clock,
            DEFAULT_MODEL_FAILURES,
            self.prices,
        )
        performer = Performer(
            self.stack_binding,
            self.ports,
            models,
            self.run_options,
            self.max_depth,
            feed=journal.feed,
        )
        if files:
            from continuations.engine.file_storing import MemoryFiles  # noqa: PLC0415 - few runs have attachments

            performer.files = MemoryFiles(files)
        loop = RunLoop(state, performer, journal)
        await loop.run()
        state = loop.state
        if loop.failure is not None:
            state = advance(loop.ending_state, RunStopped(failure=loop.failure))
        state = claims.released(state)
        journal.count(state)
        kept = None if performer.files is None else performer.files.data
        continuation = Continuation(state, journal.version_number, kept)
        if loop.model_error is not None:
            # Without it, the error would lose everything that was done so far.
            loop.model_error.continuation = continuation
            raise loop.model_error
        return outcome_of(continuation, self.agent, changes, has_store=False)
