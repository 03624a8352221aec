"""examples/web_demo as a process, for tests and pictures in a browser."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.examples.example_process import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

PROGRAM = EXAMPLES / "web_demo" / "app.py"
_ADDRESS = re.compile(r"Open (http://127\.0\.0\.1:\d+)(/\S+)")


@dataclass(frozen=True)
class WebDemo:
    """The running demonstration.

    Attributes:
        url: The address of the console.
        sign_in_path: The path that signs the person in, once.
        store: The URL of its store.
        process: The process.
    """

    url: str
    sign_in_path: str
    store: str
    process: subprocess.Popen[str]

    def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C; return the exit code and the last output."""
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=60)
        return self.process.returncode, out


@contextmanager
def run_web_demo(folder: Path) -> Generator[WebDemo]:
    """Run the example with a store in a folder, and kill it at the end."""
    store = f"file:{folder / 'store'}"
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), "--store", store],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            found = _ADDRESS.match(process.stdout.readline())
            assert found
            yield WebDemo(found[1], found[2], store, process)
        finally:
            process.kill()
