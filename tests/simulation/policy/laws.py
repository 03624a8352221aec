"""Laws of grants, rules and checks, written without the code that they check.

A call that needs an approval and for which no wait was opened has the decision of a
rule: a condition of its policy, or a grant. Whether that grant stood is computed again
here, from the decision that gave it and from the stored revocations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from continuations.authoring.tool.tool import Tool
from continuations.core import jsontext
from continuations.core.rows.calls import CallRow, Nested, Refused
from continuations.core.rows.decisions import Approve, Decision, Deny
from continuations.core.rows.grants import parse_grant_text
from continuations.core.rows.state import RunState, frame_path
from continuations.core.rows.wait_rules import WaitKind
from continuations.core.rows.waits import call_digest
from continuations.ledger import layout
from tests.simulation.evidence import Evidence, RunHistory, WaitRecord
from tests.simulation.fault_schedule import Deployment
from tests.simulation.policy.tools import RULE_POLICIES, small_amounts
from tests.simulation.processes import EPOCH
from tests.simulation.seams.tools import first_name, names_after
from tests.simulation.sim_environment import Effect

_CONDITION = "small_amounts"


# A call that no person was asked about ----------------------------------------------


@dataclass(frozen=True, slots=True)
class _Beginning:
    """The begin of a call that needs an approval.

    Attributes:
        arguments: The effective arguments as canonical JSON.
        contracts: The contract digests that an approval of the call may be bound to.
        number: The version that recorded the start.
        at: The true time of the last check before the call.
        clock: The time of its worker's clock then; `None` if it is not known.
    """

    run_id: str
    call_id: str
    arguments: str
    contracts: tuple[str, ...]
    number: int
    at: float
    clock: float | None


def approved_contract(code: Tool[Any, Any], kind: WaitKind) -> str:
    """Return the contract digest that an approval of a tool's call is bound to."""
    strict = code.approval is not None and code.approval.strict
    if strict and kind == "approval":
        return f"{code.contract_digest} {code.model_text_digest}"
    return code.contract_digest


def _beginning(effect: Effect) -> _Beginning:
    return _Beginning(
        run_id=effect.run_id,
        call_id=effect.call_id,
        arguments=effect.arguments,
        contracts=_contracts_under_all_names(effect.code),
        number=effect.fence,
        at=effect.clock_sample.true_time,
        clock=effect.clock_sample.wall_time,
    )


def _contracts_under_all_names(code: Tool[Any, Any]) -> tuple[str, ...]:
    """Return the contracts of a tool under its names: a grant may know an older one."""
    name = first_name(code.name)
    names = {code.name, name, names_after("renames").get(name, name)}
    codes = [code if each == code.name else code.with_name(each) for each in names]
    return tuple(approved_contract(each, "approval") for each in codes)


def why_not_ruled(evidence: Evidence, effect: Effect) -> str | None:
    """Return why no rule allowed a call, `None` if one did."""
    if _needs_no_approval(effect):
        return None
    return _why_not_covered(evidence, _beginning(effect))


def _needs_no_approval(effect: Effect) -> bool:
    """Return whether the condition of the policy lets a call run."""
    what = jsontext.parse(effect.arguments)["what"]
    return effect.tool == "ruled" and small_amounts(what) is False


def is_denied_by_its_rule(tool: str, arguments: str) -> bool:
    """Return whether the condition of a tool's policy denies a call."""
    what = jsontext.parse(arguments)["what"]
    return first_name(tool) == "ruled" and isinstance(small_amounts(what), Deny)


def no_call_begins_unasked(evidence: Evidence) -> str | None:
    """A call without a person's approval has that of a rule, or of a grant that stood.

    A grant stands if it was not revoked before the claim that began the call, and if
    its time was not over. The tool, its place, its contract and the arguments are those
    that the grant covers.
    """
    for effect in evidence.environment.effects:
        if effect.code.approval is None or _person_was_asked(evidence, effect):
            continue
        reason = why_not_ruled(evidence, effect)
        if reason is not None:
            return f"{effect}: {reason}"
    return None


def _person_was_asked(evidence: Evidence, effect: Effect) -> bool:
    return any(
        record.opened_at < effect.began_at
        for record in _waits_of(evidence, effect.run_id, effect.call_id)
    )


def _waits_of(evidence: Evidence, run_id: str, call_id: str) -> Iterator[WaitRecord]:
    """Yield the waits in which a person could approve a call."""
    for record in evidence.waits.values():
        is_of_call = (record.wait.run_id, record.wait.call_id) == (run_id, call_id)
        approved = record.decision is not None and record.decision.kind == "approve"
        if is_of_call and (record.wait.kind == "approval" or approved):
            yield record


def no_agent_is_entered_unasked(evidence: Evidence) -> str | None:
    """A sub-agent that needs an approval is entered after one, or with a grant."""
    for history in evidence.runs.values():
        entered = _entered_in_the_source(evidence, history)
        for version in history.versions:
            for call in version.state.calls.values():
                if not isinstance(call.state, Nested) or call.id in entered:
                    continue
                entered.add(call.id)
                asked = any(
                    record.opened_at < version.at
                    for record in _waits_of(evidence, history.run_id, call.id)
                )
                if asked or not _needs_approval(evidence, history, call.tool):
                    continue
                began = _Beginning(
                    run_id=history.run_id,
                    call_id=call.id,
                    arguments=call.arguments or "{}",
                    contracts=(call.contract_digest or "",),
                    number=version.number,
                    at=version.at,
                    clock=None,
                )
                reason = _why_not_covered(evidence, began)
                if reason is not None:
                    return f"{call.tool} {call.id} was entered: {reason}"
    return None


def _entered_in_the_source(evidence: Evidence, history: RunHistory) -> set[str]:
    """Return the calls of agents that a fork or an adopted run has from its source."""
    calls = _calls_of_the_source(evidence, history)
    return {call.id for call in calls if isinstance(call.state, Nested)}


def _calls_of_the_source(evidence: Evidence, history: RunHistory) -> list[CallRow]:
    """Return the calls of the first version, if they come from another run."""
    if history.run_id not in evidence.environment.sources or not history.versions:
        return []
    return [*history.versions[0].state.calls.values()]


def _needs_approval(evidence: Evidence, history: RunHistory, agent: str) -> bool:
    from tests.simulation.agents import find_tree  # noqa: PLC0415 - imports the laws

    names = [*find_tree(evidence.environment.tree_of_run[history.run_id]).sub_agents]
    return any(name.startswith(f"{agent}?") for name in names)


def _why_not_covered(evidence: Evidence, began: _Beginning) -> str | None:
    """Return why no rule's decision covers a call, or `None`."""
    history = evidence.runs[began.run_id]
    digests = [
        call_digest(
            run_nonce=history.newest_state.run.run_nonce,
            frame_id=history.frame_of(began.call_id),
            call_id=began.call_id,
            arguments=began.arguments,
            contract_digest=contract,
        )
        for contract in began.contracts
    ]
    reason = "neither a person nor a rule approved it"
    for decision, at in evidence.decisions.values():
        is_of_call = decision.rule is not None and decision.digest in digests
        if not is_of_call or decision.kind != "approve" or at > began.at:
            continue
        if decision.rule == _CONDITION:
            what = jsontext.parse(began.arguments)["what"]
            approves = isinstance(small_amounts(what), Approve)
            return None if approves else f"{_CONDITION} does not approve it"
        grant_id = (decision.rule or "").removeprefix("grant ")
        found = _why_not_granted(evidence, began, grant_id)
        if found is None:
            return None
        reason = f"{decision.rule} does not cover it: {found}"
    return reason


def _why_not_granted(
    evidence: Evidence, began: _Beginning, grant_id: str
) -> str | None:
    """Return why a grant did not cover a call when it began, or `None`."""
    giver = _giver_of(evidence, grant_id)
    if giver is None or giver.decision is None or giver.decision.grant_json is None:
        return "no approval gave it"
    if giver.wait.run_id != began.run_id or giver.decided_at > began.at:
        return "it was given in another run, or later"
    reason = _why_another_call(evidence, began, giver)
    if reason is not None:
        return reason
    grant = parse_grant_text(giver.decision.grant_json)
    if grant.until is not None and _is_over(evidence, began, grant.until):
        return f"it ended at {grant.until}"
    claimed_at = _claim_began(evidence, began)
    for revocation, at in evidence.revocations.get(began.run_id, ()):
        if revocation.grant == grant_id and at < claimed_at:
            return f"it was revoked at {at}, before the claim of {claimed_at}"
    return None


def _why_another_call(
    evidence: Evidence, began: _Beginning, giver: WaitRecord
) -> str | None:
    """Return why a call is none of those that a grant is for, or `None`."""
    path = _path_of(evidence, began)
    if [*map(first_name, giver.wait.path)] != [*map(first_name, path)]:
        return f"it is for {giver.wait.path}, and the call is at {path}"
    if not _has_contract(evidence, giver, began):
        return "the tool has another contract"
    decision = giver.decision
    assert decision is not None
    grant = parse_grant_text(decision.grant_json or "")
    if grant.arguments is None:
        return None
    values = grant.arguments["properties"]["what"]["enum"]
    what = jsontext.parse(began.arguments).get("what", values[0])
    return None if what in values else f"{what} is not one of {values}"


def _giver_of(evidence: Evidence, grant_id: str) -> WaitRecord | None:
    for record in evidence.waits.values():
        if record.decision is not None and record.decision.id == grant_id:
            return record
    return None


def _path_of(evidence: Evidence, began: _Beginning) -> tuple[str, ...]:
    for version in evidence.runs[began.run_id].versions:
        call = version.state.calls.get(began.call_id)
        if call is not None:
            return (*frame_path(version.state, call.frame_id), call.tool)
    return ()


def _has_contract(evidence: Evidence, giver: WaitRecord, began: _Beginning) -> bool:
    """Return whether the wait of the giver was bound to the contract of a call."""
    wait = giver.wait
    history = evidence.runs[wait.run_id]
    return any(
        wait.digest
        == call_digest(
            run_nonce=history.newest_state.run.run_nonce,
            frame_id=history.frame_of(wait.call_id),
            call_id=wait.call_id,
            arguments=wait.arguments_json,
            contract_digest=contract,
        )
        for contract in began.contracts
    )


def _is_over(evidence: Evidence, began: _Beginning, until: datetime) -> bool:
    """Return whether a time was over, by the worker's clock or by the store's."""
    end = (until - EPOCH).total_seconds()
    late_by_clock = began.clock is not None and began.clock > end + 0.001
    return late_by_clock or began.at > end + evidence.environment.lease


def _claim_began(evidence: Evidence, began: _Beginning) -> float:
    """Return when the worker of a call last listed the arrivals before its claim."""
    versions = evidence.runs[began.run_id].versions
    index = next(i for i, v in enumerate(versions) if v.number == began.number)
    process = versions[index].process
    while index and versions[index - 1].process == process:
        if versions[index - 1].state.run.claim is None:
            break
        index -= 1
    return max(
        (
            at
            for name, run_id, at in evidence.environment.arrival_listings
            if (name, run_id) == (process, began.run_id) and at < versions[index].at
        ),
        default=0.0,
    )


# Records ----------------------------------------------------------------------------


def grants_come_from_approvals(evidence: Evidence) -> str | None:
    """A run keeps only grants that persons gave with their approvals, as given."""
    for history in evidence.runs.values():
        for version in history.versions:
            for kept in version.state.run.grants:
                giver = _giver_of(evidence, kept.id)
                decision = giver.decision if giver is not None else None
                if giver is None or decision is None or decision.grant_json is None:
                    return f"version {version.number} keeps {kept.id}: not given"
                if decision.kind != "approve" or decision.rule is not None:
                    return f"grant {kept.id} was given by {decision}"
                given = parse_grant_text(decision.grant_json)
                schema = None if given.arguments is None else dict(given.arguments)
                expected = (given.tool, giver.wait.path, given.until, schema)
                if expected != (kept.tool, kept.path, kept.until, kept.arguments):
                    return f"grant {kept.id} is kept as {kept}, given as {expected}"
    return None


def acknowledged_revocations_are_kept(evidence: Evidence) -> str | None:
    """An acknowledged revocation is stored, once, in numbers without gaps."""
    for run_id, revocations in evidence.revocations.items():
        numbers = [each.number for each, _ in revocations]
        grants = [each.grant for each, _ in revocations]
        if numbers != list(range(1, len(numbers) + 1)) or len({*grants}) < len(grants):
            return f"{run_id} has the revocations {revocations}"
    for each in evidence.environment.revoked_grants:
        kept = evidence.revocations.get(each.run_id, ())
        if not any(one.grant == each.grant and at <= each.at for one, at in kept):
            return f"{each.process} revoked {each.grant}, and that is lost"
    return None


def rules_decide_under_their_names(evidence: Evidence) -> str | None:
    """The decision of a rule is recorded as the rule's, and that of a person is not.

    A call that a condition denied, and that no person was asked about, has its record.
    """
    for wait_id, (decision, _) in evidence.decisions.items():
        if decision.kind == "cancel":
            continue  # also of waits that no stored version opened
        # A wait for an event is decided also if the version that opens it is lost.
        is_approval = layout.parse_wait_id(wait_id).kind == "approval"
        if wait_id in evidence.waits or not is_approval:
            if decision.rule is not None or decision.door == "rule":
                return f"{wait_id} was decided by a person, recorded as {decision}"
            continue
        problem = _why_not_a_rule(evidence, decision)
        if problem is not None and not _is_of_lost_wait(evidence, wait_id):
            return f"{wait_id}: {problem}: {decision}"
    return _denied_without_a_record(evidence)


def _why_not_a_rule(evidence: Evidence, decision: Decision) -> str | None:
    if (decision.door, decision.by) != ("rule", None):
        return "the decision of a rule names a person or another door"
    if decision.rule == _CONDITION:
        return None
    grant_id = (decision.rule or "").removeprefix("grant ")
    if decision.kind != "approve" or _giver_of(evidence, grant_id) is None:
        return "no such rule"
    return None


def _is_of_lost_wait(evidence: Evidence, wait_id: str) -> bool:
    """Return whether a version that opened a wait does not load; see other laws."""
    run_id = wait_id.partition("@")[2]
    return evidence.runs[run_id].load_error is not None


def _denied_without_a_record(evidence: Evidence) -> str | None:
    recorded = {
        decision.digest
        for decision, _ in evidence.decisions.values()
        if decision.rule == _CONDITION and decision.kind == "deny"
    }
    for history in evidence.runs.values():
        copied = _refused_in_the_source(evidence, history)
        for version in history.versions:
            for call in version.state.calls.values():
                is_ruled = first_name(call.tool) == "ruled"
                if not is_ruled or not isinstance(call.state, Refused):
                    continue
                if call.id in copied:
                    continue  # its record is that of the source
                asked = any(_waits_of(evidence, history.run_id, call.id))
                if call.state.code != "denied" or asked:
                    continue
                if recorded.isdisjoint(_digests_of_ruled_call(version.state, call)):
                    return f"{call.id} was denied by a rule without a record"
    return None


def _refused_in_the_source(evidence: Evidence, history: RunHistory) -> set[str]:
    """Return the refused calls that a fork or an adopted run has from its source."""
    calls = _calls_of_the_source(evidence, history)
    return {call.id for call in calls if isinstance(call.state, Refused)}


def _digests_of_ruled_call(state: RunState, call: CallRow) -> set[str]:
    """Return the digests that a denial of a call may be bound to, for all code."""
    from tests.simulation.tools import deployed_tools  # noqa: PLC0415 - imports actors

    changes: tuple[Deployment | None, ...] = (None, "parameter", "version", "strict")
    codes = [deployed_tools(each)["ruled"].with_name(call.tool) for each in changes]
    return {
        call_digest(
            run_nonce=state.run.run_nonce,
            frame_id=call.frame_id,
            call_id=call.id,
            arguments=code.effective_arguments(call.raw_arguments),
            contract_digest=approved_contract(code, "approval"),
        )
        for code in codes
    }


# Checks and edits -------------------------------------------------------------------


def refused_by_its_check_never_runs(evidence: Evidence) -> str | None:
    """The last check of a worker before a call with a check let the call begin."""
    for effect in evidence.environment.effects:
        policy = effect.code.approval
        if policy is None or policy.recheck is None or _needs_no_approval(effect):
            continue  # only approved calls are checked again
        what = jsontext.parse(effect.arguments)["what"]
        checks = [
            check
            for check in evidence.environment.rechecks
            if (check.process, check.tool, check.what)
            == (effect.process, effect.tool, what)
            and check.at <= effect.sent_at
        ]
        if not checks or not checks[-1].allowed:
            return f"{effect} ran; its last check: {checks[-1:]}"
    return None


def fixed_arguments_stay(evidence: Evidence) -> str | None:
    """An edit of an argument that is not editable is neither recorded nor executed."""
    for record in evidence.waits.values():
        policy = RULE_POLICIES.get(record.wait.tool)
        if policy is None or policy.editable is None or record.decision is None:
            continue
        edited = record.decision.arguments
        if edited is not None and edited != record.wait.arguments_json:
            return f"{record.wait.id} was approved with {edited}"
    for effect in evidence.environment.effects:
        policy = RULE_POLICIES.get(effect.tool)
        if policy is None or policy.editable is None:
            continue
        for record in _waits_of(evidence, effect.run_id, effect.call_id):
            shown = effect.code.effective_arguments(record.wait.arguments_json)
            if shown != effect.arguments:
                return f"{effect} ran; {shown} was shown"
    return None
