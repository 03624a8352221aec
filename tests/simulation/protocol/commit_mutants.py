"""Bugs of what a store changes together with a version."""

# A mutant replaces private functions.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from dataclasses import replace
from typing import Any

from continuations.engine.journal.publishing import Publisher
from continuations.ledger import layout
from continuations.ledger.index import run_index
from tests.simulation.families import COMMITS
from tests.simulation.index.laws import runs_are_found
from tests.simulation.mutants.mutant import Original, Patches, mutant, mutants_in, patch
from tests.simulation.protocol.laws_of_endings import (
    listed_waits_are_open,
    no_run_stranded,
)


def _without(prefix: str) -> Patches:
    """A commit without the keys of a prefix."""

    def together(original: Original) -> Any:
        made = original()
        creates = {
            key: body
            for key, body in made.creates.items()
            if not key.startswith(prefix)
        }
        return replace(made, creates=creates)

    yield patch(Publisher._together, together)


@mutant(
    "A commit deletes the guard of a version and does not create its wait objects.",
    breaks=(no_run_stranded, listed_waits_are_open),
    family=COMMITS,
)
def a_commit_forgets_wait_objects() -> Patches:
    yield from _without(layout.WAITS_PREFIX)


@mutant(
    "A commit deletes the guard of a version and creates no marker for a deadline.",
    breaks=(no_run_stranded,),
    family=COMMITS,
)
def a_commit_forgets_deadlines() -> Patches:
    yield from _without(layout.MARKERS_PREFIX)


@mutant(
    "A commit ends a run and does not list it among the ended runs.",
    breaks=(runs_are_found,),
    family=COMMITS,
)
def a_commit_forgets_the_index() -> Patches:
    yield from _without(run_index.INDEX_PREFIX)


MUTANTS = mutants_in(globals())
