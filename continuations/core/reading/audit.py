"""The lines of an audit: who decided what in a run, how, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.rows.decisions import Decision

# The doors of decisions that no person made.
_DOORS_OF_KINDS = {"expire": "deadline", "cancel": "end of the run"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditLine:
    """One recorded act on a run.

    A field is `None` if it does not apply.

    Attributes:
        at: When it was recorded, in UTC.
        run: Id of the run.
        wait: Id of the wait that ended, or `None`.
        kind: Kind of the wait. `"signal"` for a signal to the run, and for signals
            that were dropped. `"run"` for a
            request to cancel, pause or unpause it, for a rewind, and for the fork that
            made it. `"call"` for a request to cancel a call, and `"grant"` for the
            revocation of a grant.
        verdict: `approve`, `deny`, `answer`, `fail`, `expire`, `cancel`, `signal`,
            `drop`, `revoke`, `pause`, `unpause`, `rewind` or `fork`. A vote that did
            not end its wait: `vote approve` or `vote answer`. A moved deadline:
            `extend` or `escalate`.
        by: Name that was recorded, of a person or program.
        groups: Groups of the person, as they were recorded.
        authentication: How the door established the name, or `None` if it did not.
        door: Door through which it came.
        digest: Digest of the wait that was decided: of the call and its arguments.
        shown: Digest that the decider saw, if the door passed it.
        reason: Reason that was given. For a signal: its name. For a rewind or fork: the
            version to go on from.
        rule: Name of the rule that decided instead of a person. For an approval that
            gave a grant, and for a revocation: the grant. For dropped signals: their
            name and the last number.
    """

    at: datetime
    run: str
    wait: str | None = None
    kind: str
    verdict: str
    by: str | None = None
    groups: tuple[str, ...] = ()
    authentication: str | None = None
    door: str | None = None
    digest: str | None = None
    shown: str | None = None
    reason: str | None = None
    rule: str | None = None

    @classmethod
    def of_decision(cls, decision: Decision, run_id: str) -> AuditLine:
        """Return the line of a decision.

        Args:
            decision: The recorded decision.
            run_id: The run of its wait.

        Returns:
            The line. A decision by a deadline, a signal or the end of its run has that
            as its door.
        """
        door = decision.door or _DOORS_OF_KINDS.get(decision.kind)
        return cls(
            at=decision.at,
            run=run_id,
            wait=decision.wait_id,
            kind=decision.wait_id.partition("-")[0],
            verdict=decision.kind,
            by=decision.by,
            groups=decision.groups,
            authentication=decision.authentication,
            door="signal" if decision.signal else door,
            digest=decision.digest,
            shown=decision.shown,
            reason=decision.reason,
            rule=decision.rule or _given_grant(decision),
        )


def _given_grant(decision: Decision) -> str | None:
    return None if decision.grant_json is None else f"grant {decision.id}"


def rewind_reason(version: int) -> str:
    """Return the reason of a wait that a rewind closed.

    Args:
        version: The earlier version.

    Returns:
        The text of the record.
    """
    return f"The run was rewound to version {version}."
