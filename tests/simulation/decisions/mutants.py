"""Bugs of waits and decisions: which decision counts, and which call then runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from continuations.core.changes.events import Approved, RepeatAllowed
from continuations.core.changes.reducer import advance
from continuations.core.rows.calls import CallRow, Started
from continuations.core.rows.decisions import Decision, DecisionKind
from continuations.core.rows.state import RunState
from continuations.core.rows.waits import Wait
from continuations.engine import call_waits, deadlines
from continuations.engine.arrivals import arrival_reducer
from continuations.engine.arrivals.arrival_reducer import ArrivalReducer
from continuations.engine.calls.admission import Admission
from continuations.engine.worker.performer import Performer
from continuations.ledger import decision_errors, layout
from continuations.ledger.arrivals import arrivals, recorded_decisions
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.decisions import decisions, verdict_checks
from continuations.ledger.objects import AlreadyExists, NotFound, Objects
from continuations.wire.records import DECISION
from tests.simulation.mutants.conditions import approvals_are_short
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    gives_back,
    mutant,
    patch,
    returns,
    skip,
)

# One decision -----------------------------------------------------------------------


@mutant("one_decision", "refused_never_runs")
def a_decision_is_overwritten() -> Patches:
    """A later decision overwrites the first."""

    async def record_decision(
        original: Original, objects: Objects, proposed: Decision
    ) -> Any:
        await objects.delete(layout.decision_key(proposed.wait_id))
        return await original()

    yield patch(decisions.record_decision, record_decision)


@mutant("one_decision")
def second_decider_gets_success() -> Patches:
    """The second decider gets a success."""
    yield gives_back(recorded_decisions._read_first_decision, "proposed")


@mutant("one_decision", "refused_never_runs")
def decision_is_read_then_overwritten() -> Patches:
    """A read tells whether a wait is decided; then the decision is written anyway."""

    async def record_decision(objects: Objects, proposed: Decision) -> Decision:
        first = await read_decision(objects, proposed.wait_id)
        if first is not None:
            return first
        key = layout.decision_key(proposed.wait_id)
        run_id = layout.parse_wait_id(proposed.wait_id).run_id
        body = DECISION.encode(proposed, run_id)
        try:
            await objects.create(key, body)
        except AlreadyExists:
            await objects.delete(key)
            with suppress(AlreadyExists):
                await objects.create(key, body)
        await objects.delete(layout.wait_key(proposed.wait_id))
        return proposed

    yield patch(decisions.record_decision, record_decision)


@mutant("ended_by_its_decision", "one_decision", "refused_never_runs")
def expiry_acts_without_a_recorded_decision() -> Patches:
    """A deadline has its effect without a recorded decision, so that an approval may be
    recorded as well."""
    yield gives_back(decisions.record_decision, "proposed", only_in=(deadlines,))


@mutant("decided_in_time")
def a_decision_is_taken_after_the_deadline() -> Patches:
    """A decision ignores the deadline of its wait."""
    yield skip(decision_errors.check_in_time)


# The decision of this wait and of no other ------------------------------------------

_ULID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def _ulid_from_call(call: CallRow, run_nonce: str) -> str:
    digest = hashlib.sha256(f"{run_nonce} {call.id}".encode()).digest()
    return run_nonce[:10] + "".join(_ULID_ALPHABET[byte % 32] for byte in digest[:16])


@mutant(
    "executed_equals_approved",
    "one_decision",
    "started_once",
    "finished_never_runs_again",
    "no_run_stranded",
)
def wait_id_is_derived_from_its_call() -> Patches:
    """The id of a wait is derived from its call, so that a second wait of the call has
    the id, and the decision, of the first."""

    def new_wait(original: Original, state: RunState, call: CallRow, ulid: str) -> Any:
        ulid = _ulid_from_call(call, state.run.run_nonce)
        return original(ulid=ulid)

    yield patch(call_waits.new_wait, new_wait)


@mutant("refused_never_runs", "executed_equals_approved")
def a_decision_goes_to_the_first_wait() -> Patches:
    """Decisions go to the open waits by their order, not by id."""

    def with_decisions(
        original: Original, state: RunState, decisions: Mapping[str, Decision]
    ) -> Any:
        waits = sorted(state.waits.values(), key=Wait.sort_key)
        pairs = zip(waits, decisions.values(), strict=False)
        return original(decisions={wait.id: decision for wait, decision in pairs})

    yield patch(ArrivalReducer.with_decisions, with_decisions)


@mutant("refused_never_runs", "executed_equals_approved", "one_decision")
def a_decision_is_read_from_another_waits_key() -> Patches:
    """The decision of a wait is read from the key of another wait of the run."""

    async def read_matching_decision(
        objects: Objects, run_id: str, wait_id: str, accepted: tuple[str, ...]
    ) -> Decision:
        wait_ids = await recorded_decisions.list_decided_wait_ids(objects, run_id)
        other = await read_decision(objects, wait_ids[0])
        if other is None:
            raise NotFound(layout.decision_key(wait_ids[0]))
        return replace(other, wait_id=wait_id, digest=accepted[0])

    yield patch(arrivals._read_matching_decision, read_matching_decision)


@mutant("started_once", "finished_never_runs_again")
def a_decision_is_applied_twice() -> Patches:
    """A decision is applied again after a crash."""

    def with_interrupted_calls(original: Original, state: RunState) -> Any:
        for call in list(state.calls.values()):
            if isinstance(call.state, Started) and call.approved_digest is not None:
                state = advance(state, RepeatAllowed(call_id=call.id))
        return original(state=state)

    yield patch(ArrivalReducer.with_interrupted_calls, with_interrupted_calls)


# The content of a decision ----------------------------------------------------------


def _counted_as_approval(kind: DecisionKind) -> Patches:
    def decision_events(original: Original, decision: Decision) -> Any:
        if decision.kind == kind:
            decision = replace(decision, kind="approve", arguments=None)
        return original(decision=decision)

    yield patch(ArrivalReducer._decision_events, decision_events)


@mutant("refused_never_runs")
def a_denied_call_is_ready() -> Patches:
    """A denied call becomes ready to run."""
    yield from _counted_as_approval("deny")


@mutant("refused_never_runs")
def an_expired_call_is_ready() -> Patches:
    """An expired call becomes ready to run."""
    yield from _counted_as_approval("expire")


@mutant("approval_not_too_old")
def valid_for_is_never_checked() -> Patches:
    """`valid_for` is never checked."""
    yield skip(arrival_reducer._approval_valid_until)


@mutant("approval_not_too_old", condition=approvals_are_short)
def valid_for_is_not_checked_before_the_call() -> Patches:
    """`valid_for` is checked when the decision is applied, but not before the call."""

    async def hold(original: Original, call: CallRow) -> Any:
        return await original(call=replace(call, approved_until=None))

    yield patch(Admission.hold, hold)


@mutant("approval_not_too_old", condition=approvals_are_short)
def valid_for_is_not_checked_before_a_repeat() -> Patches:
    """A call is repeated however old its approval is."""

    async def hold(original: Original, call: CallRow) -> Any:
        if call.attempts:
            call = replace(call, approved_until=None)
        return await original(call=call)

    yield patch(Admission.hold, hold)


@mutant("sub_agents_entered_in_time", condition=approvals_are_short)
def valid_for_is_not_checked_for_sub_agents() -> Patches:
    """A sub-agent is entered however old its approval is."""

    def approval_valid_until(original: Original, wait: Wait) -> Any:
        return None if wait.tool == "clerk" else original()

    yield patch(arrival_reducer._approval_valid_until, approval_valid_until)


@mutant("executed_equals_approved")
def original_arguments_run_after_an_edit() -> Patches:
    """After an edit the original arguments run, and no digest is compared."""

    async def run_tool(original: Original, call: CallRow) -> Any:
        arguments = call.original_arguments or call.arguments
        unedited = replace(call, arguments=arguments, approved_digest=None)
        return await original(call=unedited)

    yield patch(Performer._run_tool, run_tool)


@mutant("executed_equals_approved")
def an_edit_is_forgotten() -> Patches:
    """An edit is lost when its decision is applied."""

    def approval_events(original: Original, decision: Decision) -> Any:
        return original(decision=replace(decision, arguments=None))

    yield patch(ArrivalReducer._approval_events, approval_events)


@mutant("edits_match_schema")
def an_edit_is_not_validated() -> Patches:
    """Edited arguments are not validated."""

    def approval_events(
        original: Original,
        self: ArrivalReducer,
        state: RunState,
        call: CallRow,
        decision: Decision,
    ) -> Any:
        plain = replace(decision, arguments=None)
        events = tuple(original(decision=plain))
        event = events[-1]
        if decision.arguments is None or not isinstance(event, Approved):
            return events
        tool = self.stack_binding.unchanged_tool(state, call)
        contract = call_waits.approved_contract_digest(tool)
        digest = call_waits.approval_digest(state, call, decision.arguments, contract)
        return (replace(event, digest=digest, arguments=decision.arguments),)

    yield skip(verdict_checks._check_edited_arguments)
    yield patch(ArrivalReducer._approval_events, approval_events)


@mutant("started_once", "finished_never_runs_again", "refused_never_runs")
def answer_counts_as_approval() -> Patches:
    """An answer to an unknown outcome counts as permission to run the call again."""
    yield from _counted_as_approval("answer")


@mutant("no_run_stranded")
def deadlines_are_never_checked() -> Patches:
    """Deadlines are never checked."""
    yield returns(deadlines.is_past_deadline, value=False)
