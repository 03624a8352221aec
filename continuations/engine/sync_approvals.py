"""The methods of Runner about approvals of a whole run: audit and grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.doors import PYTHON, Door
from continuations.engine import portal
from continuations.engine.sync_decider import Decider

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.audit import AuditLine
    from continuations.core.decisions import Decision, Verdict
    from continuations.core.grants import KeptGrant
    from continuations.core.quorum import Vote


class Approvals(Decider):
    """Shows what was decided about a run, and its grants; needs no agents."""

    def audit(self, run_id: str, *, past: bool = True) -> list[AuditLine]:
        """Return what was decided about a run, also after its end.

        Decisions of people, programs and rules are lines, and so are expiries, signals,
        votes, the request to cancel the run, forks and rewinds. One listing, and one
        read for each line and for each version of the run.

        Args:
            run_id: Id of the run.
            past: Whether the fork that made the run, and its rewinds, are lines. If
                not, no version is read but the newest one.

        Returns:
            The lines, in the order of their times.

        Raises:
            InvalidId: `run_id` is invalid.
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            Corrupt: A recorded decision is damaged.
            FormatError: A recorded decision has a newer format.
            StoreError: The store failed.
        """
        return portal.run_until_complete(self.async_runner.audit(run_id, past=past))

    def decide_all(
        self,
        verdicts: Mapping[str, Verdict],
        *,
        shown: Mapping[str, str] | None = None,
        door: Door = PYTHON,
    ) -> dict[str, Decision | Vote | Exception]:
        """Record decisions for several waits, each on its own.

        One that is refused or fails does not affect the others: its error is its
        result. That may be an exception of the `groups` function of the runner. Call
        again with the same verdicts after a `StoreError`.

        Args:
            verdicts: Verdicts by wait id, at most 1,000.
            shown: Digests that the person saw, by wait id, as for `decide`.
            door: The way by which the decisions came, for the audit.

        Returns:
            For each wait id, in the order given: the recorded decision, the vote, or
            the error that `decide` raises.

        Raises:
            InvalidInput: `verdicts` is not a mapping, or has more than 1,000 waits.
                Nothing was recorded.
        """
        return portal.run_until_complete(
            self.async_runner.decide_all(verdicts, shown=shown, door=door)
        )

    def grants(self, run_id: str) -> list[KeptGrant]:
        """Return the grants of a run that have not ended, the oldest first.

        A grant whose approval no worker has applied yet is among them, and so is one
        that is revoked and not taken in; see `KeptGrant`. The store's time counts. A
        condition on a secret argument is `{"const": "[secret]"}`.

        Args:
            run_id: Id of the run.

        Returns:
            The grants; none if the run has ended.

        Raises:
            InvalidId: `run_id` is invalid.
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            Corrupt: A stored object is damaged.
            FormatError: A stored object has a newer format.
            StoreError: The store failed.
        """
        return portal.run_until_complete(self.async_runner.grants(run_id))

    def revoke(
        self,
        run_id: str,
        grant: str,
        *,
        by: str | None = None,
        reason: str | None = None,
        door: Door = PYTHON,
    ) -> None:
        """End a grant of a run; idempotent.

        The revocation counts for each worker that takes the run over after it. A worker
        that read the run before may still begin calls by the grant, until it releases
        its claim; `pause` or `cancel` stops it. After that, every call that the grant
        approved and that has not begun waits for a person.

        Args:
            run_id: Id of the run.
            grant: Id of the grant, as `grants` lists it.
            by: Person or program that revokes, for the record.
            reason: Why, for the record.
            door: The way by which the revocation came, for the audit.

        Raises:
            InvalidId: `run_id` is invalid.
            RunNotFound: The store has no such run.
            RunErased: The run was erased.
            InvalidInput: The run has no such grant, or an argument is not a text.
            Corrupt: A stored object is damaged.
            FormatError: A stored object has a newer format.
            StoreError: The store failed. Call again.
        """
        portal.run_until_complete(
            self.async_runner.revoke(run_id, grant, by=by, reason=reason, door=door)
        )
