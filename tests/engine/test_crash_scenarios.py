"""A process dies at any storage operation, and others go on: one table of scenarios.

`crash_scenario.py` says what a row is. By default the test tries a sample of the
operations and recoveries; with TORTURE=1 all of them. Here a process is a runner, and
its death is an exception. So an operation is cheap to try: no signal, no interpreter,
no file. `tests/torture/test_killed_scenarios.py` kills processes of the same rows.

The rows of `tests/torture/scenarios.py` are others: scripts of one sample application,
step by step. Their executor also kills processes between two storage operations and
freezes them. It compares each message with that of an undisturbed run. It has no checks
of its own for a row, and the rows here have no steps that it could number.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.crash_points import every_crash
from tests.engine import (
    crashes_of_conversations,
    crashes_of_decisions,
    crashes_of_objects,
    crashes_of_runs,
)
from tests.engine.crash_scenario import Scenario, rows_of
from tests.run_environment import RunEnvironment
from tests.sampling import sample

SCENARIOS = rows_of(
    crashes_of_runs, crashes_of_decisions, crashes_of_conversations, crashes_of_objects
)


# `make test` takes every second case: each row with one moment, and these in turns.
CASES = [
    (row, moment)
    for number, row in enumerate(SCENARIOS)
    for moment in (("before", "after") if number % 2 == 0 else ("after", "before"))
]


@pytest.mark.parametrize(
    ("row", "moment"), CASES, ids=lambda each: getattr(each, "__name__", each)
)
def test_others_go_on_after_a_crash(
    environment: RunEnvironment, row: type[Scenario], moment: Any
) -> None:
    """The promise of the row holds, and no marker and no wait is left behind."""
    reached = set[str]()
    points = every_crash(moment, more_than=row.more_than, step=row.step)
    for number, point in enumerate(points):
        for recovery in sample(row.recoveries, len(row.recoveries), number):
            environment.clear_logs()
            scenario = row(environment, recovery)
            scenario.before()
            with point.process(scenario.store) as dying:
                scenario.on(dying).dies()
            try:
                scenario.then()
                scenario.finish()
            except BaseException as error:
                error.add_note(f"{recovery} after {point}: {dying.operations[-1:]}")
                raise
            reached |= scenario.reached
    assert row.reaches <= reached
