"""Bugs of the index of runs."""

from __future__ import annotations

from typing import Any

from continuations.engine.worker.worker import Worker
from continuations.ledger.index import run_index
from tests.simulation.families import PAST, SEAMS
from tests.simulation.mutants.conditions import the_index_fails_at_times
from tests.simulation.mutants.mutant import Original, Patches, mutant, patch, returns


@mutant("runs_are_found")
def a_dead_process_leaves_a_run_out_of_the_index() -> Patches:
    """No process writes the index keys of one that died."""
    yield returns(run_index.mend, value=True)


@mutant("runs_are_found", "listed_waits_are_open", condition=the_index_fails_at_times)
def a_sweep_deletes_what_its_worker_kept() -> Patches:
    """A sweep deletes the markers that its worker kept, so no process lists the run."""
    yield returns(Worker.keeps_markers, value=False)


@mutant("runs_are_found", "listed_waits_are_open", family=PAST)
def a_sweep_deletes_the_markers_of_another_process() -> Patches:
    """A sweep deletes the markers of a version that another process wrote meanwhile."""
    yield returns(Worker.has_followed, value=True)


@mutant("listed_waits_are_open", family=SEAMS)
def waits_of_a_followed_version_are_listed() -> Patches:
    """A slow process lists the waits of a version that another process has followed."""

    async def mend(original: Original) -> Any:
        await original()
        return True

    yield patch(run_index.mend, mend)
