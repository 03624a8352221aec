"""Bugs where people, rules, signals and threads meet forks and rewinds."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from continuations.core.changes import operator_changes
from continuations.core.operator_request import OperatorRequest
from continuations.core.reading import past_rules
from continuations.core.rows import event_matching
from continuations.core.rows.calls import CallRow
from continuations.core.rows.decisions import Approve, Deny
from continuations.core.rows.run import RunRow
from continuations.core.rows.state import RunState
from continuations.core.rows.waits import Wait
from continuations.engine.arrivals.arrival_reducer import ArrivalReducer
from continuations.engine.arrivals.readiness import arrivals_unblock, is_runnable
from continuations.engine.calls import rule_approvals
from continuations.engine.calls.admission import Admission
from continuations.engine.calls.call_examination import CallExaminer
from continuations.engine.past import adoption, rewinding
from continuations.engine.past.adoption import Relocation
from continuations.engine.stack.stack_binding import StackBinding
from continuations.ledger.arrivals import run_signals
from continuations.value_class import replace
from tests.simulation.families import SEAMS
from tests.simulation.mutants.conditions import (
    interrupted_turns_are_rewound,
    rules_decide_about_the_first_run,
    runs_are_rewound_before_they_are_adopted,
)
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    gives_back,
    mutants_of,
    patch,
    returns,
)
from tests.simulation.seams.tools import first_name

mutant = mutants_of(SEAMS)


@mutant("nobody_approves_what_they_asked_for")
def a_fork_forgets_who_asked_in_its_source() -> Patches:
    """In a fork only the person who made it counts as its requester."""

    def forked(original: Original, new: dict[str, Any]) -> Any:
        return original(new=new | {"requesters": ()})

    yield patch(past_rules.forked_row, forked)


@mutant("cut_off_messages_are_stopped", "each_message_has_one_reply")
def a_thread_is_rewound_into_any_turn() -> Patches:
    """A thread goes on within any turn after a rewind."""
    yield returns(rewinding._turn_refusal, "")


@mutant("an_event_is_taken_once", "a_run_takes_each_arrival_once")
def a_moved_wait_keeps_the_events_of_its_version() -> Patches:
    """A wait that a rewind opens again knows only the events of its version."""

    def moved(original: Original, wait: Wait) -> Any:
        found = original()
        return replace(found, events_taken=wait.events_taken)

    yield patch(Relocation._moved_wait, moved)


@mutant("nobody_approves_what_they_asked_for")
def a_grant_approves_for_its_giver() -> Patches:
    """A grant approves calls of the person who gave it."""

    def covering(original: Original, state: RunState) -> Any:
        grants = tuple(replace(each, by="nobody") for each in state.run.grants)
        anonymous = replace(state, run=replace(state.run, grants=grants))
        return original(state=anonymous)

    yield patch(rule_approvals.covering_grant, covering)


@mutant("no_run_stranded", "no_message_is_left_in_a_thread", "nothing_due_is_left")
def a_rewound_run_that_can_go_on_has_no_marker() -> Patches:
    """A rewind makes no marker for messages and signals that have arrived."""
    yield returns(is_runnable, value=False, only_in=(rewinding,))
    yield returns(arrivals_unblock, value=False, only_in=(rewinding,))


@mutant("nothing_is_repeated_unasked")
def an_answer_is_used_again_unasked() -> Patches:
    """A rewind lets a function that got an answer run again, and asks no person."""
    yield gives_back(ArrivalReducer._with_doubtful_answer, "state")


@mutant("nothing_is_repeated_unasked")
def names_are_compared_without_renames() -> Patches:
    """After a rewind, the names of tools are compared without their renames."""

    def is_tool_named(call: CallRow, names: Collection[str]) -> bool:
        return call.tool in names

    yield patch(StackBinding.is_tool_named, is_tool_named)


@mutant("interruptions_survive_a_rewind", condition=interrupted_turns_are_rewound)
def an_interruption_is_forgotten() -> Patches:
    """A rewind forgets the message that interrupts the turn."""
    yield gives_back(rewinding._interrupted_again, "state")


@mutant("cut_off_messages_are_stopped", "no_message_is_left_in_a_thread")
def a_cut_off_turn_has_no_reply() -> Patches:
    """A rewind leaves the messages of the turn that it cuts off without a reply."""

    def rewound(original: Original, newest: RunRow) -> Any:
        made = original()
        return replace(made, output=newest.output, failure=newest.failure)

    yield patch(rewinding._rewound_run, rewound)


@mutant("denied_by_its_rule_never_runs", condition=rules_decide_about_the_first_run)
def a_denying_rule_is_not_asked_about_a_doubtful_call() -> Patches:
    """A call that may have run before a rewind is not asked about by its denying
    rule."""

    async def admitted(
        original: Original,
        state: RunState,
        call: CallRow,
        verdict: bool | Approve | Deny,
    ) -> Any:
        verdict = True if _is_doubtful(state, call) else verdict
        return await original(verdict=verdict)

    async def verdict_before(original: Original, state: RunState, call: CallRow) -> Any:
        if _is_doubtful(state, call):
            return False
        return await original()

    yield patch(CallExaminer._admitted, admitted)
    yield patch(Admission._verdict, verdict_before)


def _is_doubtful(state: RunState, call: CallRow) -> bool:
    return first_name(call.tool) in map(first_name, state.run.doubtful_tools)


@mutant("nothing_is_repeated_unasked")
def older_bytes_are_adopted() -> Patches:
    """Bytes that are older than their run are adopted as if they were the newest."""
    yield returns(adoption._is_same_work, value=True)


@mutant(
    "nothing_is_repeated_unasked", condition=runs_are_rewound_before_they_are_adopted
)
def bytes_from_before_a_rewind_are_adopted() -> Patches:
    """Bytes from before a rewind to their version are adopted."""

    def is_same_work(original: Original, one: RunState, other: RunState) -> Any:
        run = replace(one.run, doubtful_tools=other.run.doubtful_tools)
        return original(one=replace(one, run=run))

    yield patch(adoption._is_same_work, is_same_work)


@mutant("dropped_signals_end_no_wait")
def dropped_signals_are_kept() -> Patches:
    """A run does not drop the signals that an operator drops."""

    def with_request(
        original: Original, state: RunState, request: OperatorRequest
    ) -> Any:
        if request.action == "drop":
            return state
        return original()

    yield patch(operator_changes._with_request, with_request)


@mutant("untaken_signals_are_listed")
def kept_signals_are_not_listed() -> Patches:
    """The signals that a run keeps are missing in the list of an operator."""

    async def list_untaken(original: Original, state: RunState) -> Any:
        listed = await original()
        last = state.run.last_signal_number
        return [each for each in listed if each.number > last]

    yield patch(run_signals.list_untaken, list_untaken)


@mutant("each_signal_ends_one_wait")
def signals_of_other_names_are_dropped() -> Patches:
    """An operator who drops the signals of a name drops those of other names too."""

    def drops(original: Original, request: OperatorRequest) -> Any:
        return original(request=replace(request, signal_name=None))

    yield patch(event_matching.drops, drops)
