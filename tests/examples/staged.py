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


def command(example: str, *words: str) -> list[str]:
    """Return the command line of an example."""
    return [sys.executable, str(EXAMPLES / example), *words]


def run(example: str, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run an example to its end."""
    return subprocess.run(
        command(example, *words),
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def said(example: str, *words: str, folder: Path) -> str:
    """Return what an example prints; it must succeed and complain of nothing."""
    ended = run(example, *words, folder=folder)
    assert (0, "") == (ended.returncode, ended.stderr), ended.stdout + ended.stderr
    return ended.stdout
