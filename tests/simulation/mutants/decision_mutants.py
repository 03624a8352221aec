"""Faults of waits and decisions: who says what of which call, and what then runs."""

# A fault reaches into the room that it spoils.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import hashlib
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from continuations.core.calls import Started
from continuations.core.decisions import Decision
from continuations.core.events import Approved, RepeatAllowed
from continuations.core.reducer import advance
from continuations.core.waits import Wait
from continuations.engine import arrival_reducer, new_run
from continuations.engine.arrival_reducer import ArrivalReducer
from continuations.engine.performer import Performer
from continuations.ledger import arrivals as arriving
from continuations.ledger import decisions as deciding
from continuations.ledger import layout
from continuations.ledger.arrivals import read_decision
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.wire.records import encode_decision
from tests.simulation.mutants.mutant import (
    Patch,
    mutant,
    mutants_in,
    patches_everywhere,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from continuations.core.calls import CallRow
    from continuations.core.decisions import DecisionKind, Verdict
    from continuations.core.events import CallEvent, Event
    from continuations.core.state import RunState
    from continuations.ledger.objects import Objects
    from tests.simulation.mutants.mutant import Patches


# One decision ---------------------------------------------------------------


@mutant("A later decision overwrites the first.", "one_decision", "refused_never_runs")
def a_decision_is_overwritten() -> Patches:
    real = deciding.record_decision

    async def settle(objects: Objects, wanted: Decision) -> Decision:
        await objects.delete(layout.decision_key(wanted.wait_id))
        return await real(objects, wanted)

    yield Patch(deciding, "settle", settle)


@mutant("Who comes second is told that his decision was recorded.", "one_decision")
def second_decider_gets_success() -> Patches:
    async def first(_objects: Objects, wanted: Decision) -> Decision:
        return wanted

    yield Patch(deciding, "_first", first)


@mutant(
    "Whether a wait is decided is looked up; then the decision is simply written.",
    "one_decision",
    "refused_never_runs",
)
def decision_is_read_then_overwritten() -> Patches:
    async def settle(objects: Objects, wanted: Decision) -> Decision:
        first = await read_decision(objects, wanted.wait_id)
        if first is not None:
            return first
        key = layout.decision_key(wanted.wait_id)
        run_id = layout.parse_wait_id(wanted.wait_id).run_id
        body = encode_decision(wanted, run_id)
        try:
            await objects.create(key, body)
        except AlreadyExists:
            await objects.delete(key)
            with suppress(AlreadyExists):
                await objects.create(key, body)
        await objects.delete(layout.wait_key(wanted.wait_id))
        return wanted

    yield Patch(deciding, "settle", settle)


@mutant(
    "A deadline is acted on without being recorded: a person's yes may come first.",
    "ended_by_its_decision",
    "one_decision",
    "refused_never_runs",
)
def expiry_acts_without_a_recorded_decision() -> Patches:
    async def close(
        _objects: Objects,
        wait: Wait,
        kind: DecisionKind,
        *,
        now: datetime,
        decision_id: str,
    ) -> Decision:
        return Decision(
            id=decision_id, wait_id=wait.id, kind=kind, at=now, digest=wait.digest
        )

    yield Patch(arrival_reducer, "close_wait", close)


@mutant(
    "A decider does not look at the deadline.",
    "decided_in_time",
)
def a_decision_is_taken_after_the_deadline() -> Patches:
    real = deciding.build_decision

    def record(
        wait: Wait, verdict: Verdict, *, now: datetime, decision_id: str
    ) -> Decision:
        unlimited = replace(wait, deadline=None)
        return real(unlimited, verdict, now=now, decision_id=decision_id)

    yield Patch(deciding, "record", record)


# The decision of this wait and of no other ----------------------------------

_ULID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def _ulid_from_call(call: CallRow, run_nonce: str) -> str:
    drawn = hashlib.sha256(f"{run_nonce} {call.id}".encode()).digest()
    return run_nonce[:10] + "".join(_ULID_ALPHABET[byte % 32] for byte in drawn[:16])


@mutant(
    "The id of a wait is made from its call, so that a second wait of the call has "
    "the id, and the decision, of the first.",
    "executed_equals_approved",
    "one_decision",
    "started_once",
    "finished_never_runs_again",
    "no_run_stranded",
)
def wait_id_is_derived_from_its_call() -> Patches:
    real = new_run.new_wait

    def new_wait(state: RunState, call: CallRow, *rest: Any, **more: Any) -> Wait:
        named = {**more, "ulid": _ulid_from_call(call, state.run.run_nonce)}
        return real(state, call, *rest, **named)

    yield from patches_everywhere(real, new_wait)


@mutant(
    "Decisions are given to the open waits in their order, not by id.",
    "refused_never_runs",
    "executed_equals_approved",
)
def a_decision_goes_to_the_first_wait() -> Patches:
    real = ArrivalReducer.with_decisions

    def decided(
        self: ArrivalReducer, state: RunState, decisions: Mapping[str, Decision]
    ) -> RunState:
        waits = sorted(state.waits.values(), key=Wait.sort_key)
        given = zip(waits, decisions.values(), strict=False)
        return real(self, state, {wait.id: decision for wait, decision in given})

    yield Patch(ArrivalReducer, "with_decisions", decided)


@mutant(
    "The decision of a wait is read from the key of another wait of the run.",
    "refused_never_runs",
    "executed_equals_approved",
    "one_decision",
)
def a_decision_is_read_from_another_waits_key() -> Patches:
    async def decision(objects: Objects, wait: Wait) -> Decision:
        names = await arriving.list_decided_wait_ids(objects, wait.run_id)
        other = await read_decision(objects, names[0])
        if other is None:
            raise NotFound(layout.decision_key(names[0]))
        return replace(other, wait_id=wait.id, digest=wait.digest)

    yield Patch(arriving, "_decision", decision)


@mutant(
    "A decision that was acted on is acted on again after a crash.",
    "started_once",
    "finished_never_runs_again",
)
def a_decision_is_applied_twice() -> Patches:
    real = ArrivalReducer.with_interrupted_calls

    def with_interrupted_calls(self: ArrivalReducer, state: RunState) -> RunState:
        for call in list(state.calls.values()):
            if isinstance(call.state, Started) and call.approved_digest is not None:
                state = advance(state, RepeatAllowed(call_id=call.id))
        return real(self, state)

    yield Patch(ArrivalReducer, "with_interrupted_calls", with_interrupted_calls)


# What a decision says -------------------------------------------------------


def _patch_as_approval(kind: str) -> Patches:
    real = ArrivalReducer._decision_event

    def event(
        self: ArrivalReducer, state: RunState, wait: Wait, decision: Decision
    ) -> CallEvent:
        if decision.kind == kind:
            decision = replace(decision, kind="approve", arguments=None)
        return real(self, state, wait, decision)

    yield Patch(ArrivalReducer, "_decision_event", event)


@mutant("A denied call is made ready to run.", "refused_never_runs")
def a_denied_call_is_ready() -> Patches:
    yield from _patch_as_approval("deny")


@mutant("A call that nobody approved in time is made ready.", "refused_never_runs")
def an_expired_call_is_ready() -> Patches:
    yield from _patch_as_approval("expire")


@mutant("How long an approval is valid is looked at by nobody.", "approval_not_too_old")
def valid_for_is_never_checked() -> Patches:
    def until(_wait: Wait, _decision: Decision) -> None:
        return None

    yield Patch(arrival_reducer, "_approval_valid_until", until)


@mutant(
    "How long an approval is valid is looked at when it is taken in, and not when the "
    "call begins.",
    "approval_not_too_old",
)
def valid_for_is_not_checked_before_the_call() -> Patches:
    def is_too_late(_self: Performer, _call: CallRow) -> bool:
        return False

    yield Patch(Performer, "_approval_is_too_old", is_too_late)


@mutant(
    "After an edit the original arguments run, and no digest is compared.",
    "executed_equals_approved",
)
def original_arguments_run_after_an_edit() -> Patches:
    real = Performer._run_tool

    async def run(self: Performer, state: RunState, call: CallRow, fence: int) -> Event:
        arguments = call.original_arguments or call.arguments
        as_written = replace(call, arguments=arguments, approved_digest=None)
        return await real(self, state, as_written, fence)

    yield Patch(Performer, "_run_tool", run)


@mutant("An edit is forgotten when it is folded in.", "executed_equals_approved")
def an_edit_is_forgotten() -> Patches:
    real = ArrivalReducer._approval_event

    def approval(
        self: ArrivalReducer,
        state: RunState,
        call: CallRow,
        wait: Wait,
        decision: Decision,
    ) -> CallEvent:
        return real(self, state, call, wait, replace(decision, arguments=None))

    yield Patch(ArrivalReducer, "_approval_event", approval)


@mutant(
    "Edited arguments are checked by nobody.",
    "edits_match_schema",
)
def an_edit_is_not_validated() -> Patches:
    def check_arguments(_wait: Wait, _given: object) -> None:
        return

    real = ArrivalReducer._approval_event

    def approval(
        self: ArrivalReducer,
        state: RunState,
        call: CallRow,
        wait: Wait,
        decision: Decision,
    ) -> CallEvent:
        found = real(self, state, call, wait, replace(decision, arguments=None))
        if decision.arguments is None or not isinstance(found, Approved):
            return found
        tool = self.stack_binding.unchanged_tool(state, call)
        meaning = new_run.approved_contract_digest(tool)
        digest = new_run.approval_digest(state, call, decision.arguments, meaning)
        return replace(found, digest=digest, arguments=decision.arguments)

    yield Patch(deciding, "_check_arguments", check_arguments)
    yield Patch(ArrivalReducer, "_approval_event", approval)


@mutant(
    "A person's answer to an unknown outcome is taken for leave to run it again.",
    "started_once",
    "finished_never_runs_again",
    "refused_never_runs",
)
def answer_counts_as_approval() -> Patches:
    yield from _patch_as_approval("answer")


@mutant(
    "Nobody looks whether the deadline of a wait has passed.",
    "no_run_stranded",
)
def deadlines_are_never_checked() -> Patches:
    def is_past_deadline(_wait: Wait, _now: datetime) -> bool:
        return False

    yield Patch(arrival_reducer, "is_past_deadline", is_past_deadline)


MUTANTS = mutants_in(globals())
