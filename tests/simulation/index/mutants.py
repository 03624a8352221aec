"""Bugs of the index of runs."""

# A mutant replaces private functions.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.ledger import run_index
from tests.simulation.index.laws import runs_are_found
from tests.simulation.mutants.mutant import mutant, mutants_in, skip

if TYPE_CHECKING:
    from tests.simulation.mutants.mutant import Patches


@mutant(
    "Nobody writes the index keys of a process that died.", breaks=(runs_are_found,)
)
def a_dead_process_leaves_a_run_out_of_the_index() -> Patches:
    yield skip(run_index.mend)


MUTANTS = mutants_in(globals())
