"""Approve calls by a rule instead of a person, and record that decision first.

The record is created before the call is accepted. If the store fails, a person is
asked: a decision that left no record would be missing in the audit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from continuations.core.decisions import Decision
from continuations.core.events import CallAccepted
from continuations.engine.call_waits import approval_digest, approved_contract_digest
from continuations.errors import StoreError

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.authoring.tool_protocol import ToolProtocol
    from continuations.core.calls import CallRow
    from continuations.core.grants import KeptGrant
    from continuations.core.state import RunState

RecordDecision: TypeAlias = Callable[[Decision], Awaitable[None]]

NOT_RECORDED_NOTE = "A rule would decide this call, but its decision was not recorded."


async def keep_no_record(_: Decision) -> None:
    """Record nothing: without a store there is no audit."""


@dataclass(frozen=True, slots=True)
class RuleApprovals:
    """Approves calls by grants, with a record of each decision."""

    record: RecordDecision = keep_no_record

    async def approve_by_grant(
        self,
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        arguments: str,
        grant: KeptGrant,
        now: datetime,
    ) -> CallAccepted | None:
        """Return the event of a call that a grant approves.

        Returns `None` if the decision could not be recorded.
        """
        contract = approved_contract_digest(tool)
        digest = approval_digest(state, call, arguments, contract)
        if not await self._is_recorded(
            state, call, rule=f"grant {grant.id}", digest=digest, now=now
        ):
            return None
        validity = tool.approval.approval_validity if tool.approval else None
        ends = [grant.until, now + validity if validity is not None else None]
        return CallAccepted(
            call_id=call.id,
            arguments=arguments,
            contract_digest=tool.contract_digest,
            repeatable=tool.repeatable,
            verifiable=tool.verifiable,
            approved_digest=digest,
            approved_until=min((end for end in ends if end is not None), default=None),
            grant=grant.id,
        )

    async def _is_recorded(
        self, state: RunState, call: CallRow, *, rule: str, digest: str, now: datetime
    ) -> bool:
        from continuations.ledger import rule_decisions  # noqa: PLC0415 - rarely needed

        decision = rule_decisions.rule_decision(
            state, call, rule=rule, kind="approve", digest=digest, at=now
        )
        try:
            await self.record(decision)
        except StoreError:
            return False
        return True
