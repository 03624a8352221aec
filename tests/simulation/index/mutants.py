"""Bugs of the index of runs."""

# A mutant replaces private functions.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.engine.sweeping import RunSweep
from continuations.ledger import run_index
from tests.simulation.families import EVENTS
from tests.simulation.index.laws import runs_are_found
from tests.simulation.mutants.mutant import mutant, mutants_in, patch, skip
from tests.simulation.protocol.laws_of_endings import listed_waits_are_open

if TYPE_CHECKING:
    from continuations.ledger.layout import Marker
    from continuations.ledger.loaded_version import LoadedVersion
    from tests.simulation.mutants.mutant import Patches


@mutant(
    "Nobody writes the index keys of a process that died.", breaks=(runs_are_found,)
)
def a_dead_process_leaves_a_run_out_of_the_index() -> Patches:
    yield skip(run_index.mend)


@mutant(
    "A sweep deletes the markers that its worker kept, so nobody lists the run.",
    breaks=(runs_are_found, listed_waits_are_open),
    family=EVENTS,
)
def a_sweep_deletes_what_its_worker_kept() -> Patches:
    original = RunSweep._repair

    async def repair(
        self: RunSweep, due_markers: list[Marker], before: LoadedVersion
    ) -> None:
        if self.worker._journal is not None:
            self.worker._journal.keeps_markers = False
        await original(self, due_markers, before)

    yield patch(RunSweep._repair, repair)


MUTANTS = mutants_in(globals())
