"""A process is killed at every storage operation, effect and model turn of a run.

Each scenario of `scenarios.py` runs once, and its operations, effects and turns are
numbered. Then, for each number, a process dies by SIGKILL before and after it, in a
copy of the store. The run is recovered in four ways (`Recovery` in `crash_points.py`).
All checks read files (`violations.py`), never what a call returned.

By default a sample of the crash points is tried; with TORTURE=1 all of them.
"""

from __future__ import annotations

import os

import pytest

from tests.sampling import RUNS_ALL_CASES
from tests.torture.run_all import run_modules, summary_table
from tests.torture.scenarios import BY_NAME
from tests.torture.workspace import STORES

# By default some scenarios share an interpreter, which forks all processes of a trial.
CHUNKS = len(BY_NAME) if RUNS_ALL_CASES else 6
MAX_TRIALS = [] if RUNS_ALL_CASES else ["--max-trials", "2"]
SEED = ["--seed", os.environ.get("TORTURE_SEED", "1")]


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_crash_at_every_point_keeps_the_promises(
    chunk: int, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promises 1, 3 and 4: same end, no effect twice, no run and no key left behind."""
    monkeypatch.setenv("TORTURE_STORE", store)
    names = [*BY_NAME][chunk::CHUNKS]
    tallies = run_modules("crash_points", names, *MAX_TRIALS, *SEED)

    assert names == [tally["name"] for tally in tallies], summary_table(tallies)
    for name, tally in zip(names, tallies, strict=True):
        assert [] == tally["violations"], summary_table([tally])
        assert tally["trials"] == tally["passed"] > 0
        assert 0 == tally["duplicate_effects"]
        # Only with parallel frames does the number of operations vary.
        parallel = BY_NAME[name].parallel
        assert tally["not_killed"] <= (tally["trials"] / 2 if parallel else 0)
