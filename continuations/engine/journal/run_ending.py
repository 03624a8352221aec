"""End a run as failed or cancelled, and close its open waits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from continuations.core.changes.events import RunStopped
from continuations.core.changes.operator_changes import cancelled_waits
from continuations.core.changes.reducer import advance
from continuations.core.rows.decisions import OPERATOR, Door
from continuations.core.rows.run import ENDED_STATUSES, Failure
from continuations.engine.journal.job_cancellation import NO_RESULT, jobs_to_cancel
from continuations.ledger.decisions.decisions import close_wait
from continuations.ledger.index import waits
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from continuations.core.operator_request import OperatorRequest
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.engine.journal.job_cancellation import JobCanceller
    from continuations.engine.ports import Ports
    from continuations.ledger.objects import Objects
    from continuations.wire.arrivals import CancelRequest


@dataclass(frozen=True, slots=True)
class RunEnder:
    """Ends runs; every method closes the run's waits before its end is committed."""

    objects: Objects
    ports: Ports
    # Tells the jobs of the run; `None` if the run has none to tell.
    job_canceller: JobCanceller | None = None

    async def end_as_cancelled(
        self, state: RunState, cancel_request: CancelRequest
    ) -> RunState:
        """Return the run, cancelled with the reason of a request."""
        reason = cancel_request.reason or "The run was cancelled. Start a new run."
        return await self.end_as_failed(
            state, Failure(code="cancelled", message=reason)
        )

    async def end_after_attempts(self, state: RunState, attempts: int) -> RunState:
        """Return the run, failed because its workers died too often."""
        is_thread = state.run.thread_key is not None
        remedy = "send it again under a new id" if is_thread else "start a new run"
        reason = (
            f"the worker died {attempts} times in a row without progress. Find the "
            f"cause in the logs of the workers, then {remedy}."
        )
        return await self.end_as_failed(state, Failure(code="attempts", message=reason))

    async def end_as_failed(self, state: RunState, failure: Failure) -> RunState:
        """Return the run, ended with a failure."""
        ended = advance(state, RunStopped(failure=failure))
        return await self.close_waits_if_ended(state, ended)

    async def close_waits_if_ended(self, before: RunState, after: RunState) -> RunState:
        """Record "cancel" for the open waits of a run that ends; return its end.

        So also if the message of a thread fails, and the thread rests.

        The first decision wins here too: a person's approval that was recorded before
        stays recorded, although its call does not run any more.
        """
        run = after.run
        if run.status not in ENDED_STATUSES and not run.rests:
            return after
        reason = run.failure.message if run.failure else None
        await self.close_waits(before, before.waits.values(), reason)
        return after

    async def close_settled_and_cancelled(
        self,
        state: RunState,
        settled: AbstractSet[str],
        cancelled: AbstractSet[str],
        requests: Sequence[OperatorRequest],
    ) -> None:
        """Close the waits that an early answer settled, or an operator cancelled.

        A settled wait gets no decision, so no sweep deletes its object after a crash.
        """
        await waits.delete(self.objects, settled)
        ended = [wait for key, wait in state.waits.items() if key in cancelled]
        by_reason = cancelled_waits(state, ended, requests)
        await self.close_cancelled_waits(state, by_reason)

    async def close_cancelled_waits(
        self, state: RunState, by_reason: Mapping[str, Sequence[Wait]]
    ) -> None:
        """Record "cancel" for waits that operators ended; `state` has the waits."""
        for reason, ended in by_reason.items():
            await self.close_waits(state, ended, reason, door=OPERATOR)

    async def close_waits(
        self,
        state: RunState,
        waits: Iterable[Wait],
        reason: str | None,
        *,
        by: str | None = None,
        door: Door | None = None,
    ) -> None:
        """Record "cancel" for waits, and tell the jobs that have no result.

        A decision that was recorded before stays.
        """
        waits = tuple(waits)
        jobs: list[Wait] = []
        if self.job_canceller is not None:
            jobs = await jobs_to_cancel(self.objects, waits)
            # Then this worker holds the claim.
            await self.job_canceller.prepare(state, jobs)
        now = self.ports.clock.now()
        closing = [
            close_wait(
                self.objects,
                wait,
                "cancel",
                now=now,
                decision_id=self.ports.ids.new_ulid(now),
                reason=reason,
                by=by,
                door=door,
            )
            for wait in waits
            if wait.rules.has_object
        ]
        recorded = await asyncio.gather(*closing)
        if self.job_canceller is None:
            return
        has_result = {each.wait_id for each in recorded if each.kind not in NO_RESULT}
        untold = [job for job in jobs if job.id not in has_result]
        await self.job_canceller.cancel(state, untold)
