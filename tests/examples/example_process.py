"""Run the examples as users do: in separate processes, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.python_path import python_path

EXAMPLES = Path(__file__).parents[2] / "examples"


def environment(folder: Path) -> dict[str, str]:
    """Return an environment without an API key; temporary files go to the folder."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "PYTHONPATH": python_path(), "TMPDIR": str(folder)}


def command_line(example: str, *arguments: str) -> list[str]:
    """Return the command line of an example."""
    return [sys.executable, str(EXAMPLES / example), *arguments]


def run_example(
    example: str, *arguments: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run an example until it exits."""
    return subprocess.run(
        command_line(example, *arguments),
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def example_output(example: str, *arguments: str, folder: Path) -> str:
    """Return the output of an example; it must succeed without errors or warnings."""
    result = run_example(example, *arguments, folder=folder)
    # An example may have a limited model; on a busy machine, a step may take a second.
    expected = ("failed and will be repeated", ": a step took ")
    lines = result.stderr.splitlines()
    errors = [line for line in lines if not any(each in line for each in expected)]
    assert (0, []) == (result.returncode, errors), result.stdout + result.stderr
    return result.stdout
