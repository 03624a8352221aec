"""What is taken out of the protocol is noticed by a law of the simulation.

Each fault is tried with the seed that is known to catch it; with PLANTED_SEEDS=5000
in the environment it is searched for in so many schedules instead.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.simulation.laws import LAWS
from tests.simulation.planted import FAULTS, broken_by, broken_without, find
from tests.simulation.planted_seeds import SEEDS

if TYPE_CHECKING:
    from tests.simulation.planted_fault import Fault

SCHEDULES = int(os.environ.get("PLANTED_SEEDS", "0"))
REFRESH = "Did the schedules change? python -m tests.simulation.planted --find"
_each = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)

# The rules of the protocol that a user is promised by name.
RULES = {
    "the fence is not skipped": "a_version_is_overwritten",
    "wait ids are not derived from calls": "a_wait_is_named_after_its_call",
    "each create has its own maker's id": "a_process_has_one_makers_id",
    "the version before its wait objects": "waits_are_listed_before_their_version",
    "the marker before the decision": "a_marker_is_made_after_its_decision",
    "an answer is folded in once": "a_decision_is_applied_twice",
    "a result before the next turn": "a_result_is_kept_with_the_next_turn",
    "a lost reply is not trusted": "a_lost_reply_is_taken_for_a_yes",
    "a renewal is checked": "a_claim_is_renewed_without_a_check",
    "a rewritten log has a new id": "a_log_id_is_used_again_after_a_rewrite",
    "a timeout must win its create": "a_timeout_acts_without_winning_its_create",
    "the commit before people are told": "people_are_told_before_the_version",
}


@_each
def test_a_planted_fault_is_noticed(fault: Fault) -> None:
    """R-A1 to R-A12, R-B5, R-E1, R-F1, R-F4, R-F6, R-F9: each rule is held by a law.

    The same schedule without the fault breaks none.
    """
    if SCHEDULES:
        assert find(fault, SCHEDULES) is not None
        return
    seed, law = SEEDS[fault.name]

    assert law in fault.laws
    assert law in broken_by(fault, seed), f"{REFRESH} {fault.name}"
    assert frozenset() == broken_without(fault, seed)


@_each
def test_a_fault_is_planted_and_taken_out_again(fault: Fault) -> None:
    """No fault outlives its test."""
    places = [(swap.where, swap.name) for swap in fault.swaps()]
    before = [_found(*place) for place in places]

    with fault.planted():
        planted = [_found(*place) for place in places]
    after = [_found(*place) for place in places]

    assert places
    assert all(
        is_there is not was for is_there, was in zip(planted, before, strict=True)
    )
    assert all(is_there is was for is_there, was in zip(after, before, strict=True))


def _found(where: object, name: str) -> object:
    # As it stands there: asking for a method would make a new one each time.
    return vars(where).get(name)


def test_there_are_enough_faults_and_each_has_a_name_of_its_own() -> None:
    """A fault that is lost would no longer be looked for."""
    names = [fault.name for fault in FAULTS]

    assert 60 <= len(names)
    assert sorted(set(names)) == sorted(names)
    assert set(names) == set(SEEDS)
    assert set(RULES.values()) <= set(names)


def test_every_law_can_be_broken() -> None:
    """A law that no fault breaks would say nothing."""
    broken = [broken_by(fault, SEEDS[fault.name][0]) for fault in FAULTS]

    assert {law for fault in FAULTS for law in fault.laws} <= set(LAWS)
    assert set(LAWS) == set().union(*broken)
