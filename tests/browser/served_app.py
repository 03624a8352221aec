"""An application on a free port of this machine, for tests in a browser."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from continuations import AsyncRunner
from continuations.serve import console

if TYPE_CHECKING:
    from collections.abc import Generator

    from continuations.serve.http.request_response import Request


@contextmanager
def serve(app: Any) -> Generator[int]:
    """Serve an application, and yield its port."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, log_level="error", lifespan="off"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def served(app: Any) -> Generator[str]:
    """Serve an application, and yield its address."""
    with serve(app) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def serve_console(scene: Any, **options: Any) -> Generator[str]:
    """Serve the store of a scene to kim, without a worker; yield the address."""

    def verify(_: Request) -> str:
        return "kim"

    runner = AsyncRunner([], store=scene.store, clock=scene.clock)
    app = console.app(runner, verify=verify, clock=scene.clock, **options)
    with served(app) as address:
        yield address
