"""The methods of Runner about approvals of a whole run: its audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.engine import portal
from continuations.engine.sync_decider import Decider

if TYPE_CHECKING:
    from continuations.core.audit import AuditLine


class Approvals(Decider):
    """Shows what was decided about a run; needs no agents."""

    def audit(self, run_id: str) -> list[AuditLine]:
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
        return portal.run_until_complete(self.async_runner.audit(run_id))
