"""Bugs of grants, rules and checks: which calls run without a person, and how long."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from continuations.authoring.tool.tool_protocol import ToolProtocol
from continuations.core.rows import waits
from continuations.core.rows.calls import CallRow
from continuations.core.rows.decisions import Approve, Decision, Deny
from continuations.core.rows.state import RunState, frame_path
from continuations.engine.calls import rule_approvals
from continuations.engine.calls.admission import Admission
from continuations.engine.calls.rule_approvals import RuleApprovals
from continuations.errors import StoreError
from continuations.ledger import layout
from continuations.ledger.arrivals import recorded_decisions
from continuations.ledger.arrivals.arrival_logs import REVOCATIONS
from continuations.ledger.decisions import run_grants
from continuations.ledger.objects import AlreadyExists, Objects
from continuations.wire.arrivals import REVOCATION, Revocation
from tests.simulation.families import POLICY
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    gives_back,
    mutants_of,
    patch,
    returns,
    skip,
)

mutant = mutants_of(POLICY)

# Which grants stand -----------------------------------------------------------------


@mutant("no_call_begins_unasked", "no_agent_is_entered_unasked")
def a_revocation_is_ignored() -> Patches:
    """A revocation is ignored."""
    yield gives_back(rule_approvals.with_revocations, "state")


@mutant("acknowledged_revocations_are_kept")
def a_revocation_under_a_taken_number_is_a_success() -> Patches:
    """A revocation whose number is taken counts as recorded."""

    async def post(objects: Objects, run_id: str, revocation: Revocation) -> Revocation:
        numbers = await REVOCATIONS.numbers(objects, run_id)
        await run_grants._check_has_grant(objects, run_id, revocation)
        posted = replace(revocation, number=max(numbers, default=0) + 1)
        key = layout.numbered_key(layout.REVOCATION, run_id, posted.number)
        with suppress(AlreadyExists):
            await objects.create(key, REVOCATION.encode(posted, run_id))
        return posted

    yield patch(run_grants.post, post)


# What a grant covers ----------------------------------------------------------------


def _covers(change: str) -> Patches:
    """Let grants cover more calls: without an end, or at every place."""

    def covering_grant(original: Original, state: RunState, call: CallRow) -> Any:
        path = (*frame_path(state, call.frame_id), call.tool)
        grants = tuple(
            replace(grant, until=None)
            if change == "until"
            else replace(grant, path=path if grant.tool == call.tool else grant.path)
            for grant in state.run.grants
        )
        changed = replace(state, run=replace(state.run, grants=grants))
        return original(state=changed)

    yield patch(rule_approvals.covering_grant, covering_grant)


@mutant("no_call_begins_unasked")
def a_grant_has_no_end() -> Patches:
    """A grant has no end."""
    yield from _covers("until")


@mutant("no_call_begins_unasked")
def a_grant_covers_every_place() -> Patches:
    """A grant covers the calls of all agents of its run."""
    yield from _covers("path")


@mutant("no_call_begins_unasked")
def a_grant_covers_a_changed_tool() -> Patches:
    """A grant covers a tool with another contract."""

    def grant_contract(tool: ToolProtocol) -> str:
        return tool.name

    yield patch(rule_approvals._grant_contract, grant_contract)


@mutant("no_call_begins_unasked")
def a_grant_covers_all_arguments() -> Patches:
    """The schema of a grant is not compared."""
    yield returns(rule_approvals._matches, value=True)


@mutant("grants_come_from_approvals", "no_call_begins_unasked")
def a_kept_grant_has_no_schema() -> Patches:
    """The schema of a grant is lost when the run keeps it."""

    def given_grants(original: Original) -> Any:
        return tuple(
            replace(each, grant=replace(each.grant, arguments_json=None))
            for each in original()
        )

    yield patch(rule_approvals.given_grants, given_grants)


@mutant("no_agent_is_entered_unasked")
def every_grant_covers_a_sub_agent() -> Patches:
    """Every grant covers every sub-agent."""

    def covering_grant(original: Original, state: RunState, tool: ToolProtocol) -> Any:
        if tool.sub_agent is not None and state.run.grants:
            return state.run.grants[-1]
        return original()

    yield patch(rule_approvals.covering_grant, covering_grant)


# Rules ------------------------------------------------------------------------------


@mutant("rules_decide_under_their_names")
def a_rule_is_recorded_as_a_person() -> Patches:
    """The decision of a rule is recorded as that of a person."""

    def rule_decision(original: Original) -> Any:
        decision = original()
        return replace(decision, rule=None, door="python", by="operator")

    yield patch(recorded_decisions.rule_decision, rule_decision)


@mutant("no_call_begins_unasked", "rules_decide_under_their_names")
def a_rule_decides_without_its_record() -> Patches:
    """A rule decides although the store refused its record."""

    async def record(original: Original) -> None:
        with suppress(StoreError):
            await original()

    yield patch(recorded_decisions.record, record)


@mutant("rules_decide_under_their_names")
def a_denial_of_a_rule_leaves_no_record() -> Patches:
    """The denial of a rule leaves no record."""

    async def record(original: Original, decision: Decision) -> None:
        if decision.kind != "deny":
            await original()

    yield patch(recorded_decisions.record, record)


@mutant("no_call_begins_unasked", "denied_by_its_rule_never_runs")
def a_rule_never_denies() -> Patches:
    """A rule never denies."""

    async def rule(original: Original, verdict: bool | Approve | Deny) -> Any:
        if isinstance(verdict, Deny):
            verdict = Approve()
        return await original(verdict=verdict)

    async def _verdict(original: Original) -> Any:
        verdict = await original()
        return False if isinstance(verdict, Deny) else verdict

    yield patch(RuleApprovals.rule, rule)
    yield patch(Admission._verdict, _verdict)


# Checks and edits -------------------------------------------------------------------


@mutant("refused_by_its_check_never_runs")
def an_approved_call_is_not_checked_again() -> Patches:
    """An approved call is not checked again before it begins."""
    yield skip(Admission._recheck)


@mutant("fixed_arguments_stay")
def every_argument_can_be_edited() -> Patches:
    """Every argument of a call can be edited."""
    yield skip(waits.find_fixed_argument)
