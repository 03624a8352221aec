"""What is taken out of the protocol is noticed by a law of the simulation.

Each fault is tried with the seed that is known to catch it; with PLANTED_SEEDS=5000
in the environment it is searched for in so many schedules instead.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.simulation.laws import LAWS
from tests.simulation.mutants.find_seeds import (
    MUTANTS,
    find_seed,
    laws_broken_with,
    laws_broken_without,
)
from tests.simulation.mutants.seeds import SEEDS

if TYPE_CHECKING:
    from tests.simulation.mutants.mutant import Mutant

SEARCH_LIMIT = int(os.environ.get("PLANTED_SEEDS", "0"))
REFRESH = (
    "Did the schedules change? python -m tests.simulation.mutants.find_seeds --find"
)
_each_mutant = pytest.mark.parametrize(
    "mutant", MUTANTS, ids=lambda mutant: mutant.name
)

# The rules of the protocol that a user is promised by name.
PROMISED_RULES = {
    "the fence is not skipped": "a_version_is_overwritten",
    "wait ids are not derived from calls": "wait_id_is_derived_from_its_call",
    "each create has its own maker's id": "all_creates_of_a_process_share_one_maker_id",
    "the version before its wait objects": "waits_are_listed_before_their_version",
    "the marker before the decision": "a_marker_is_made_after_its_decision",
    "an answer is folded in once": "a_decision_is_applied_twice",
    "a result before the next turn": "result_is_committed_with_the_next_turn",
    "a lost reply is not trusted": "lost_reply_counts_as_success",
    "a renewal is checked": "a_claim_is_renewed_without_a_check",
    "a rewritten log has a new id": "a_log_id_is_used_again_after_a_rewrite",
    "a timeout must win its create": "expiry_acts_without_a_recorded_decision",
    "the commit before people are told": "notification_precedes_the_version",
}


@_each_mutant
def test_every_mutant_breaks_a_law(mutant: Mutant) -> None:
    """R-A1 to R-A12, R-B5, R-E1, R-F1, R-F4, R-F6, R-F9: each rule is held by a law.

    The same schedule without the fault breaks none.
    """
    if SEARCH_LIMIT:
        assert find_seed(mutant, SEARCH_LIMIT) is not None
        return
    seed, law = SEEDS[mutant.name]

    assert law in mutant.laws
    assert law in laws_broken_with(mutant, seed), f"{REFRESH} {mutant.name}"
    assert frozenset() == laws_broken_without(mutant, seed)


@_each_mutant
def test_mutant_is_applied_and_reverted(mutant: Mutant) -> None:
    """No fault outlives its test."""
    places = [(swap.owner, swap.attribute) for swap in mutant.patches()]
    before = [_attribute_of(*place) for place in places]

    with mutant.applied():
        planted = [_attribute_of(*place) for place in places]
    after = [_attribute_of(*place) for place in places]

    assert places
    assert all(
        is_there is not was for is_there, was in zip(planted, before, strict=True)
    )
    assert all(is_there is was for is_there, was in zip(after, before, strict=True))


def _attribute_of(where: object, name: str) -> object:
    # As it stands there: asking for a method would make a new one each time.
    return vars(where).get(name)


def test_mutant_registry_is_complete_and_unique() -> None:
    """A fault that is lost would no longer be looked for."""
    names = [fault.name for fault in MUTANTS]

    assert 60 <= len(names)
    assert sorted(set(names)) == sorted(names)
    assert set(names) == set(SEEDS)
    assert set(PROMISED_RULES.values()) <= set(names)


def test_every_law_is_broken_by_a_mutant() -> None:
    """A law that no fault breaks would say nothing."""
    broken = [laws_broken_with(fault, SEEDS[fault.name][0]) for fault in MUTANTS]

    assert {law for fault in MUTANTS for law in fault.laws} <= set(LAWS)
    assert set(LAWS) == set().union(*broken)
