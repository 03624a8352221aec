"""Run the command line in a test: in this process, or in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from continuations import Runner
from continuations.cli import main
from tests.cli.sample_agents import make_boss
from tests.python_path import python_path

ROOT = Path(__file__).parents[2]
RUNNERS = "tests.cli.sample_runners"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and the output of a command."""

    exit_code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of standard output."""
        return self.out.splitlines()


class CommandLine:
    """Runs command lines in a folder; the store is the folder `runs` in it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys
        self._processes: list[subprocess.Popen[str]] = []

    @property
    def store(self) -> str:
        """The URL of the store."""
        return f"file:{self.folder / 'runs'}"

    @cached_property
    def runner(self) -> Runner:
        """A runner of the sample application on the store."""
        return Runner(make_boss(), store=self.store)

    def __call__(self, *arguments: str) -> CommandResult:
        """Run a command line in this process."""
        self._capsys.readouterr()
        code = main(arguments)
        output = self._capsys.readouterr()
        return CommandResult(code, output.out, output.err)

    def start(self, app: str, *arguments: str) -> CommandResult:
        """Start run `j1` of an application in this process."""
        return self("start", "go", "--run-id", "j1", "--app", app, *arguments)

    def single_wait_id(self) -> str:
        """Return the id of the only open wait of the store."""
        (wait_id,) = self("waiting", "--ids").lines
        return wait_id

    def run_in_process(
        self, *arguments: str, program: tuple[str, ...] = ()
    ) -> CommandResult:
        with self.start_process(*arguments, program=program) as process:
            out, err = process.communicate(timeout=60)
        return CommandResult(process.returncode, out, err)

    def start_process(
        self, *arguments: str, program: tuple[str, ...] = ()
    ) -> subprocess.Popen[str]:
        """Start a command line in its own process, which ends with the test."""
        start = program or ("-m", "continuations")
        process = subprocess.Popen(
            [sys.executable, *start, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONUNBUFFERED": "1",
                "PYTHONPATH": python_path(ROOT, ROOT / "storage"),
            },
        )
        self._processes.append(process)
        return process

    def end_processes(self) -> None:
        """Kill the processes that a failed test left behind."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def write_file(self, name: str, text: str) -> None:
        """Write a file into the folder."""
        (self.folder / name).write_text(text, encoding="utf-8")


def wait_ids(result: CommandResult) -> list[str]:
    """Return the wait ids that have a line of their own in the output."""
    lines = (line.strip() for line in result.lines)
    return [line for line in lines if line.startswith("approval-") and "@" in line]


def kill_process(process: subprocess.Popen[str]) -> None:
    """Kill a process with SIGKILL, as a crash would."""
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


def unload_test_modules() -> None:
    """Forget the modules that a command imported, so the next test loads them anew."""
    for name in list(sys.modules):
        if name.endswith("_written") or name == RUNNERS:
            del sys.modules[name]
