"""Errors about listing and erasing runs."""

from __future__ import annotations

from continuations.errors import RunBusy, RunErased
from tests.errors.case import Area, Case
from tests.errors.cases_running import CRASHED

_ERASED = """
    start("jane-1")
    runner.erase("jane-1")
"""

FINDING = Area(
    "Finding and erasing runs",
    (
        Case(
            "erase-busy",
            RunBusy,
            'runner.erase("jane-1")',
            'clock.advance(31); runner.erase("jane-1")',
            setup=CRASHED,
        ),
        Case(
            "erased-look",
            RunErased,
            'runner.look("jane-1")',
            'runner.start(TASK, run_id="jane-2")',
            setup=_ERASED,
            names=("run_id",),
        ),
    ),
)
