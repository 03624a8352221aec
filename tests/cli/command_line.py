"""The command line in a test: in this process, or in one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from continuations.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a command came to."""

    exit_code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of standard output."""
        return self.out.splitlines()


class CommandLine:
    """Runs command lines in a folder of its own; the store is `runs` in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __call__(self, *arguments: str) -> CommandResult:
        """Run a command line in this process."""
        self._capsys.readouterr()
        code = main(arguments)
        said = self._capsys.readouterr()
        return CommandResult(code, said.out, said.err)

    def single_wait_id(self) -> str:
        """Return the id of the one wait that is open in the store."""
        (wait,) = self("waiting", "--ids").lines
        return wait

    def run_in_process(
        self, *arguments: str, program: tuple[str, ...] = ()
    ) -> CommandResult:
        """Run a command line in a process of its own."""
        with self.start_process(*arguments, program=program) as process:
            out, err = process.communicate(timeout=60)
        return CommandResult(process.returncode, out, err)

    def start_process(
        self, *arguments: str, program: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        """Begin a command line in a process of its own."""
        start = program or ("-m", "continuations")
        return subprocess.Popen(
            [sys.executable, *start, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def write_file(self, name: str, text: str) -> None:
        """Write a file into the folder."""
        (self.folder / name).write_text(text, encoding="utf-8")


def wait_ids(done: CommandResult) -> list[str]:
    """Return the ids of waits that stand on a line of their own."""
    lines = (line.strip() for line in done.lines)
    return [line for line in lines if line.startswith("approval-") and "@" in line]


def kill_process(process: subprocess.Popen[str]) -> None:
    """End a process with SIGKILL, as a crash would."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


def unload_written_modules() -> None:
    """Forget the modules that a test wrote and a command imported."""
    for name in [name for name in sys.modules if name.endswith("_written")]:
        del sys.modules[name]
