"""The environment of a run: a store on disk, logs of effects and turns, processes.

A process shares only the store, the logs and the environment variables with the test.
It is a fresh interpreter in tests with the mark `fresh_interpreters` if it has agents,
and in each test with TORTURE=1. Else it is a child of `process_server`.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from continuations import ContinuationsError, Runner
from continuations.results import Decision
from tests import effect_log, process_server
from tests.engine import run_command
from tests.python_path import python_path
from tests.sampling import RUNS_ALL_CASES
from tests.scripts import Script

ROOT = Path(__file__).parents[1]
KILLED = -signal.SIGKILL
TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class CommandProcess:
    """Another process that runs one command."""

    popen: subprocess.Popen[bytes] | process_server.ServedProcess

    def wait(self) -> int:
        """Wait until the process has ended and return its exit code."""
        self.popen.communicate(timeout=TIMEOUT_SECONDS)
        assert self.popen.returncode is not None
        return self.popen.returncode

    def wait_for_result(self) -> dict[str, Any]:
        """Return the command's result; the process must have succeeded."""
        out, _ = self.popen.communicate(timeout=TIMEOUT_SECONDS)
        assert 0 == self.popen.returncode, out
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found

    def wait_until_frozen(self) -> None:
        """Wait until the process has stopped itself; it must not end before."""
        if isinstance(self.popen, process_server.ServedProcess):
            self.popen.wait_until_stopped()
            return
        seen = os.waitid(
            os.P_PID, self.popen.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT
        )
        assert seen is not None
        assert os.CLD_STOPPED == seen.si_code, "it ended and did not freeze"

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self.popen.send_signal(number)


@dataclass(frozen=True)
class RunEnvironment:
    """One store with its logs, in its own folder."""

    folder: Path
    extra_variables: dict[str, str] = field(default_factory=dict[str, str])
    fresh_interpreters: bool = True

    @property
    def store(self) -> str:
        """The URL of the store."""
        return f"file:{self.folder / 'store'}"

    # Other processes ---------------------------------------------------------

    def spawn(self, command: str, *arguments: str, **settings: Any) -> CommandProcess:
        """Start `python -m tests.engine.run_command command arguments...`.

        `script="..."` becomes the variable TEST_SCRIPT and so on; values other than
        texts become JSON. `run_command` lists the variables.
        """
        settings_variables = {
            f"TEST_{key.upper()}": _text(value) for key, value in settings.items()
        }
        environment = {
            **os.environ,
            "PYTHONPATH": python_path(ROOT, ROOT / "storage"),
            effect_log.EFFECTS_VARIABLE: str(self.folder / "effects"),
            effect_log.TURNS_VARIABLE: str(self.folder / "turns"),
            "TEST_STORE": self.store,
            "TEST_FOLDER": str(self.folder),
            **self.extra_variables,
            **settings_variables,
        }
        # A process without agents rebuilds no stack, so a fork shows the same.
        rebuilds = self.fresh_interpreters and settings.get("app") != "none"
        if not rebuilds and not RUNS_ALL_CASES:
            served = process_server.start(
                [command, *arguments], environment, self.folder
            )
            return CommandProcess(served)
        popen = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.run_command", command, *arguments],
            env=environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
        )
        return CommandProcess(popen)

    def run(self, command: str, *arguments: str, **settings: Any) -> dict[str, Any]:
        """Run a command in another process and return its result.

        Without TORTURE=1 this process reads messages itself, if the store is a folder.
        """
        if command == "tool-results" and self._is_shared_with_this_process():
            runner = Runner([], store=self.store)
            found = run_command.tool_results_of_task(runner, *arguments)
            return {"tool_results": " ".join(found)}
        return self.spawn(command, *arguments, **settings).wait_for_result()

    def start(self, script: Script, run_id: str = "r1", **more: Any) -> dict[str, Any]:
        """Start a run with the task "go"."""
        return self.run("start", run_id, "go", script=script, **more)

    def resume(self, script: Script, run_id: str = "r1", **more: Any) -> dict[str, Any]:
        """Resume a run."""
        return self.run("resume", run_id, script=script, **more)

    def approve(self, wait: Mapping[str, Any] | str, **more: Any) -> dict[str, Any]:
        """Approve a wait."""
        return self.decide(wait, {"approve": {"by": "kim", **more}})

    def deny(self, wait: Mapping[str, Any] | str, **more: Any) -> dict[str, Any]:
        """Deny a wait."""
        return self.decide(wait, {"deny": {"by": "kim", **more}})

    def decide(
        self, wait: Mapping[str, Any] | str, verdict: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Record a verdict for a wait, as a process without agents does.

        Without TORTURE=1 it is this process, if the store is a folder.
        """
        wait_id = wait if isinstance(wait, str) else wait["id"]
        if self._is_shared_with_this_process():
            return decide_here(self.store, wait_id, verdict)
        return self.run("decide", wait_id, json.dumps(verdict), app="none")

    def _is_shared_with_this_process(self) -> bool:
        return not RUNS_ALL_CASES and "TEST_STORE" not in self.extra_variables

    # What happened -----------------------------------------------------------

    def effects(self) -> list[dict[str, Any]]:
        """Return every effect of a tool, in any process."""
        return effect_log.read_lines(self.folder / "effects")

    def effect_names(self) -> list[str]:
        """Return the effects as `"tool argument"`, in their order."""
        return [f"{line['tool']} {line['what']}" for line in self.effects()]

    def turns(self) -> list[str]:
        """Return every turn of a scripted model as `"task number"`."""
        lines = effect_log.read_lines(self.folder / "turns")
        return [f"{line['task']} {line['turn']}" for line in lines]

    def clear_logs(self) -> None:
        """Forget all effects and turns."""
        for name in ("effects", "turns"):
            (self.folder / name).unlink(missing_ok=True)

    def objects(self) -> dict[str, bytes]:
        """Return the body of every object of the store, without its code."""
        root = self.folder / "store"
        if root.is_file():
            with closing(sqlite3.connect(root)) as reader:
                return dict(reader.execute("SELECT key, body FROM objects"))
        files = [path for path in root.rglob("*") if path.is_file()]
        return {str(path.relative_to(root)): path.read_bytes() for path in files}

    def objects_of_runs(self) -> dict[str, bytes]:
        """Return all objects but the notes of workers whose code lacks something."""
        found = self.objects()
        return {key: found[key] for key in found if "/y/" not in key}

    def keys(self, *prefixes: str) -> list[str]:
        """Return the keys of the store with some prefixes."""
        return sorted(key for key in self.objects() if key.startswith(prefixes))


def wait_until(condition: Callable[[], object], seconds: float = 120) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.02)


def run_python(code: str, *arguments: str) -> str:
    """Run code in another process, which must succeed; return its output."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    ).stdout


def decide_here(store: str, wait_id: str, verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Record a verdict in this process; return what `run_command` prints."""
    try:
        decision = Runner([], store=store).decide(
            wait_id, run_command.parse_verdict(json.dumps(verdict))
        )
    except ContinuationsError as error:
        return run_command.error_to_json(error)
    assert isinstance(decision, Decision)
    return run_command.decision_to_json(decision)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
