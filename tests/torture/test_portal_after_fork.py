"""The sync face in a child of a process that has used it: its thread is not there."""

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
from continuations.engine import portal
from continuations_storage import MemoryStore
from pathlib import Path
import tempfile

warm_up()
assert portal._thread is not None and portal._thread.is_alive()

def works() -> None:
    assert portal._thread is None
    warm_up()

def forks_again() -> None:
    warm_up()
    assert child_processes.run_in_child(works) == 0

assert [0, 0, 0] == [child_processes.run_in_child(each) for each in (works, forks_again, works)]
warm_up()
print("fine")
"""


def test_a_forked_child_has_a_loop_of_its_own() -> None:
    """engine/portal.py: a child makes its own thread; its parent keeps the old one."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD_SCRIPT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert ("fine\n", 0) == (done.stdout, done.returncode), done.stderr
