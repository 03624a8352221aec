"""The methods of Runner for jobs of other systems; no method needs agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.engine import portal

if TYPE_CHECKING:
    from datetime import timedelta

    from continuations.core.waits import Wait
    from continuations.engine.async_runner import AsyncRunner


class Jobs:
    """Gives jobs of other systems more time."""

    async_runner: AsyncRunner

    def heartbeat(
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
        return portal.run_until_complete(
            self.async_runner.heartbeat(wait_id, extend=extend, by=by)
        )
