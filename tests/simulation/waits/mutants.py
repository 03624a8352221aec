"""Bugs of tools that wait: which code runs after the wait, with which value."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from continuations.core import jsontext
from continuations.core.changes import events, reducer
from continuations.core.changes.reducer import advance
from continuations.core.rows import waits
from continuations.core.rows.calls import CallRow, Started
from continuations.core.rows.decisions import Answer, Decision, Deny, Fail
from continuations.core.rows.state import RunState
from continuations.core.rows.waits import Wait
from continuations.engine import call_waits, deadlines, tool_contexts
from continuations.engine.arrivals.arrival_reducer import ArrivalReducer
from continuations.engine.calls import parked_calls
from continuations.ledger import markers
from continuations.ledger.arrivals import early_answers
from tests.simulation.families import STAGES
from tests.simulation.mutants.conditions import tools_wait
from tests.simulation.mutants.mutant import Original, Patches, mutant, patch, returns

# After so many rounds, a loop is endless.
ENDLESS = 100


# What runs after the wait -------------------------------------------------------------


@mutant("tool_before_a_wait_never_runs_again", condition=tools_wait)
def an_answer_runs_the_tool_again() -> Patches:
    """An answer makes the tool ready again, instead of its function."""

    def with_event_data(
        original: Original, row: CallRow, event: events.CallEvent
    ) -> Any:
        return row if isinstance(event, events.AnswerReceived) else original()

    yield patch(reducer.with_event_data, with_event_data)


@mutant("started_once", condition=tools_wait)
def an_answer_is_received_again_after_a_crash() -> Patches:
    """An `on_answer` function that was interrupted runs again, whatever it does."""

    def with_interrupted_calls(original: Original, state: RunState) -> Any:
        for call in list(state.calls.values()):
            if isinstance(call.state, Started) and call.stage:
                state = advance(state, events.RepeatAllowed(call_id=call.id))
        return original(state=state)

    yield patch(ArrivalReducer.with_interrupted_calls, with_interrupted_calls)


@mutant("idempotency_key_stable", condition=tools_wait)
def both_stages_have_one_key() -> Patches:
    """A tool and its `on_answer` function have one idempotency key."""

    def idempotency_key(original: Original, call: CallRow) -> Any:
        return original(call=replace(call, stage=0))

    yield patch(tool_contexts.idempotency_key, idempotency_key)


@mutant("same_end_as_uninterrupted", family=STAGES)
def memos_are_forgotten() -> Patches:
    """The value that a tool keeps with its wait is forgotten."""

    def with_event_data(original: Original, event: events.CallEvent) -> Any:
        if isinstance(event, events.CallParked):
            event = replace(event, memo=None)
        return original(event=event)

    yield patch(reducer.with_event_data, with_event_data)


@mutant(
    "answered_by_its_wait_only", "no_foreign_errors", "no_run_stranded", family=STAGES
)
def later_jobs_have_the_first_wait_id() -> Patches:
    """All jobs of a call have the wait id of the first one."""

    def known_wait_ulid(original: Original, call: CallRow) -> Any:
        return original(call=replace(call, stage=0))

    yield patch(waits.known_wait_ulid, known_wait_ulid)


@mutant("no_run_stranded", condition=tools_wait)
def a_reopened_wait_keeps_its_id() -> Patches:
    """A wait that is opened again, because the function rejects the answer, keeps its
    id."""
    rounds = Counter[str]()

    def renewed_wait(original: Original, wait: Wait) -> Any:
        rounds[wait.id] += 1
        if rounds[wait.id] > ENDLESS:
            msg = "the same answer ends the wait again and again"
            raise RecursionError(msg)
        return replace(original(), id=wait.id)

    yield patch(call_waits.renewed_wait, renewed_wait, only_in=(parked_calls,))


# What the value is ------------------------------------------------------------------


@mutant("answered_by_its_wait_only", condition=tools_wait)
def a_refusal_has_the_value_of_the_deadline() -> Patches:
    """A refusal gives the tool the value of the deadline."""

    def consequence(original: Original, wait: Wait, decision: Decision) -> Any:
        if decision.kind == "deny" and wait.on_deadline_json is not None:
            return waits.consequence_of_deadline(wait)
        return original()

    yield patch(waits.consequence, consequence)


@mutant("answered_by_its_wait_only", condition=tools_wait)
def an_error_is_an_answer() -> Patches:
    """The error of another system counts as its answer."""

    def consequence(original: Original, decision: Decision) -> Any:
        if decision.kind == "fail":
            return Answer(jsontext.parse(decision.value or "null"))
        return original()

    yield patch(waits.consequence, consequence)


@mutant("answered_by_its_wait_only", condition=tools_wait)
def a_deadline_forgets_its_consequence() -> Patches:
    """A deadline forgets the consequence that the tool named."""

    def consequence_of_deadline(wait: Wait) -> Answer | Deny | Fail | None:
        return wait.rules.on_deadline

    yield patch(waits.consequence_of_deadline, consequence_of_deadline)


# Time -------------------------------------------------------------------------------


@mutant("not_expired_early", "timers_end_in_time", condition=tools_wait)
def a_deadline_passes_before_its_time() -> Patches:
    """A wait that a tool opened expires at once."""

    def is_past_deadline(original: Original, wait: Wait) -> Any:
        is_timed = wait.on_deadline_json is not None and wait.deadline is not None
        return is_timed or original()

    yield patch(deadlines.is_past_deadline, is_past_deadline)


@mutant("timers_end_in_time", condition=tools_wait)
def a_timer_fires_before_its_time() -> Patches:
    """A timer fires at the first look."""

    def is_past_deadline(original: Original, wait: Wait) -> Any:
        return not wait.rules.has_object or original()

    yield patch(deadlines.is_past_deadline, is_past_deadline)


@mutant("no_run_stranded", condition=tools_wait)
def a_timer_has_no_marker() -> Patches:
    """A timer has no marker."""

    def deadline_marker(original: Original, wait: Wait) -> Any:
        return original() if wait.rules.has_object else None

    yield patch(markers.deadline_marker, deadline_marker)


# Jobs of other systems ----------------------------------------------------------------


@mutant("early_answer_counts_as_start", condition=tools_wait)
def an_early_answer_is_ignored_after_a_crash() -> Patches:
    """After a crash, the answer of a job whose tool had not returned is ignored."""
    yield returns(early_answers.answered_calls, {})


@mutant("no_foreign_errors", "no_run_stranded", condition=tools_wait)
def an_early_answer_does_not_fit_its_wait() -> Patches:
    """An early answer does not fit the wait that is stored after it."""

    def accepted_digests(original: Original) -> Any:
        accepted = original()
        return {wait_id: digests[:1] for wait_id, digests in accepted.items()}

    yield patch(early_answers.accepted_digests, accepted_digests)
