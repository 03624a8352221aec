"""Bugs where people, rules, signals and threads meet forks and rewinds."""

# A mutant replaces private functions.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import past_rules
from continuations.engine import rewinding
from continuations.engine.adoption import Relocation
from continuations.value_class import replace
from tests.simulation.events.laws import (
    an_event_is_taken_once,
)
from tests.simulation.families import SEAMS
from tests.simulation.mutants.mutant import (
    mutant,
    mutants_in,
    patch,
    returns,
)
from tests.simulation.seams.laws import (
    a_run_takes_each_arrival_once,
    cut_off_messages_are_stopped,
    nobody_approves_what_they_asked_for,
)
from tests.simulation.threads.laws import (
    each_message_has_one_reply,
)

if TYPE_CHECKING:
    from continuations.core.calls import CallRow
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


MUTANTS = mutants_in(globals())
