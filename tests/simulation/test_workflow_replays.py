"""Schedules with workflows are the same under every hash seed."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.python_path import python_path
from tests.run_environment import ROOT

# A race, calls in a group, timeouts, and a workflow below an agent, among others.
PROGRAM = """
import hashlib, logging
from tests.simulation.schedule import run
from tests.simulation.workflows.trees import FLOW_TREES
logging.disable()
trees = set()
for seed in range(17_000_000, 17_000_012):
    report = run(seed)
    trees.add(report.environment.tree_of_run["r0"])
    bodies = sorted(report.environment.store.bodies.items())
    print(hashlib.sha256(repr(bodies).encode()).hexdigest())
print(sorted(trees & FLOW_TREES.keys()))
"""


def _stored(hash_seed: str) -> str:
    variables = {
        "PYTHONPATH": python_path(ROOT, ROOT / "storage"),
        "PYTHONHASHSEED": hash_seed,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **variables},
    )
    return done.stdout


def test_workflows_store_the_same_bytes_under_each_hash_seed() -> None:
    """Code that waits for the first of several calls takes the same one each time."""
    first = _stored("1")

    assert first == _stored("2")
    assert first.count("flow_") >= 4
