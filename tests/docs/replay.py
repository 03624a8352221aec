"""Replay a page: run its programs and compare the output of its commands.

- A ``python`` block that begins with ``# name.py`` is written to that file.
- A ``python`` block that includes a file of docs/snippets is that file.
- Any other ``python`` block runs as a program of its own, with warnings as errors.
  Such blocks in a row run one after another in one interpreter.
- A ``console`` block is replayed command by command. "…" in its output stands for any
  text. `export` changes the environment, `pip install` is skipped, `uvicorn` runs in
  the background until the page ends, and WAIT_ID is the first open wait.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.ports import free_port
from tests.python_path import python_path

ROOT = Path(__file__).parents[2]
SNIPPETS = ROOT / "docs" / "snippets"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"(\w+)=(\S+)")
_INCLUDE = re.compile(r'--8<-- "docs/snippets/(\w+\.py)"')
_TIMEOUT = 60
# Runs each program of a list as the module __main__, without the names of the others.
_RUN_PROGRAMS = """
import json, sys, types
for number, program in enumerate(json.load(sys.stdin), 1):
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(program, f"<program {number}>", "exec"), vars(module))
    sys.stdout.write(f"\\nprogram {number} has ended\\n")
"""


def matches(printed: str, expected: str) -> bool:
    """Return whether an output is the expected one; "…" stands for any text."""
    pattern = ".*?".join(re.escape(part) for part in expected.split("…"))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


@dataclass
class Replay:
    """The replay of one page in one folder.

    Attributes:
        folder: The folder of the files that the page writes.
        environment: Variables in addition to PATH, HOME and PYTHONPATH.
        ran: The number of programs and commands that ran.
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict[str, str])
    ran: int = 0
    _servers: list[subprocess.Popen[bytes]] = field(
        default_factory=list[subprocess.Popen[bytes]]
    )
    _port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        """Put the snippets and the programs of this environment in reach."""
        for snippet in SNIPPETS.glob("*.py"):
            shutil.copy(snippet, self.folder)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {
            "PATH": path,
            "HOME": str(self.folder),
            "PYTHONPATH": python_path(self.folder, ROOT, ROOT / "storage"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.environment,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.terminate()
        for server in self._servers:
            server.wait()

    def run_page(self, page: Path) -> None:
        """Run every block of a page, in the order of the page."""
        programs: list[str] = []
        for language, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
            named = re.match(r"# (\w+\.py)\n", block)
            if language == "python" and not named and not _INCLUDE.search(block):
                programs.append(block)
                continue
            self._run_programs(programs)
            programs = []
            if language == "console":
                self._run_console(block)
            elif language == "python" and named:
                (self.folder / named[1]).write_text(block, encoding="utf-8")
        self._run_programs(programs)

    def _run_programs(self, programs: list[str]) -> None:
        if not programs:
            return
        command = [sys.executable, "-W", "error", "-c", _RUN_PROGRAMS]
        printed = self._run(command, given=json.dumps(programs))
        # A program that ends the interpreter hides those that follow it.
        assert f"program {len(programs)} has ended" in printed, printed
        self.ran += len(programs)

    def _run_console(self, block: str) -> None:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            self._run_command(command, expected.strip())

    def _run_command(self, command: str, expected: str) -> None:
        if command.startswith("pip install"):
            return
        if command.startswith("export "):
            given = dict(_EXPORT.findall(command))
            keep = {name for name, value in given.items() if "…" in value}
            self.environment.update(
                {name: value for name, value in given.items() if name not in keep}
            )
            return
        self.ran += 1
        command = command.replace(":8000", f":{self._port}")
        command = command.replace("--port 8000", f"--port {self._port}")
        if command.startswith("uvicorn "):
            self._start_server(command)
            return
        if "WAIT_ID" in command:
            store = self.environment["RUNS_STORE"]
            listed = self._run(
                ["/bin/sh", "-c", f"continuations waiting --ids --store {store}"]
            )
            command = command.replace("WAIT_ID", listed.split()[0])
        printed = self._run(["/bin/sh", "-c", command])
        if expected or not command.startswith("curl "):
            assert matches(printed, expected), printed

    def _start_server(self, command: str) -> None:
        server = subprocess.Popen(
            [sys.executable, "-m", *command.split()],
            cwd=self.folder,
            env=self.environment,
        )
        self._servers.append(server)
        end = time.monotonic() + _TIMEOUT
        while time.monotonic() < end and server.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.05)
        message = f"{command}: no server on port {self._port}"
        raise AssertionError(message)

    def _run(self, command: list[str], *, given: str | None = None) -> str:
        done = subprocess.run(
            command,
            input=given,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout
