"""Killed at any storage operation, in any tool, in any turn: the run ends as it would.

Each story of `stories.py` is told once; its storage calls, effects and turns are
numbered. Then for each number a process dies by SIGKILL before and after it, in a
copy of the store; who comes after resumes by hand, or only sweeps, or dies once more,
or takes over from a process that was frozen there and then wakes up. What is claimed
is read from files (`proofs.py`), never from what a call returned.

By default a seeded share of the points; with TORTURE=1 all of them.
"""

from __future__ import annotations

import os

import pytest

from tests.torture.run_all import run_module, summary_table
from tests.torture.scenarios import BY_NAME

MAX_TRIALS = [] if os.environ.get("TORTURE") == "1" else ["--max-trials", "4"]
SEED = ["--seed", os.environ.get("TORTURE_SEED", "1")]


@pytest.mark.parametrize("name", BY_NAME)
def test_crash_at_every_point_keeps_the_promises(name: str) -> None:
    """Promises 1, 3, 4: at most once, never again, the same end, nothing left over.

    R-A3, R-A5, R-A6, R-A7, R-A8, R-A10, R-A11, R-E10, R-F4, R-F6; X-05, X-08, X-11,
    X-13, X-14; PA-08, PA-10, PA-12, PA-32; EF-14, EF-16, EF-18, EF-19, EF-21;
    SL-10. Which of them a story is about is in its name.
    """
    tally = run_module("crash_points", name, *MAX_TRIALS, *SEED)

    assert [] == tally["violations"], summary_table([tally])
    assert tally["trials"] == tally["passed"] > 0
    assert 0 == tally["duplicate_effects"]
    # Who was to die did, but for parallel frames: their number of calls varies.
    assert tally["not_killed"] <= (tally["trials"] / 2 if BY_NAME[name].parallel else 0)
