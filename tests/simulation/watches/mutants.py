"""Bugs of a worker loop that relies on the reports of its store."""

from __future__ import annotations

from continuations.engine.sweep.sweep_loop import _Pace
from tests.simulation.families import WATCHES
from tests.simulation.mutants.mutant import Original, Patches, mutant, patch


@mutant("lost_reports_cost_an_interval", family=WATCHES)
def a_loop_only_sweeps_when_woken() -> Patches:
    """A worker loop looks at the markers only after a report."""

    def note(original: Original, self: _Pace) -> None:
        original()
        self._next_at += 1000.0

    yield patch(_Pace.note, note)
