"""Bytes never open a file, a connection, a process or a module."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]


class _SchemaServer:
    """A server whose schema would allow the edit; it records the requests."""

    def __init__(self) -> None:
        requests: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                requests.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"type":"string"}')

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                del format, args

        self.requests = requests
        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_reading_and_deciding_forged_bytes_reaches_nothing_outside() -> None:
    """An audit hook sees Python's own input and output, the server that of others."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "storage")))
    with _SchemaServer() as server:
        command = [sys.executable, "-m", "tests.hostile.audited_reading", server.url]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={"PYTHONPATH": paths, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    seen = json.loads(done.stdout)

    assert [] == seen["events"]
    assert [] == server.requests
    # The hook works, and each reference was tried.
    opened, *imported = [event.split()[0] for event in seen["control"]]
    assert "open" == opened
    assert "import" in imported
    followed = {
        name: outcome
        for name, outcome in seen["outcomes"].items()
        if name.startswith(("$ref", "$dynamicRef", "$schema", "$id"))
        and "arguments cannot be validated" not in outcome
    }
    assert {} == followed
    assert 144 == len(seen["outcomes"])  # 12 references, 6 keywords, 2 ways
