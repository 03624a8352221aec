"""uvicorn in a process that a test kills and starts again, at one port."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.ports import free_port, wait_for_port


@dataclass(kw_only=True)
class ServerProcess:
    """The processes of a server, one after the other.

    Attributes:
        folder: Where the log of the server is.
        port: The port.
        processes: The processes that were started.
    """

    folder: Path
    port: int = field(default_factory=free_port)
    processes: list[subprocess.Popen[bytes]] = field(
        default_factory=list[subprocess.Popen[bytes]]
    )

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def start_uvicorn(
        self, *words: str, environment: Mapping[str, str], cwd: Path | None = None
    ) -> None:
        """Start uvicorn with some words, and wait until it listens."""
        command = [sys.executable, "-m", "uvicorn", *words, "--port", str(self.port)]
        log = self.folder / "server.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                command, cwd=cwd, env=environment, stdout=file, stderr=file
            )
        self.processes.append(process)
        try:
            wait_for_port(self.port)
        except OSError as error:
            raise AssertionError(log.read_text()) from error

    def kill(self) -> None:
        """Kill the server as a crash would."""
        self.processes[-1].kill()
        self.processes[-1].wait()
