"""A process that has imported the library and forks a child for each command.

A child is a new process that shares the store, the logs and the environment variables
with the test, as a fresh interpreter does. It has no state but imported modules, and
needs a fifth of the time. `python -m tests.process_server PATH` listens on a socket.

A request is a line of JSON with `arguments`, `environment` and `folder`, and the
file descriptor of the output. Then the server writes a line for each change: `pid N`,
`stopped`, and `exit CODE`, where the code of a killed process is minus its signal.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

# The modules that commands import, also late. The server imports them once.
PRELOADED = (
    "concurrent.futures.thread",
    "jsonschema_rs",
    "pydantic.json_schema",
    "pydantic.type_adapter",
    "continuations_storage.faults",
    "continuations_storage.files",
    "continuations_storage.probe",
    "tests.engine.run_command",
    "tests.sample_app",
)
PRELOADED_PACKAGES = tuple(
    f"continuations.{name}"
    for name in ("authoring", "core", "engine", "ledger", "wire")
)
_MAX_REQUEST_BYTES = 1 << 20


class ServedProcess:
    """A child of the server; used like `subprocess.Popen`."""

    def __init__(self, connection: socket.socket, output: int) -> None:
        self._lines = connection.makefile("r", encoding="ascii")
        self._connection = connection
        self._output = output
        self.pid = int(self._next_word("pid"))
        self.returncode: int | None = None

    def communicate(self, timeout: float) -> tuple[bytes, None]:
        """Return the output, after the process has ended."""
        end = time.monotonic() + timeout
        out = b""
        while data := self._read_output(end - time.monotonic()):
            out += data
        os.close(self._output)
        self.returncode = int(self._next_word("exit"))
        self._lines.close()
        self._connection.close()
        return out, None

    def _read_output(self, timeout: float) -> bytes:
        # Not `select.select`, which fails above 1,024 open files.
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        ready = poll.poll(max(timeout, 0) * 1000)
        assert ready, f"process {self.pid} did not end"
        return os.read(self._output, _MAX_REQUEST_BYTES)

    def wait_until_stopped(self) -> None:
        """Wait until the process has stopped itself; it must not end before."""
        assert "stopped" == self._lines.readline().strip(), "it did not freeze"

    def send_signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        os.kill(self.pid, number)

    def _next_word(self, name: str) -> str:
        words = self._lines.readline().split()
        while words == ["stopped"]:  # a frozen process that was continued
            words = self._lines.readline().split()
        assert name == words[0]
        return words[1]


def start(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path
) -> ServedProcess:
    """Have the server of this process run `tests.engine.run_command`."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(_server())
    output, written = os.pipe()
    request = {
        "arguments": [*arguments],
        "environment": dict(environment),
        "folder": str(folder),
    }
    data = json.dumps(request).encode() + b"\n"
    sent = socket.send_fds(connection, [data], [written])
    connection.sendall(data[sent:])
    os.close(written)
    return ServedProcess(connection, output)


@cache
def _server() -> str:
    """Start the server, and return the path of its socket."""
    folder = tempfile.mkdtemp(prefix="tests-")
    path = os.path.join(folder, "socket")  # noqa: PTH118 - an argument of a program
    server = subprocess.Popen(
        [sys.executable, "-m", __name__, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )
    assert server.stdin is not None
    assert server.stdout is not None
    assert b"ready\n" == server.stdout.readline()
    atexit.register(_end, server, folder)
    return path


def _end(server: subprocess.Popen[bytes], folder: str) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.close()
    server.stdout.close()
    server.wait()
    with suppress(OSError):
        Path(folder, "socket").unlink()
        Path(folder).rmdir()


# The server ---------------------------------------------------------------------


@dataclass
class Server:
    """The loop of the server: requests, and what happens to the children."""

    listener: socket.socket
    wakeup: int
    connections: dict[int, socket.socket] = field(
        default_factory=dict[int, "socket.socket"]
    )

    def serve(self) -> None:
        """Serve requests until the standard input ends."""
        while True:
            sources: list[Any] = [0, self.listener, self.wakeup]
            ready, _, _ = select.select(sources, [], [])
            if 0 in ready:
                return
            if self.wakeup in ready:
                os.read(self.wakeup, 4096)
                self._report_changes()
            if self.listener in ready:
                self._fork(self.listener.accept()[0])

    def _fork(self, connection: socket.socket) -> None:
        data, [output], _, _ = socket.recv_fds(connection, _MAX_REQUEST_BYTES, 1)
        while not data.endswith(b"\n"):
            data += connection.recv(_MAX_REQUEST_BYTES)
        child = os.fork()
        if not child:
            _become(json.loads(data), output)
        os.close(output)
        self.connections[child] = connection
        connection.sendall(f"pid {child}\n".encode())

    def _report_changes(self) -> None:
        for child in [*self.connections]:
            found, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
            if not found:
                continue
            has_stopped = os.WIFSTOPPED(status)
            code = None if has_stopped else os.waitstatus_to_exitcode(status)
            # The test may have ended without a look at its process.
            with suppress(OSError):
                line = "stopped\n" if has_stopped else f"exit {code}\n"
                self.connections[child].sendall(line.encode())
            if not has_stopped:
                self.connections.pop(child).close()


def _become(request: dict[str, Any], output: int) -> None:
    """Run a command in a new child; never return."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.closerange(3, output + 1)
        os.environ.clear()
        os.environ.update(request["environment"])
        os.chdir(request["folder"])
        random.seed()
        sys.argv[1:] = request["arguments"]
        importlib.import_module("tests.engine.run_command").main()
        sys.stdout.flush()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 - the child must not go on as the server
        traceback.print_exc()
    finally:
        os._exit(code)


def _note_nothing(_number: int, _frame: object) -> None:
    pass


def main() -> None:
    """Import the modules, and serve until the standard input ends."""
    for name in PRELOADED:
        importlib.import_module(name)
    for name in PRELOADED_PACKAGES:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            importlib.import_module(found.name)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its test process
    signal.signal(signal.SIGCHLD, _note_nothing)  # the wakeup of `serve` is enough
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(sys.argv[1])
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        Server(listener, reader).serve()


if __name__ == "__main__":
    main()
