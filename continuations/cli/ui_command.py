"""The command that opens the web console on this machine."""

from __future__ import annotations

import logging
import socket
import sys
from contextlib import nullcontext
from importlib import import_module
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any

import typer

from continuations.cli import web_server
from continuations.cli.application import (
    load_context,
    load_option,
    runner_for_command,
)
from continuations.cli.errors import UsageError
from continuations.cli.options import App, By, Context, StoreUrl

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from continuations import Runner

# typer reads the annotations when it runs.
# ruff: noqa: TC001

_EXTRA = {"jwt", "jinja2", "sse_starlette", "starlette", "uvicorn"}
_LOOPBACK_NAMES = {"localhost": "127.0.0.1"}


def ui(  # noqa: PLR0913 - one parameter for each option
    *,
    port: Annotated[
        int,
        typer.Option(min=0, max=65_535, help="The port. 0: any free port."),
    ] = 8642,
    host: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="The address to listen on. Another one than 127.0.0.1 needs --verify.",
        ),
    ] = "127.0.0.1",
    verify: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="The function that identifies a request, instead of the token.",
        ),
    ] = None,
    can: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="The function can(identity, act, run) that tells what an identity may "
            "do.",
        ),
    ] = None,
    work: Annotated[
        bool, typer.Option(help="With --app: resume due runs in this process too.")
    ] = True,
    by: By = None,
    context: Context = None,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Open the web console on this machine: see what waits, decide, look into runs.

    Prints an address with a token that works once. Decisions are recorded as
    local:NAME. With --app the runs go on in this process. With --store alone they go on
    where their workers are. The first run makes the folder of a file: store, and this
    command needs it. Ctrl-C ends the command.
    """
    address = _address(host, verify)
    console = _console_module()
    runner = runner_for_command(app, store, command="ui")
    identity = load_option("--verify", verify)
    sign_in_path = "/"
    if identity is None:
        identity = console.local(by)
        sign_in_path = identity.sign_in_path
    application = console.app(
        runner.async_runner,
        verify=identity,
        can=load_option("--can", can),
        lifespan=_lifespan(runner, context, work=work and app is not None),
    )
    _serve(application, address, port, sign_in_path)


def _serve(application: Any, address: str, port: int, sign_in_path: str) -> None:
    with _bound(address, port) as bound:
        real_port = bound.getsockname()[1]
        shown = f"[{address}]" if ":" in address else address
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
        typer.echo(f"http://{shown}:{real_port}{sign_in_path}")
        server = web_server.make_server(application, address, real_port)
        live = application.state.live
        web_server.run(server, sockets=[bound], on_stop=live.close)


def _lifespan(runner: Runner, context: str | None, *, work: bool) -> Any:
    """Return the lifespan of the application, with a worker loop if it works too."""
    if not work:
        return _no_worker
    from continuations.serve.lifespan import worker_lifespan  # noqa: PLC0415 - see _console_module

    return worker_lifespan(runner.async_runner, context=load_context(context))


def _no_worker(_application: object) -> AbstractAsyncContextManager[None]:
    return nullcontext()


def _console_module() -> Any:
    """Return the module that only the extra `console` makes usable."""
    try:
        import_module("uvicorn")

        from continuations.serve import console  # noqa: PLC0415 - only ui needs it

        import_module("continuations.serve.console.console_app")
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _EXTRA:
            raise
        msg = (
            f"ui needs the package {package}, which is not installed. Run: pip "
            "install starlette sse-starlette 'pyjwt[crypto]' uvicorn"
        )
        raise UsageError(msg) from error
    return console


def _address(host: str, verify: str | None) -> str:
    """Return the IP address to listen on; without a verifier only that of loopback."""
    try:
        address = ip_address(_LOOPBACK_NAMES.get(host, host))
    except ValueError:
        msg = f"--host must be an IP address, got {host!r}. Pass for example 127.0.0.1."
        raise UsageError(msg) from None
    if verify is None and not address.is_loopback:
        msg = (
            f"--host {host} is open to other machines, and a token in an address does "
            "not protect that. Pass --verify MODULE:NAME, or leave --host out."
        )
        raise UsageError(msg)
    return str(address)


def _bound(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family)
    except OSError as error:
        msg = (
            f"--port {port} of {address} cannot be used: {error.strerror}. Pass "
            "another one, or --port 0 for any free one."
        )
        raise UsageError(msg) from error
