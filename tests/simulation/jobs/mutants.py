"""Mutants of jobs of other systems: who stops them, and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from continuations.core.rows.decisions import Decision
from continuations.core.rows.state import RunState
from continuations.core.rows.waits import Wait
from continuations.engine.journal.job_cancellation import JobCanceller
from continuations.engine.journal.publishing import Publisher
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.store_clock import StoreClock
from continuations.wire.fields import to_milliseconds
from tests.simulation.families import JOBS
from tests.simulation.mutants.mutant import Original, Patches, mutants_of, patch, skip

mutant = mutants_of(JOBS)


@mutant("stopped_before_its_end")
def a_cancelled_job_is_not_stopped() -> Patches:
    """A cancelled job is not stopped."""
    yield skip(JobCanceller.cancel)


@mutant("job_with_a_result_is_not_stopped")
def every_decision_stops_its_job() -> Patches:
    """Every decision stops its job, also a result."""

    async def cancel_expired(
        self: JobCanceller, state: RunState, decisions: Mapping[str, Decision]
    ) -> None:
        waits = state.waits.values()
        jobs = [wait for wait in waits if wait.cancels and wait.id in decisions]
        await self.prepare(state, jobs)
        await self.cancel(state, jobs)

    yield patch(JobCanceller.cancel_expired, cancel_expired)


@mutant("stopped_before_its_end")
def a_job_is_stopped_again_after_its_end() -> Patches:
    """A job is stopped again after the version that ends its wait."""
    stopped: dict[str, list[tuple[JobCanceller, RunState, Wait]]] = {}

    async def cancel(
        original: Original, self: JobCanceller, state: RunState, jobs: Iterable[Wait]
    ) -> None:
        jobs = tuple(jobs)
        await original(jobs=jobs)
        stopped.setdefault(state.run.id, []).extend((self, state, job) for job in jobs)

    async def commit_and_publish(original: Original, state: RunState) -> Any:
        late = await original()
        for canceller, old, job in stopped.pop(state.run.id, []):
            await original_cancel(canceller, old, [job])
        return late

    original_cancel = JobCanceller.cancel
    yield patch(JobCanceller.cancel, cancel)
    yield patch(Publisher.commit_and_publish, commit_and_publish)


@mutant("ended_run_leaves_no_keys")
def a_heartbeat_trusts_its_clock_for_a_moment() -> Patches:
    """A heartbeat asks for the store's time with a marker of its own clock's time."""

    async def learn(
        self: StoreClock, objects: Objects, run_id: str, nonce: str
    ) -> None:
        if not self.is_observed:
            due_ms, suffix = to_milliseconds(self.now()), nonce[-layout.NONCE_LENGTH :]
            marker = layout.Marker(due_ms, "e", nonce, suffix, run_id)
            await self.create(objects, marker.key)
            await objects.delete(marker.key)

    yield patch(StoreClock.learn, learn)
