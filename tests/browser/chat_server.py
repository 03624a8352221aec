"""A chat of the examples as a process that a test kills and starts again."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.examples.example_process import EXAMPLES
from tests.server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Generator

FOLDER = EXAMPLES / "chat_app"
PASSWORD = "sesame-sesame"


@dataclass(kw_only=True)
class ChatServer(ServerProcess):
    """The server on a port of its own; its conversations are in a folder."""

    application: Path = FOLDER
    variables: dict[str, str] = field(default_factory=dict[str, str])
    word_seconds: float = 0.02

    def start(self) -> None:
        """Start the server, and wait until it listens."""
        self.start_uvicorn(
            *("app:app", "--app-dir", str(self.application)),
            cwd=self.folder,
            environment={
                **{k: v for k, v in os.environ.items() if k != "OPENAI_API_KEY"},
                "STAFF_PASSWORD": PASSWORD,
                "WORD_SECONDS": str(self.word_seconds),
                **self.variables,
            },
        )

    def refunds(self) -> list[str]:
        """Return the refunds that the bank made."""
        path = self.folder / "refunds.txt"
        return path.read_text().splitlines() if path.exists() else []


@contextmanager
def run_chat_server(
    folder: Path, application: Path = FOLDER, **variables: str
) -> Generator[ChatServer]:
    """Run the server with environment variables, and yield it."""
    server = ChatServer(folder=folder, application=application, variables=variables)
    server.start()
    try:
        yield server
    finally:
        server.kill()
