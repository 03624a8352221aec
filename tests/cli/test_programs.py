"""`continuations` and `python -m continuations` are the same program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = (
    [str(Path(sys.executable).with_name("continuations"))],
    [sys.executable, "-m", "continuations"],
)
APPLICATION = """
from continuations import Agent, Runner
from continuations.models.scripted import ScriptedModel

runner = Runner(Agent("clerk", model=ScriptedModel(["Done."])), store="memory:")
"""


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        ((), 2),
        (("--help",), 0),
        (("no-such-command",), 2),
        (("waiting", "--store", "memory:"), 0),
        (("show", "no-such-run", "--store", "memory:"), 5),
        (("start", "Go.", "--run-id", "r1", "--app", "app:runner"), 0),
    ],
    ids=["no command", "help", "unknown command", "waiting", "unknown run", "start"],
)
def test_both_programs_have_the_same_name_output_and_exit_code(
    tmp_path: Path, arguments: tuple[str, ...], exit_code: int
) -> None:
    """Both import an application from the working directory, too."""
    (tmp_path / "app.py").write_text(APPLICATION)
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("CONTINUATIONS_")
    }

    script, module = (
        subprocess.run(
            [*program, *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for program in PROGRAMS
    )

    assert (exit_code, script.stdout, script.stderr) == (
        module.returncode,
        module.stdout,
        module.stderr,
    )
    assert exit_code == script.returncode
    assert "__main__" not in script.stdout + script.stderr
