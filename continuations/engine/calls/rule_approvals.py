"""Decide about calls by a rule instead of a person, and record that decision first.

A rule is a grant of the run, or a condition of the tool's policy that returns an
`Approve` or `Deny`. The record is created before the call goes on. If the store fails,
a person is asked: a decision that left no record would be missing in the audit.

A grant is read when a call is examined, and again before the call begins. It covers a
call of the same tool at the same place of the same run. The tool must have the same
contract and approvers, the arguments must match the schema, and the time must not be
over. If the policy excludes requesters, the person who gave the grant is none of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from continuations.core import jsontext
from continuations.core.changes import events
from continuations.core.changes.reducer import advance
from continuations.core.rows.decisions import Approve, Decision, Deny
from continuations.core.rows.grants import KeptGrant, has_ended
from continuations.core.rows.run import Failure
from continuations.core.rows.state import RunState, call_path
from continuations.engine import call_waits
from continuations.errors import StoreError
from continuations.ledger.arrivals import recorded_decisions
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.authoring.approval import ApprovalPolicy
    from continuations.authoring.registry import Renames
    from continuations.authoring.tool.tool_protocol import ToolProtocol
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.quorum import Quorum
    from continuations.core.rows.waits import Wait
    from continuations.wire.arrivals import Revocation


RecordDecision: TypeAlias = Callable[[Decision], Awaitable[None]]
Ruling: TypeAlias = events.CallAccepted | events.Denied

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
        contract = call_waits.approved_contract_digest(tool)
        digest = call_waits.approval_digest(state, call, arguments, contract)
        decision = _decision(state, call, verdict, name, digest, now)
        if not await self._is_recorded(decision):
            return _NOT_RECORDED_NOTE
        validity = policy.approval_validity if policy is not None else None
        ends = [
            grant.until if grant is not None else None,
            now + validity if validity is not None else None,
        ]
        return events.CallAccepted(
            **examined,
            approved_digest=digest,
            approved_until=min((end for end in ends if end is not None), default=None),
            grant=grant.id if grant is not None else None,
            quorum=call_waits.quorum_of(state, call, policy),
        )

    async def deny(
        self,
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        arguments: str,
        verdict: Deny,
        now: datetime,
    ) -> events.Denied | str:
        """Return the event of a call that a condition denies.

        Returns the note for a person if the decision could not be recorded.
        """
        policy = tool.approval
        contract = call_waits.approved_contract_digest(tool)
        digest = call_waits.approval_digest(state, call, arguments, contract)
        decision = _decision(state, call, verdict, _rule_name(policy), digest, now)
        if not await self._is_recorded(decision):
            return _DENIAL_NOT_RECORDED_NOTE
        stops = policy is not None and policy.on_denied == "stop"
        reason = f": {decision.reason}" if decision.reason else ""
        message = f"{call.tool} was denied by {decision.rule}{reason}"
        failure = Failure(code="denied", message=message) if stops else None
        return events.Denied(call_id=call.id, decision=decision, failure=failure)

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


ENDED_NOTE = "The grant that approved this call was revoked or has ended."


def given_grants(
    decision: Decision, wait: Wait, tool: ToolProtocol
) -> tuple[events.GrantGiven, ...]:
    """Return the event of the grant that an approval gives, if it gives one.

    `decide` refuses a grant that does not fit the wait. Another program may have
    written the decision, so a worker checks the grant again and keeps none.
    """
    if decision.grant_json is None:
        return ()
    from continuations.ledger.decisions import run_grants  # noqa: PLC0415 - rarely needed

    contract = _grant_contract(tool, wait.quorum)
    kept = run_grants.given_grant(wait, decision, contract)
    return () if kept is None else (events.GrantGiven(grant=kept),)


def covering_grant(
    state: RunState,
    call: CallRow,
    tool: ToolProtocol,
    arguments: str,
    now: datetime,
) -> KeptGrant | None:
    """Return the newest grant that covers a call with these arguments, or `None`.

    A grant approves for the person who gave it. So it covers no call that this person
    asked for and may not approve.
    """
    grants = state.run.grants
    if not grants:
        return None
    path = call_path(state, call)
    policy = tool.approval
    if policy is not None and policy.form_digest is not None:
        return None  # a grant cannot fill in a form
    quorum = None if policy is None else policy.quorum
    contract = _grant_contract(tool, quorum)
    asked = None if quorum is None else quorum.of_run(state.run)
    for grant in reversed(grants):
        is_same_tool = (grant.path, grant.contract) == (path, contract)
        if not is_same_tool or has_ended(grant, now):
            continue
        if asked is not None and asked.excludes(grant.by or ""):
            continue
        if _matches(grant, arguments):
            return grant
    return None


def with_grants_of_old_names(
    state: RunState, call: CallRow, tool: ToolProtocol, renames: Renames
) -> RunState:
    """Return a run whose grants count for a renamed tool, to look for a grant in.

    A grant counts if nothing but names has changed: on the way to the tool, and in its
    contract under the name that the grant has.
    """

    def newest(path: Sequence[str]) -> list[str]:
        return [renames.newest_name(name) for name in path]

    path = call_path(state, call)
    quorum = tool.approval.quorum if tool.approval is not None else None
    contract = _grant_contract(tool, quorum)
    grants: list[KeptGrant] = []
    for grant in state.run.grants:
        same = newest(grant.path) == newest(path)
        old = renames.named(tool, grant.tool)
        if same and grant.contract == _grant_contract(old, quorum):
            grant = replace(grant, path=path, contract=contract)  # noqa: PLW2901
        grants.append(grant)
    return replace(state, run=replace(state.run, grants=tuple(grants)))


def _grant_contract(tool: ToolProtocol, quorum: Quorum | None) -> str:
    """Return the digest that a grant is bound to: the contract and who may approve."""
    contract = call_waits.approved_contract_digest(tool)
    if quorum is None:
        return contract
    # The order of the approvers means nothing.
    parts = [sorted(quorum.approvers), quorum.votes, quorum.not_requester]
    return jsontext.digest(contract, jsontext.canonical(parts))


def _matches(grant: KeptGrant, arguments: str) -> bool:
    schema = grant.arguments
    if schema is None:
        return True
    from continuations.ledger import edits  # noqa: PLC0415 - only grants with a schema
    from continuations.ledger.decisions import run_grants  # noqa: PLC0415 - only grants with a schema

    try:
        strict = run_grants.strict_condition(schema)
    except (run_grants.UselessCondition, TypeError, AttributeError, RecursionError):
        return False  # another program may have stored it
    values = jsontext.parse(arguments)
    return edits.find_value_problem(strict, values, "arguments") is None


def has_lost_its_grant(state: RunState, call: CallRow) -> bool:
    """Return whether a grant approved a call, and the run does not keep it any more."""
    kept = {grant.id for grant in state.run.grants}
    return call.grant is not None and call.grant not in kept


def with_revocations(state: RunState, revocations: Sequence[Revocation]) -> RunState:
    """Return the run after the revocations that it has not taken in yet."""
    last = state.run.last_revocation_number
    new = [each for each in revocations if each.number > last]
    if not new or state.run.has_ended:
        return state
    ids = tuple(each.grant for each in new)
    return advance(
        state, events.GrantsRevoked(last_number=new[-1].number, grant_ids=ids)
    )
