"""Bugs of the index of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.ledger import run_index
from tests.simulation.laws_of_index import runs_are_found
from tests.simulation.mutants.mutant import mutant, mutants_in, patch

if TYPE_CHECKING:
    from continuations.ledger.loaded_version import LoadedVersion
    from continuations.ledger.objects import Objects
    from tests.simulation.mutants.mutant import Patches


@mutant(
    "Nobody writes the index keys of a process that died.", breaks=(runs_are_found,)
)
def a_dead_process_leaves_a_run_out_of_the_index() -> Patches:
    async def mend(objects: Objects, version: LoadedVersion) -> None:
        del objects, version

    yield patch(run_index.mend, mend)


MUTANTS = mutants_in(globals())
