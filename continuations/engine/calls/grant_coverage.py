"""Grants at work: which calls they approve instead of a person, and when they end.

A grant is read when a call is examined, and again before the call begins. It covers a
call of the same tool at the same place of the same run. The tool must have the same
contract and approvers, the arguments must match the schema, and the time must not be
over. If the policy excludes requesters, the person who gave the grant is none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.changes.events import GrantGiven, GrantsRevoked
from continuations.core.changes.reducer import advance
from continuations.core.rows.grants import KeptGrant, has_ended, parse_grant_text
from continuations.core.rows.run import ENDED_STATUSES
from continuations.core.rows.state import frame_path
from continuations.engine.call_waits import approved_contract_digest
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from continuations.authoring.registry import Renames
    from continuations.authoring.tool.tool_protocol import ToolProtocol
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.quorum import Quorum
    from continuations.core.rows.state import RunState
    from continuations.core.rows.waits import Wait
    from continuations.wire.arrivals import Revocation

ENDED_NOTE = "The grant that approved this call was revoked or has ended."


def given_grants(
    decision: Decision, wait: Wait, tool: ToolProtocol
) -> tuple[GrantGiven, ...]:
    """Return the event of the grant that an approval gives, if it gives one.

    `decide` refuses a grant that does not fit the wait. Another program may have
    written the decision, so a worker checks the grant again and keeps none.
    """
    if decision.grant_json is None or len(decision.voters) > 1:
        return ()
    from continuations.ledger.decisions import grant_checks  # noqa: PLC0415 - rarely needed

    given = parse_grant_text(decision.grant_json)
    if grant_checks.find_problem(wait, given) is not None:
        return ()
    schema = given.arguments
    kept = KeptGrant(
        id=decision.id,
        tool=wait.tool,
        path=wait.path,
        contract=_grant_contract(tool, wait.quorum),
        arguments_json=None if schema is None else jsontext.canonical(dict(schema)),
        until=given.until,
        by=decision.by,
        at=decision.at,
        wait_id=wait.id,
    )
    return (GrantGiven(grant=kept),)


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
    path = (*frame_path(state, call.frame_id), call.tool)
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

    path = (*frame_path(state, call.frame_id), call.tool)
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
    contract = approved_contract_digest(tool)
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
    from continuations.ledger.decisions import grant_checks  # noqa: PLC0415 - only grants with a schema

    try:
        strict = grant_checks.strict_condition(schema)
    except (grant_checks.UselessCondition, TypeError, AttributeError, RecursionError):
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
    if not new or state.run.status in ENDED_STATUSES:
        return state
    ids = tuple(each.grant for each in new)
    return advance(state, GrantsRevoked(last_number=new[-1].number, grant_ids=ids))
