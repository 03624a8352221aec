"""Each mutant, a deliberate bug in the protocol, breaks a law of the simulation.

Each mutant runs with the one seed that is known to notice it. With MUTANT_SEEDS=5000
in the environment that many schedules are searched instead.
"""

from __future__ import annotations

import asyncio
import operator
import os
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from continuations.core.rows import event_matching
from continuations.core.rows.run import RunRow
from continuations.engine.journal import publishing
from continuations.engine.journal.journal import StoreJournal
from continuations.engine.past import rewinding
from continuations.engine.sweep import sweeping
from continuations.ledger import claims, layout
from continuations.ledger.arrivals.arrivals import read_cancel_request
from continuations.ledger.claims import Lease
from continuations.ledger.repair import doctor, erasing
from tests.sampling import sample
from tests.simulation.laws import LAWS
from tests.simulation.mutants.find_seeds import (
    find_seed,
    laws_broken_with,
    laws_broken_without,
)
from tests.simulation.mutants.mutant import (
    InvalidMutantError,
    Mutant,
    Original,
    Patches,
    Place,
    gives_back,
    mutant,
    patch,
    returns,
    skip,
    unique_mutants,
)
from tests.simulation.mutants.registry import MUTANTS, PROMISED_RULES
from tests.simulation.mutants.seeds import SEEDS

SEARCH_LIMIT = int(os.environ.get("MUTANT_SEEDS", "0"))
REFRESH = (
    "Did the random draws change? python -m tests.simulation.mutants.find_seeds --find"
)

# The laws that stand beside no seed, and a mutant that breaks each with its seed.
OTHER_LAWS = {
    "a_run_takes_each_arrival_once": "a_moved_wait_keeps_the_events_of_its_version",
    "denied_by_its_rule_never_runs": "a_rule_never_denies",
    "nothing_due_is_left": "deadlines_are_never_checked",
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_every_mutant_breaks_a_law(mutant: Mutant) -> None:
    """Promises 1 to 4: a law notices each missing rule of the protocol.

    The same schedule without the mutant breaks no law: by default, a third is tried.
    """
    if SEARCH_LIMIT:
        assert find_seed(mutant, SEARCH_LIMIT) is not None
        return
    seed, law = SEEDS[mutant.name]

    assert law in laws_broken_with(mutant, seed), f"{REFRESH} {mutant.name}"
    if mutant in sample(MUTANTS, 3):
        assert frozenset() == laws_broken_without(mutant, seed)


def test_mutants_are_applied_and_reverted() -> None:
    for each in MUTANTS:
        places = [place for made in each.patches() for place in made.places]
        before = [_value_at(place) for place in places]
        with each.applied():
            applied = [_value_at(place) for place in places]
        after = [_value_at(place) for place in places]

        assert places, each.name
        assert not any(map(operator.is_, applied, before)), each.name
        assert all(map(operator.is_, after, before)), each.name


def test_mutant_of_a_renamed_function_cannot_be_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Renaming any function that a mutant replaces fails the import of the mutants."""
    for each in MUTANTS:
        for made in each.patches():
            with monkeypatch.context() as renamed:
                for place in made.places:
                    renamed.delattr(place.owner, place.attribute)
                with pytest.raises(InvalidMutantError, match=each.name):
                    each.check()
        each.check()


def _value_at(place: Place) -> object:
    # Not getattr: it would make a new bound object of a method or property.
    return vars(place.owner).get(place.attribute)


# The list of mutants ----------------------------------------------------------------


def test_mutants_and_seeds_match() -> None:
    """A mutant without a seed, or a seed without its mutant, would test nothing."""
    names = [each.name for each in MUTANTS]

    assert 188 <= len(names)
    assert set(names) == set(SEEDS)
    for each in MUTANTS:
        assert SEEDS[each.name][1] in each.breaks
    assert set(PROMISED_RULES.values()) <= set(names)


def test_every_law_is_broken_by_a_mutant() -> None:
    """A law that no mutant breaks might hold for wrong code too."""
    # The test of each mutant has shown that it breaks the law beside its seed.
    assert set(LAWS) == {law for _, law in SEEDS.values()} | set(OTHER_LAWS)

    by_name = {each.name: each for each in MUTANTS}
    for law, name in OTHER_LAWS.items():
        assert law in laws_broken_with(by_name[name], SEEDS[name][0]), law


# Registration -----------------------------------------------------------------------


def _check_free(run: RunRow, now: datetime) -> None:
    del run, now


def test_function_is_replaced_in_every_module_that_imported_it() -> None:
    """An imported copy of a function would keep the mutant from having an effect."""
    owners = [place.owner for place in patch(claims.check_free, _check_free).places]

    assert len(owners) == 4
    assert all(module in owners for module in (claims, doctor, erasing, rewinding))


def test_only_in_replaces_the_imported_copies_alone() -> None:
    """A mutant can spoil one caller and leave the others alone."""
    some = patch(
        publishing.publish_again, publishing.publish_again, only_in=(sweeping,)
    )

    assert [sweeping] == [place.owner for place in some.places]
    with pytest.raises(InvalidMutantError, match="not imported by all"):
        patch(publishing.publish_waits, publishing.publish_waits, only_in=(claims,))


def test_property_is_replaced_by_a_property() -> None:
    """A plain function in its place would be true for every caller."""

    def can_start_action(self: Lease) -> bool:
        del self
        return False

    [place] = patch(Lease.can_start_action, can_start_action).places

    assert (Lease, "can_start_action") == (place.owner, place.attribute)
    assert isinstance(
        patch(Lease.can_start_action, can_start_action).replacement, property
    )


def test_plain_mutants_skip_a_step_or_return_a_value() -> None:
    """Each has the parameters of the function that it replaces, also as a coroutine."""
    taken: Any = gives_back(event_matching.with_event, "taken").replacement
    nothing: Any = skip(read_cancel_request).replacement
    no_signals: Any = returns(event_matching.awaited_signals, []).replacement
    is_free = returns(Lease.can_start_action, value=False).replacement

    assert ("e1",) == taken(event_id="e2", taken=("e1",))
    assert asyncio.run(nothing(None, "r1")) is None
    assert no_signals(None) == []
    assert no_signals(None) is not no_signals(None)
    assert isinstance(is_free, property)
    assert is_free.fget is not None
    assert is_free.fget(None) is False
    with pytest.raises(InvalidMutantError, match="no parameter event"):
        gives_back(event_matching.with_event, "event")


def test_replacement_takes_what_it_needs_and_calls_the_original() -> None:
    """The call has the arguments that were given, but for those that it changes."""

    def both(original: Original, number: int) -> Any:
        return original(), original(number=number + 1)

    def with_unknown(original: Original) -> Any:
        return original(numbers=2)

    keys: Any = patch(layout.numbered_key, both).replacement
    of_unknown: Any = patch(layout.numbered_key, with_unknown).replacement

    one, two = (layout.numbered_key(layout.REVOCATION, "r1", n) for n in (1, 2))
    assert (one, two) == keys(layout.REVOCATION, "r1", number=1)
    with pytest.raises(AssertionError):
        of_unknown(layout.REVOCATION, "r1", 1)


async def _coroutine(run: RunRow, now: datetime) -> None:
    del run, now


def _other_names(_run: RunRow, _now: datetime) -> None:
    return None


@pytest.mark.parametrize("replacement", [_coroutine, _other_names])
def test_replacement_with_another_signature_is_refused(
    replacement: Callable[..., object],
) -> None:
    """A caller that passes other arguments would fail for the wrong reason."""
    with pytest.raises(InvalidMutantError, match="differ in their parameters"):
        patch(claims.check_free, replacement)


def test_function_that_is_not_found_under_its_own_name_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The code no longer calls such a function."""
    original = claims.check_free
    monkeypatch.setattr(claims, "check_free", _check_free)

    with pytest.raises(InvalidMutantError, match="check_free is not the function"):
        patch(original, _check_free)


def test_mutant_that_patches_one_place_twice_is_refused() -> None:
    """The second patch would hide the first."""

    def twice() -> Patches:
        """A bug."""
        yield patch(claims.check_free, _check_free)
        yield patch(claims.check_free, _check_free)

    with pytest.raises(InvalidMutantError, match="twice patches one place twice"):
        mutant("started_once")(twice)


def test_mutant_that_breaks_no_law_is_refused() -> None:
    """Nothing could notice it."""

    def free_claims() -> Patches:
        """A bug."""
        yield patch(claims.check_free, _check_free)

    for laws in ((), ("no_law",), ("started_once", "no_law")):
        with pytest.raises(InvalidMutantError, match="not all of them are laws"):
            mutant(*laws)(free_claims)


def test_mutant_that_does_not_say_what_is_wrong_is_refused() -> None:
    def free_claims() -> Patches:
        yield patch(claims.check_free, _check_free)

    with pytest.raises(InvalidMutantError, match="free_claims has no docstring"):
        mutant("started_once")(free_claims)


def test_two_mutants_of_one_name_are_refused() -> None:
    """One of them would never run."""
    with pytest.raises(InvalidMutantError, match="registered twice"):
        unique_mutants(MUTANTS, MUTANTS[:1])


def test_mutated_code_differs_while_the_mutant_is_applied() -> None:
    """The patch reaches the callers."""
    [each] = [m for m in MUTANTS if m.name == "a_claim_has_no_guard"]
    original = StoreJournal.ensure_guarded

    with each.applied():
        assert StoreJournal.ensure_guarded is not original
    assert StoreJournal.ensure_guarded is original
