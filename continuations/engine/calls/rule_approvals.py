"""Decide about calls by a rule instead of a person, and record that decision first.

A rule is a grant of the run, or a condition of the tool's policy that returns an
`Approve` or `Deny`. The record is created before the call goes on. If the store fails,
a person is asked: a decision that left no record would be missing in the audit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from continuations.core.changes.call_events import CallAccepted, Denied
from continuations.core.rows.decisions import Approve, Decision, Deny
from continuations.core.rows.run import Failure
from continuations.engine.call_waits import (
    approval_digest,
    approved_contract_digest,
    quorum_of,
)
from continuations.engine.calls.grant_coverage import covering_grant
from continuations.errors import StoreError
from continuations.ledger.arrivals import recorded_decisions
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.authoring.approval import ApprovalPolicy
    from continuations.authoring.tool.tool_protocol import ToolProtocol
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.state import RunState

RecordDecision: TypeAlias = Callable[[Decision], Awaitable[None]]
Ruling: TypeAlias = CallAccepted | Denied

_NOT_RECORDED_NOTE = "A rule would decide this call, but its decision was not recorded."
_DENIAL_NOT_RECORDED_NOTE = (
    "A rule denies this call, and its decision was not recorded. An approval does not "
    "run the call while the rule denies it."
)
_UNNAMED_RULE = "approval rule"


class ExaminedCall(TypedDict):
    """The fields that the events of an examined call share."""

    call_id: str
    arguments: str
    contract_digest: str
    repeatable: bool
    verifiable: bool
    secrets: tuple[str, ...]
    writes_state: bool


def examined_call(call_id: str, tool: ToolProtocol, arguments: str) -> ExaminedCall:
    """Return what the present contract of a tool says about a call."""
    return ExaminedCall(
        call_id=call_id,
        arguments=arguments,
        contract_digest=tool.contract_digest,
        repeatable=tool.repeatable,
        verifiable=tool.verifiable,
        secrets=tool.secrets,
        writes_state=tool.writes_state,
    )


async def keep_no_record(_: Decision) -> None:
    """Record nothing: without a store there is no audit."""


def asks_person(verdict: bool | Approve | Deny) -> bool:
    """Return whether a verdict about a call that was admitted asks a person."""
    return verdict is not False and type(verdict) is not Approve


@dataclass(frozen=True, slots=True)
class RuleApprovals:
    """Decides about calls by grants and policies, with a record of each decision."""

    record: RecordDecision = keep_no_record

    async def rule(
        self,
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        examined: ExaminedCall,
        verdict: bool | Approve | Deny,
        now: datetime,
    ) -> Ruling | str | None:
        """Return the event of a call that a rule decides; `None` if none does.

        Returns the note for a person if the decision could not be recorded.
        """
        policy, arguments = tool.approval, examined["arguments"]
        if isinstance(verdict, Deny):
            return await self.deny(state, call, tool, arguments, verdict, now)
        grant = None
        if isinstance(verdict, bool):
            grant = covering_grant(state, call, tool, arguments, now)
            if grant is None:
                return None
            verdict, name = Approve(), f"grant {grant.id}"
        else:
            name = _rule_name(policy)
        contract = approved_contract_digest(tool)
        digest = approval_digest(state, call, arguments, contract)
        decision = _decision(state, call, verdict, name, digest, now)
        if not await self._is_recorded(decision):
            return _NOT_RECORDED_NOTE
        validity = policy.approval_validity if policy is not None else None
        ends = [
            grant.until if grant is not None else None,
            now + validity if validity is not None else None,
        ]
        return CallAccepted(
            **examined,
            approved_digest=digest,
            approved_until=min((end for end in ends if end is not None), default=None),
            grant=grant.id if grant is not None else None,
            quorum=quorum_of(state, call, policy),
        )

    async def deny(
        self,
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        arguments: str,
        verdict: Deny,
        now: datetime,
    ) -> Denied | str:
        """Return the event of a call that a condition denies.

        Returns the note for a person if the decision could not be recorded.
        """
        policy = tool.approval
        contract = approved_contract_digest(tool)
        digest = approval_digest(state, call, arguments, contract)
        decision = _decision(state, call, verdict, _rule_name(policy), digest, now)
        if not await self._is_recorded(decision):
            return _DENIAL_NOT_RECORDED_NOTE
        stops = policy is not None and policy.on_denied == "stop"
        reason = f": {decision.reason}" if decision.reason else ""
        message = f"{call.tool} was denied by {decision.rule}{reason}"
        failure = Failure(code="denied", message=message) if stops else None
        return Denied(call_id=call.id, decision=decision, failure=failure)

    async def _is_recorded(self, decision: Decision) -> bool:
        """Record a decision; return whether the store took it."""
        try:
            await self.record(decision)
        except StoreError:
            return False
        return True


def _rule_name(policy: ApprovalPolicy | None) -> str:
    return (policy.display_name if policy else None) or _UNNAMED_RULE


def _decision(
    state: RunState,
    call: CallRow,
    verdict: Approve | Deny,
    rule: str,
    digest: str,
    now: datetime,
) -> Decision:

    return recorded_decisions.rule_decision(
        state,
        call,
        rule=rule,
        kind="approve" if isinstance(verdict, Approve) else "deny",
        digest=digest,
        at=now,
        reason=verdict.reason,
    )
