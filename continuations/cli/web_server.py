"""A web server that the command line starts and stops: uvicorn on one address."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import typer

from continuations.engine.stop_signals import stop_signals_handled

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    import uvicorn
    from starlette.applications import Starlette


def make_server(application: Starlette, host: str, port: int) -> uvicorn.Server:
    """Return a server of an application; it has bound no address yet.

    Raises:
        ModuleNotFoundError: uvicorn is not installed.
    """
    import uvicorn  # noqa: PLC0415 - few commands serve

    class Server(uvicorn.Server):
        """A server whose signals the command handles."""

        def capture_signals(self) -> Any:
            return nullcontext()

    return Server(
        uvicorn.Config(
            application,
            host=host,
            port=port,
            lifespan="on",
            log_config=None,
            # Its lines would show the tokens of signed links and callbacks.
            access_log=False,
            # The address of the peer is that of the connection, not one from a header.
            proxy_headers=False,
        )
    )


def run(
    server: uvicorn.Server,
    *,
    sockets: list[socket] | None = None,
    on_stop: Callable[[], None] | None = None,
) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Args:
        server: The server.
        sockets: Sockets that are bound already; by default the server binds its own.
        on_stop: Called at the first signal, for responses that would not end.
    """

    def stop(_: object) -> None:
        server.should_exit = True
        if on_stop is not None:
            on_stop()

    with stop_signals_handled(stop):
        asyncio.run(server.serve(sockets))
    if not server.started:
        # uvicorn has logged why.
        raise typer.Exit(1)
