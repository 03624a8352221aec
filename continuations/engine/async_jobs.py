"""The methods of AsyncRunner for jobs of other systems; no method needs agents."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from continuations.engine.runner_parts import RunnerParts
from continuations.errors import AlreadyDecided, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from continuations.core.waits import Wait

T = TypeVar("T")

# A process that only decides should start fast.
# ruff: noqa: PLC0415


class AsyncJobs(RunnerParts):
    """Gives jobs of other systems more time."""

    async def heartbeat(
        self, wait_id: str, *, extend: timedelta | float, by: str | None = None
    ) -> Wait:
        """Say that a job is in progress: its wait gets more time.

        The new deadline is `extend` after now. A deadline never moves to an earlier
        time. If the deadline moves by less than a tenth of `extend`, nothing is
        written. A wait without a deadline, or whose tool has not returned, is not
        changed.

        Args:
            wait_id: Id of the wait, `ctx.wait_id` of the tool.
            extend: Time from now to the new deadline, as a `timedelta` or in seconds.
            by: Name of the sender, for the record.

        Returns:
            The wait, with its newest deadline.

        Raises:
            InvalidInput: `extend` or `by` is invalid.
            WaitNotFound: There is no such wait.
            DecisionRefused: The wait is not one of a job. Nothing was changed.
            AlreadyDecided: The job has a result.
            WaitExpired: The deadline has passed.
            Cancelled: The run was cancelled, has failed or was repaired.
            StoreError: The store failed. Call again.
        """
        from continuations.authoring.periods import to_seconds
        from continuations.core.identity import checked_person
        from continuations.ledger.heartbeats import extend_deadline
        from continuations.ledger.store_clock import StoreClock

        seconds = to_seconds(extend, "heartbeat: extend")
        if seconds is None:
            msg = "heartbeat: extend must be a timedelta or seconds, got None."
            raise InvalidInput(msg)
        sender = checked_person("by", by)
        clock = self._ports.clock
        return await self._for_newest_wait(
            wait_id,
            lambda newest_id: extend_deadline(
                self._objects,
                newest_id,
                timedelta(seconds=seconds),
                clock=StoreClock(clock),
                new_ulid=lambda: self._ports.ids.new_ulid(clock.now()),
                by=sender,
            ),
        )

    async def _for_newest_wait(
        self, wait_id: str, act: Callable[[str], Awaitable[T]]
    ) -> T:
        """Act on a wait, or on the one that was opened after it for the same job."""
        while True:
            try:
                return await act(wait_id)
            except AlreadyDecided:
                from continuations.ledger import reopened_jobs

                next_id = await reopened_jobs.find_next_wait_id(self._objects, wait_id)
                if next_id is None:
                    raise
                wait_id = next_id
