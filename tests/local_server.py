"""An HTTP server of this machine that can close all its connections."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SHUT_RDWR
from socketserver import TCPServer
from typing import Any


class LocalHandler(BaseHTTPRequestHandler):
    """Answers over one connection as often as the client likes, without delay."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet


class LocalServer(ThreadingHTTPServer):
    """A server on 127.0.0.1, with a thread for each connection.

    Attributes:
        closing: Set when the server ends, which also ends the delay of a reply.
        connections: The number of connections so far.
    """

    daemon_threads = True
    request_queue_size = 1024  # a hundred workers that start at once

    def __init__(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.closing = threading.Event()
        self.connections = 0
        self._open: set[Any] = set()
        self._none_open = threading.Condition()

    def server_bind(self) -> None:
        """Bind the port; the method of `HTTPServer` asks DNS for 127.0.0.1."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Note the connection."""
        with self._none_open:
            self._open.add(request)
            self.connections += 1
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget the connection."""
        super().shutdown_request(request)
        with self._none_open:
            self._open.discard(request)
            self._none_open.notify_all()

    def hang_up(self) -> None:
        """Close every connection and wait until its thread has ended."""
        self.closing.set()
        with self._none_open:
            for request in self._open:
                with suppress(OSError):
                    request.shutdown(SHUT_RDWR)
            self._none_open.wait_for(lambda: not self._open, timeout=5)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report each error, but not that a client closed its connection."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)
