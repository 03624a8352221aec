"""The examples as their users run them: processes in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def environment(folder: Path) -> dict[str, str]:
    """Return an environment without anybody's key; temporary files go to a folder."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "TMPDIR": str(folder)}


def command_line(example: str, *arguments: str) -> list[str]:
    """Return the command line of an example."""
    return [sys.executable, str(EXAMPLES / example), *arguments]


def run_example(
    example: str, *arguments: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run an example to its end."""
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
    """Return what an example prints; it must succeed and complain of nothing."""
    ended = run_example(example, *arguments, folder=folder)
    assert (0, "") == (ended.returncode, ended.stderr), ended.stdout + ended.stderr
    return ended.stdout
