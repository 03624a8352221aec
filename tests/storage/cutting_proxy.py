"""A TCP proxy before a Postgres server that cuts or freezes connections.

A fault hits the first requests of clients that contain some bytes. A request is all
that a client sends before it waits for a reply.

- `refused`: the connection is closed, and the server gets nothing
- `half`: the server gets the first half of the request, then the end
- `first transaction`: the server gets the request up to the end of its first
  transaction, and replies; the client gets the end
- `lost reply`: the server gets the request and replies; the client gets the end
- `silent`: the server gets the request and replies; the client gets nothing, not even
  an end
"""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["FAULTS", "CuttingProxy", "Fault", "run_proxy"]

Fault = Literal["refused", "half", "first transaction", "lost reply", "silent"]
FAULTS: tuple[Fault, ...] = (
    "refused",
    "half",
    "first transaction",
    "lost reply",
    "silent",
)
_SIZE = 1 << 20
# A client sends a request in several parts, one right after the other.
_SECONDS_BETWEEN_PARTS = 0.003
_SYNC = b"S\0\0\0\4"


@dataclass
class CuttingProxy:
    """The proxy.

    Attributes:
        port: Its port on 127.0.0.1.
        server: The port of the server.
        connections: How many connections clients made.
        cut: How many faults happened.
        statements: How many requests with a statement clients sent: round trips.
        delay: Seconds that each request waits here.
    """

    port: int
    server: int
    connections: int = 0
    cut: int = 0
    statements: int = 0
    delay: float = 0
    _fault: Fault = "refused"
    _word: bytes = b""
    _skipped: int = 0
    _left: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, fault: Fault, word: str, times: int = 1, skipped: int = 0) -> None:
        """Let the next requests with a word fail, after some that are passed on."""
        with self._lock:
            self._fault, self._word = fault, word.encode()
            self._left, self._skipped = times, skipped

    def _next_fault(self, request: bytes) -> Fault | None:
        with self._lock:
            # A statement that is prepared has only a name.
            names = b"objects", b"continuations_"
            is_statement = any(name in request for name in names)
            self.statements += request[:1] in b"PBQ" and is_statement
            if not self._left or self._word not in request:
                return None
            if self._skipped:
                self._skipped -= 1
                return None
            self._left -= 1
            self.cut += 1
            return self._fault

    def serve(self, client: socket.socket) -> None:
        """Pass the bytes of a connection on, until it ends."""
        self.connections += 1
        with client, socket.create_connection(("127.0.0.1", self.server)) as server:
            drops, replied = threading.Event(), threading.Event()
            back = (server, client, drops, replied)
            threading.Thread(target=_pass_back, args=back, daemon=True).start()
            with suppress(OSError):
                while request := _receive_request(client):
                    time.sleep(self.delay)
                    fault = self._next_fault(request)
                    if fault == "refused":
                        return
                    if fault == "half":
                        server.sendall(request[: len(request) // 2])
                        return
                    if fault is not None:
                        drops.set()
                    if fault == "first transaction":
                        first, sync, _ = request.partition(_SYNC)
                        request = first + sync
                    server.sendall(request)
                    if fault in {"first transaction", "lost reply"}:
                        replied.wait(20)
                        return


def _receive_request(client: socket.socket) -> bytes:
    request = client.recv(_SIZE)
    while len(request) < _SIZE:
        ready, _, _ = select.select([client], [], [], _SECONDS_BETWEEN_PARTS)
        part = client.recv(_SIZE) if request and ready else b""
        if not part:
            break
        request += part
    return request


def _pass_back(
    server: socket.socket,
    client: socket.socket,
    drops: threading.Event,
    replied: threading.Event,
) -> None:
    with suppress(OSError):
        while packet := server.recv(_SIZE):
            if drops.is_set():
                replied.set()
            else:
                client.sendall(packet)
    with suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)


@contextmanager
def run_proxy(server: int) -> Generator[CuttingProxy]:
    """Run a proxy before the port of a server."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        proxy = CuttingProxy(listener.getsockname()[1], server)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    threading.Thread(
                        target=proxy.serve, args=(client,), daemon=True
                    ).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield proxy
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
