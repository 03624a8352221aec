"""A server for an ASGI application, in the event loop of a test."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn

from continuations.serve.http.api import Request
from tests.ports import wait_for_port


def verify(request: Request) -> str | None:
    """Return the person whom the header names."""
    return request.headers.get("x-user")


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to pytest."""
        yield


@asynccontextmanager
async def serve(application: Any) -> AsyncGenerator[str]:
    """Serve an application, and yield its address."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    config = uvicorn.Config(
        application,
        log_level="error",
        lifespan="off",
        timeout_graceful_shutdown=1,
        ws="none",
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.to_thread(wait_for_port, port)
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        await task
        listening.close()
