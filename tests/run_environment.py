"""The world around a run: a store on disk, ledgers of what happened, processes.

Every method that ends in another process starts a fresh interpreter, which shares
nothing with the test but the store, the ledgers and its environment.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import effect_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.scripts import Script

ROOT = Path(__file__).parents[1]
KILLED = -signal.SIGKILL
TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class CommandProcess:
    """Another interpreter that does one command."""

    popen: subprocess.Popen[bytes]

    def wait(self) -> int:
        """Wait for its end and return its code."""
        self.popen.communicate(timeout=TIMEOUT_SECONDS)
        return self.popen.returncode

    def wait_for_result(self) -> dict[str, Any]:
        """Return what it came to; it must have ended in order."""
        out, _ = self.popen.communicate(timeout=TIMEOUT_SECONDS)
        assert 0 == self.popen.returncode, out
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
        return found

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.popen.send_signal(number)


@dataclass(frozen=True)
class RunEnvironment:
    """One store with its ledgers, in a folder of its own."""

    folder: Path
    extra_variables: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def store(self) -> str:
        """The URL of the store."""
        return f"file:{self.folder / 'store'}"

    # Other processes ---------------------------------------------------------

    def spawn(self, command: str, *arguments: str, **settings: Any) -> CommandProcess:
        """Start `python -m tests.engine.run_command command words...`.

        Settings go into its environment: `script=` and what else is not a text as
        JSON, `app=`, `lease=`, `fault=` as `doors.py` reads them.
        """
        given = {f"TEST_{key.upper()}": _text(value) for key, value in settings.items()}
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            effect_log.EFFECTS_VARIABLE: str(self.folder / "effects"),
            effect_log.TURNS_VARIABLE: str(self.folder / "turns"),
            "TEST_STORE": self.store,
            "TEST_FOLDER": str(self.folder),
            **self.extra_variables,
            **given,
        }
        popen = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.run_command", command, *arguments],
            env=environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
        )
        return CommandProcess(popen)

    def run(self, command: str, *arguments: str, **settings: Any) -> dict[str, Any]:
        """Do a command in another process and return what it came to."""
        return self.spawn(command, *arguments, **settings).wait_for_result()

    def start(self, script: Script, run_id: str = "r1", **more: Any) -> dict[str, Any]:
        """Start a run with the task "go"."""
        return self.run("start", run_id, "go", script=script, **more)

    def resume(self, script: Script, run_id: str = "r1", **more: Any) -> dict[str, Any]:
        """Go on with a run."""
        return self.run("resume", run_id, script=script, **more)

    def approve(self, wait: Mapping[str, Any] | str, **more: Any) -> dict[str, Any]:
        """Say yes to a wait."""
        return self.decide(wait, {"approve": {"by": "kim", **more}})

    def deny(self, wait: Mapping[str, Any] | str, **more: Any) -> dict[str, Any]:
        """Say no to a wait."""
        return self.decide(wait, {"deny": {"by": "kim", **more}})

    def decide(
        self, wait: Mapping[str, Any] | str, verdict: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Decide a wait."""
        wait_id = wait if isinstance(wait, str) else wait["id"]
        return self.run("decide", wait_id, json.dumps(verdict), app="none")

    # What happened -----------------------------------------------------------

    def effects(self) -> list[dict[str, Any]]:
        """Return every effect of a tool, of whichever process."""
        return effect_log.read_lines(self.folder / "effects")

    def effect_names(self) -> list[str]:
        """Return the effects in short, in the order in which they happened."""
        return [f"{line['tool']} {line['what']}" for line in self.effects()]

    def turns(self) -> list[str]:
        """Return every turn of a scripted model, in short."""
        lines = effect_log.read_lines(self.folder / "turns")
        return [f"{line['task']} {line['turn']}" for line in lines]

    def objects(self) -> dict[str, bytes]:
        """Return every file of the store with its bytes."""
        root = self.folder / "store"
        files = [path for path in root.rglob("*") if path.is_file()]
        return {str(path.relative_to(root)): path.read_bytes() for path in files}

    def keys(self, *prefixes: str) -> list[str]:
        """Return the files of the store under some prefixes."""
        return sorted(key for key in self.objects() if key.startswith(prefixes))


def wait_until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait until something has come true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
