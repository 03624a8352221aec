"""The methods of AsyncRunner about approvals of a whole run: its audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.engine.async_decider import AsyncDecider
from continuations.ledger import layout

if TYPE_CHECKING:
    from continuations.core.audit import AuditLine

# A process that only decides should start fast.
# ruff: noqa: PLC0415


class AsyncApprovals(AsyncDecider):
    """Shows what was decided about a run; needs no agents."""

    async def audit(self, run_id: str) -> list[AuditLine]:
        """Return what was decided about a run, also after its end.

        Decisions of people, programs and rules are lines, and so are expiries, signals
        and the request to cancel the run. Votes and edits stand in their decision. One
        listing and one read for each line.

        Args:
            run_id: Id of the run.

        Returns:
            The lines, in the order of their times.

        Raises:
            InvalidId: `run_id` is invalid.
            RunNotFound: The store has no such run.
            Corrupt: A recorded decision is damaged.
            FormatError: A recorded decision has a newer format.
            StoreError: The store failed.
        """
        from continuations.ledger.audit_records import read_audit

        return await read_audit(self._objects, layout.check_run_id(run_id))
