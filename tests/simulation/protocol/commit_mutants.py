"""Bugs of what a store changes together with a version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from continuations.engine.journal.publishing import Publisher
from continuations.ledger import layout
from continuations.ledger.index import run_index
from continuations.ledger.objects import Objects
from continuations_storage.contract import Changes
from tests.simulation.families import COMMITS
from tests.simulation.mutants.mutant import Original, Patches, mutants_of, patch

mutant = mutants_of(COMMITS)


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


@mutant("no_run_stranded", "listed_waits_are_open")
def a_commit_forgets_wait_objects() -> Patches:
    """A commit deletes the guard of a version and does not create its wait objects."""
    yield from _without(layout.WAITS_PREFIX)


@mutant("no_run_stranded")
def a_commit_forgets_deadlines() -> Patches:
    """A commit deletes the guard of a version and creates no marker for a deadline."""
    yield from _without(layout.MARKERS_PREFIX)


@mutant("runs_are_found")
def a_commit_forgets_the_index() -> Patches:
    """A commit ends a run and does not list it among the ended runs."""
    yield from _without(run_index.INDEX_PREFIX)


def _changed(change: Callable[[Changes], Changes]) -> Patches:
    """Each commit makes other changes."""

    async def commit(original: Original, changes: Changes) -> Any:
        return await original(changes=change(changes))

    yield patch(Objects.commit, commit)


def _without_markers(part_of_key: str, changes: Changes) -> Changes:
    """Return changes without their markers, if it is one of these keys."""
    if part_of_key not in changes.key:
        return changes
    also = changes.also.items()
    kept = {k: body for k, body in also if not k.startswith(layout.MARKERS_PREFIX)}
    return changes._replace(also=kept)


@mutant("no_run_stranded")
def a_commit_forgets_the_guard_of_a_claim() -> Patches:
    """A claim comes without the marker that guards it."""
    yield from _changed(partial(_without_markers, "/v/"))


@mutant("no_run_stranded")
def a_commit_forgets_the_marker_of_a_decision() -> Patches:
    """A decision comes without its marker."""
    yield from _changed(partial(_without_markers, "/in/d-"))


@mutant("no_run_stranded", "runs_are_found")
def a_commit_compares_no_clocks() -> Patches:
    """A commit compares no clocks, so a machine with a wrong clock claims a new run."""
    yield from _changed(lambda changes: changes._replace(between=None))
