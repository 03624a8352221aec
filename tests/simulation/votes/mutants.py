"""Bugs of waits that several persons decide: which votes count, and since when."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from continuations.core.rows import slots
from continuations.core.rows.decisions import Decision
from continuations.core.rows.quorum import Quorum, Vote
from continuations.core.rows.slots import Slot
from continuations.core.rows.waits import Wait
from continuations.engine import deadlines
from continuations.engine.ports import Ports
from continuations.ledger import markers
from continuations.ledger.arrivals import arrivals, wait_slots
from continuations.ledger.decisions.decisions import record_decision
from continuations.ledger.objects import Objects
from tests.simulation.families import VOTES
from tests.simulation.mutants.conditions import voters_die_after_the_last_slot
from tests.simulation.mutants.mutant import Original, Patches, mutants_of, patch, skip

mutant = mutants_of(VOTES)


@mutant("decided_by_its_slots")
def votes_for_different_edits_add_up() -> Patches:
    """Votes for different edits add up."""

    def is_same(vote: Vote, cast_vote: Decision) -> bool:
        return vote.kind == cast_vote.kind

    yield patch(slots._is_same, is_same)


@mutant("decided_by_its_slots")
def votes_survive_an_escalation() -> Patches:
    """Votes of before the escalation count after it."""

    def after_escalation(original: Original, wait: Wait) -> Any:
        return replace(original(), votes=wait.votes)

    yield patch(slots._after_escalation, after_escalation)


@mutant("each_vote_is_counted_once")
def everybody_is_an_approver() -> Patches:
    """Everybody is an approver."""
    yield skip(Quorum.objection)


@mutant("each_vote_is_counted_once", "decided_by_its_slots")
def a_person_votes_twice() -> Patches:
    """A person may vote more than once."""

    def objection_to(original: Original, wait: Wait) -> Any:
        return original(wait=replace(wait, votes=()))

    yield patch(slots.objection_to, objection_to)


@mutant("votes_that_were_acknowledged_are_kept")
def a_taken_number_is_a_success() -> Patches:
    """A vote whose number is taken counts as recorded."""

    async def append(original: Original, wait: Wait, slot: Slot) -> Any:
        await original()
        numbered = replace(slot, number=wait.last_slot + 1)
        return slots.after_slot(wait, numbered)

    yield patch(wait_slots.append, append)


@mutant("decided_by_its_slots", "decided_in_time")
def a_deadline_takes_effect_without_a_slot() -> Patches:
    """A deadline ends a wait without its slot."""

    async def pass_slot_deadlines(
        objects: Objects, waits: Iterable[Wait], ports: Ports, now: datetime
    ) -> tuple[dict[str, Decision], list[Wait]]:
        late = [wait for wait in deadlines.late_waits(waits, now) if wait.has_slots]
        expiries = deadlines.expiries_of(late, ports, now)
        decided = [await record_decision(objects, each) for each in expiries.values()]
        return {each.wait_id: each for each in decided}, []

    yield patch(deadlines.pass_slot_deadlines, pass_slot_deadlines)


@mutant(
    "decided_by_its_slots", "no_run_stranded", condition=voters_die_after_the_last_slot
)
def only_the_last_voter_records_the_decision() -> Patches:
    """A decision that the slots made is recorded only by its last voter."""

    async def follow(
        objects: Objects, wait: Wait, slot_keys: list[str], records: bool
    ) -> Wait | Decision:
        assert records
        after = await wait_slots.follow_keys(objects, wait, slot_keys)
        return wait if isinstance(after, Decision) else after

    yield patch(arrivals._follow, follow)


@mutant("each_vote_is_counted_once", "no_run_stranded")
def the_marker_follows_the_slot() -> Patches:
    """The marker of a new deadline is made after its slot."""

    async def move_deadline(
        objects: Objects, wait: Wait, slot: Slot
    ) -> Wait | Decision:
        after = await wait_slots.append(objects, wait, slot)
        marker = markers.deadline_marker(replace(wait, deadline=slot.deadline))
        assert marker is not None
        await markers.create(objects, marker)
        return after

    yield patch(wait_slots.move_deadline, move_deadline)
