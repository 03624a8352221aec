"""The method of AsyncRunner that wakes runs which wait for their models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.doors import PYTHON
from continuations.engine.async_approvals import AsyncApprovals
from continuations.ledger import layout

if TYPE_CHECKING:
    from continuations.core.doors import Door


class AsyncWaker(AsyncApprovals):
    """Wakes runs that wait for their models; needs no agents."""

    async def wake(
        self, run_id: str, *, by: str | None = None, door: Door = PYTHON
    ) -> int:
        """End the waits of a run for its models before their time.

        Call it when a provider reports that a background reply is ready, or that a
        limit is over. The next `resume` or sweep polls or asks. A call before such a
        wait is stored has no effect, and the next attempt comes at its time.

        A limited model is asked early once before that time, and such an attempt counts
        no failure. A reply that the provider computes is polled after each call.

        Args:
            run_id: Id of the run.
            by: Name of the person or program, for the record.
            door: The way by which the call came, for the audit.

        Returns:
            The number of waits that ended, now or by an earlier call.

        Raises:
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: `by` is not a text.
            StoreError: The store failed. Call again.
        """
        layout.check_run_id(run_id)
        return await self._run_requests(run_id).wake(by=by, door=door)
