"""Bugs where people, rules, signals and threads meet forks and rewinds."""

# A mutant replaces private functions.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import past_rules
from continuations.engine import grant_coverage, rewinding
from continuations.engine.adoption import Relocation
from continuations.engine.arrival_reducer import ArrivalReducer
from continuations.engine.readiness import arrivals_unblock, is_runnable
from continuations.value_class import replace
from tests.simulation.events.laws import (
    an_event_is_taken_once,
)
from tests.simulation.families import SEAMS
from tests.simulation.mutants.mutant import (
    gives_back,
    mutant,
    mutants_in,
    patch,
    returns,
)
from tests.simulation.past.laws import nothing_is_repeated_unasked
from tests.simulation.protocol.laws_of_endings import no_run_stranded
from tests.simulation.seams.laws import (
    a_run_takes_each_arrival_once,
    cut_off_messages_are_stopped,
    nobody_approves_what_they_asked_for,
    nothing_due_is_left,
)
from tests.simulation.threads.laws import (
    each_message_has_one_reply,
    no_message_is_left_in_a_thread,
)

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.authoring.tool_protocol import ToolProtocol
    from continuations.core.calls import CallRow
    from continuations.core.grants import KeptGrant
    from continuations.core.run import RunRow
    from continuations.core.state import RunState
    from continuations.core.waits import Wait
    from tests.simulation.mutants.mutant import Patches


@mutant(
    "In a fork only the person who made it counts as its requester.",
    breaks=(nobody_approves_what_they_asked_for,),
    family=SEAMS,
)
def a_fork_forgets_who_asked_in_its_source() -> Patches:
    original = past_rules.forked_row

    def forked(source: RunRow, **new: Any) -> RunRow:
        return original(source, **(new | {"requesters": ()}))

    yield patch(original, forked)


@mutant(
    "A thread goes on within any turn after a rewind.",
    breaks=(cut_off_messages_are_stopped, each_message_has_one_reply),
    family=SEAMS,
)
def a_thread_is_rewound_into_any_turn() -> Patches:
    yield returns(rewinding._turn_refusal, "")


@mutant(
    "A wait that a rewind opens again knows only the events of its version.",
    breaks=(an_event_is_taken_once, a_run_takes_each_arrival_once),
    family=SEAMS,
)
def a_moved_wait_keeps_the_events_of_its_version() -> Patches:
    original = Relocation._moved_wait

    def moved(self: Relocation, state: RunState, call: CallRow, wait: Wait) -> Wait:
        found = original(self, state, call, wait)
        return replace(found, events_taken=wait.events_taken)

    yield patch(original, moved)


@mutant(
    "A grant approves calls of the person who gave it.",
    breaks=(nobody_approves_what_they_asked_for,),
    family=SEAMS,
)
def a_grant_approves_for_its_giver() -> Patches:
    original = grant_coverage.covering_grant

    def covering(
        state: RunState,
        call: CallRow,
        tool: ToolProtocol,
        arguments: str,
        now: datetime,
    ) -> KeptGrant | None:
        grants = tuple(replace(each, by="nobody") for each in state.run.grants)
        anonymous = replace(state, run=replace(state.run, grants=grants))
        return original(anonymous, call, tool, arguments, now)

    yield patch(original, covering)


@mutant(
    "A rewind makes no marker for messages and signals that have arrived.",
    breaks=(no_run_stranded, no_message_is_left_in_a_thread, nothing_due_is_left),
    family=SEAMS,
)
def a_rewound_run_that_can_go_on_has_no_marker() -> Patches:
    yield returns(is_runnable, value=False, only_in=(rewinding,))
    yield returns(arrivals_unblock, value=False, only_in=(rewinding,))


@mutant(
    "A function that got an answer runs again after a rewind, and nobody is asked.",
    breaks=(nothing_is_repeated_unasked,),
    family=SEAMS,
)
def an_answer_is_used_again_unasked() -> Patches:
    yield gives_back(ArrivalReducer._with_doubtful_answer, "state")


MUTANTS = mutants_in(globals())
