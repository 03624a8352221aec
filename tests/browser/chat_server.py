"""A chat of the examples as a process that a test kills and starts again."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.examples.example_process import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

FOLDER = EXAMPLES / "chat_app"
PASSWORD = "sesame-sesame"
_SECONDS_TO_START = 60.0


@dataclass
class ChatServer:
    """The server on a port of its own; its conversations are in a folder."""

    folder: Path
    port: int
    application: Path = FOLDER
    variables: dict[str, str] = field(default_factory=dict[str, str])
    word_seconds: float = 0.02
    processes: list[subprocess.Popen[bytes]] = field(
        default_factory=list[subprocess.Popen[bytes]]
    )

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        with (self.folder / "server.log").open("ab") as log:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "uvicorn", "app:app"),
                    *("--app-dir", str(self.application), "--port", str(self.port)),
                ],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={
                    **{k: v for k, v in os.environ.items() if k != "OPENAI_API_KEY"},
                    "STAFF_PASSWORD": PASSWORD,
                    "WORD_SECONDS": str(self.word_seconds),
                    **self.variables,
                },
            )
        self.processes.append(process)
        end = time.monotonic() + _SECONDS_TO_START
        while not self._answers():
            assert process.poll() is None, (self.folder / "server.log").read_text()
            assert time.monotonic() < end
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/chats/ready").close()  # noqa: S310 - our own loopback
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """Kill the server as a crash would."""
        self.processes[-1].kill()
        self.processes[-1].wait()

    def refunds(self) -> list[str]:
        """Return the refunds that the bank made."""
        path = self.folder / "refunds.txt"
        return path.read_text().splitlines() if path.exists() else []


@contextmanager
def run_chat_server(
    folder: Path, application: Path = FOLDER, **variables: str
) -> Generator[ChatServer]:
    """Run the server with environment variables, and yield it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ChatServer(folder, port, application, variables)
    server.start()
    try:
        yield server
    finally:
        server.kill()
