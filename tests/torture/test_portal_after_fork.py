"""The synchronous runner in a forked child, which has no thread of its parent."""

from __future__ import annotations

import subprocess
import sys

from tests.run_environment import ROOT

CHILD_SCRIPT = """
import os
from tests.torture import child_processes
from tests.torture.process_actor import ProcessActor
from tests.torture.workspace import SharedClock, Workspace
from tests.torture.crash_points import warm_up
from tests.torture.scenarios import BY_NAME
from continuations.engine.sync import portal
from continuations_storage import MemoryStore
from pathlib import Path
import tempfile

warm_up()
assert portal._thread is not None and portal._thread.is_alive()

def work() -> None:
    assert portal._thread is None
    warm_up()

def fork_again() -> None:
    warm_up()
    assert child_processes.run_in_child(work) == 0

for function in (work, fork_again, work):
    assert child_processes.run_in_child(function) == 0
warm_up()
print("done")
"""


def test_forked_child_starts_its_own_loop() -> None:
    """A child starts its own thread; the parent keeps the old one."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD_SCRIPT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ("done\n", 0) == (done.stdout, done.returncode), done.stderr
