"""Ports of this machine for the servers that tests start."""

from __future__ import annotations

import socket
import time


def free_port() -> int:
    """Return a port of 127.0.0.1 at which no server listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_port(port: int, seconds: float = 120) -> None:
    """Wait until a server listens at a port; raises `OSError` after some seconds.

    On a busy machine, a process needs a minute to begin.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return
