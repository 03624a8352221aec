"""Record the decisions that rules make instead of a person.

The record of such a decision has a key that follows from the run, the call, the rule
and the verdict. So a call that is examined again after a crash has one record.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.core.decisions import Decision
from continuations.core.waits import rule_wait_ulid
from continuations.ledger import layout
from continuations.ledger.objects import AlreadyExists
from continuations.wire.records import DECISION

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Literal

    from continuations.core.calls import CallRow
    from continuations.core.state import RunState
    from continuations.ledger.objects import Objects


def rule_decision(
    state: RunState,
    call: CallRow,
    *,
    rule: str,
    kind: Literal["approve", "deny"],
    digest: str,
    at: datetime,
    reason: str | None = None,
) -> Decision:
    """Return the decision of a rule about a call that no wait was opened for."""
    ulid = rule_wait_ulid(state.run, call, rule, kind, digest)
    return Decision(
        id=ulid,
        wait_id=layout.build_wait_id("approval", ulid, state.run.id),
        kind=kind,
        at=at,
        digest=digest,
        reason=reason,
        door="rule",
        rule=rule,
    )


async def record(objects: Objects, decision: Decision) -> None:
    """Create the record of a decision; an equal one may exist after a crash."""
    run_id = layout.parse_wait_id(decision.wait_id).run_id
    key = layout.decision_key(decision.wait_id)
    with suppress(AlreadyExists):
        await objects.create(key, DECISION.encode(decision, run_id))
