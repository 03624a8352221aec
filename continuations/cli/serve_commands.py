"""The commands that keep running: serve, the worker loop; ui, the web console; mcp.

The worker loop runs alone or beside the HTTP API. uvicorn serves both commands.
"""

from __future__ import annotations

import asyncio
import getpass
import hashlib
import json as json_format
import logging
import socket
import sys
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from os import environ
from typing import TYPE_CHECKING, Annotated, Any

import typer

from continuations.cli.command import Command, as_command, load_context, load_option
from continuations.cli.options import Limits, Positive, UsageError
from continuations.engine.sweep.stop_signals import stop_signals_handled
from continuations.errors import StoreUnavailable
from continuations.ledger.objects import check_folder_exists
from continuations.serve.lifespan import worker_lifespan

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractAsyncContextManager

    import uvicorn
    from starlette.applications import Starlette

    from continuations import AsyncRunner, Runner


_log = logging.getLogger("continuations")
_DEFAULT_HOST = "127.0.0.1"
# The packages of the extras `web` and `console`, as they are imported.
_EXTRA = {"jwt", "jinja2", "sse_starlette", "starlette", "uvicorn"}
# The fields of the line about the work on a run; see `engine.worker`.
_WORK_FIELDS = ("run_id", "version_from", "version_to", "outcome", "seconds")


@as_command
def serve(
    command: Command,
    *,
    interval: float = 10.0,
    max_concurrent_runs: Positive = 8,
    http: str | None = None,
    verify: str | None = None,
    links: str | None = None,
    context: str | None = None,
    json: bool = False,
) -> None:
    """Resume due runs until SIGTERM or Ctrl-C.

    After the first signal nothing new begins. Calls in progress are completed, their
    runs are suspended, and the exit code is 0. A second signal stops the process at
    once. If a file: store has no folder, a warning says so: the first run makes it.

    Arguments and options:
        interval (SECONDS): Longest time between two checks.
        max_concurrent_runs (N): Runs at the same time.
        http ([HOST:]PORT): Serve the HTTP API too. Needs `pip install starlette
            uvicorn`. The default host is 127.0.0.1.
        verify (MODULE:NAME): With --http: the function that identifies a request.
        links (MODULE:NAME): With --http: your Links, for signed links.
        json: Write each line of the log as JSON.
    """
    runner = command.runner("needed", may_be_first=True)
    options: dict[str, Any] = {
        "interval": interval,
        "max_concurrent_runs": max_concurrent_runs,
        "context": load_context(context),
    }
    server = None
    if http is not None:
        server = _make_server(runner, parse_address(http), verify, links, options)
    elif verify is not None or links is not None:
        raise UsageError("--verify and --links need --http. Add it, or leave them out.")
    _log_to_stderr(runner, as_json=json)
    if server is None:
        runner.serve_forever(**options)
    else:
        run_server(server)


def _make_server(
    runner: Runner,
    address: tuple[str, int],
    verify: str | None,
    links: str | None,
    options: dict[str, Any],
) -> uvicorn.Server:
    with _needs("--http", "starlette", "uvicorn"):
        import_module("uvicorn")

        # Imported here: only --http needs them.
        from continuations.serve.http import asgi  # noqa: PLC0415
    from continuations.serve.http.api import HttpApi  # noqa: PLC0415

    api = HttpApi(
        runner.async_runner,
        verify=load_option("--verify", verify),
        links=load_option("--links", links),
    )
    lifespan = worker_lifespan(runner.async_runner, **options)
    return make_server(asgi.app(api, lifespan=lifespan), *address)


@contextmanager
def _needs(what: str, *packages: str) -> Generator[None]:
    """Raise `UsageError` if a package of an extra is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        raise UsageError(
            f"{what} needs the package {missing}, which is not installed. Run: "
            f"pip install {' '.join(packages)}"
        ) from error


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and the port of `--http`; raise `UsageError`."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port[:9]) > 65_535:  # noqa: PLR2004 - the highest port
        raise UsageError(
            f"--http must be PORT or HOST:PORT, got {text!r}. Pass for example 8000."
        )
    return host or _DEFAULT_HOST, int(port)


class _JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record with its time, level and text."""
        line: dict[str, Any] = {
            "at": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "text": record.getMessage(),
        }
        fields = vars(record)
        line.update((name, fields[name]) for name in _WORK_FIELDS if name in fields)
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json_format.dumps(line)


def _log_to_stderr(runner: Runner, *, as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(_JsonFormatter() if as_json else plain)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        check_folder_exists(runner.store)
    except StoreUnavailable as error:
        _log.warning("%s", error)


_LOOPBACK_NAMES = {"localhost": "127.0.0.1"}


@partial(as_command, common=("app", "store"))
def ui(
    command: Command,
    *,
    port: Annotated[int, Limits(0, 65_535)] = 8642,
    host: str = "127.0.0.1",
    verify: str | None = None,
    can: str | None = None,
    work: bool = True,
    by: str | None = None,
    context: str | None = None,
) -> None:
    """Open the web console on this machine: see what waits, decide, look into runs.

    Prints an address with a token that works once. Decisions are recorded as
    local:NAME. With --app the runs go on in this process. With --store alone they go on
    where their workers are. The first run makes the folder of a file: store, and this
    command needs it. Ctrl-C ends the command.

    Arguments and options:
        port: The port. 0: any free port.
        host (ADDRESS): The address to listen on. Another one than 127.0.0.1 needs
            --verify.
        verify (MODULE:NAME): The function that identifies a request, instead of the
            token.
        can (MODULE:NAME): The function can(identity, act, run) that tells what an
            identity may do.
        work: With --app: resume due runs in this process too.
    """
    address = _address(host, verify)
    console = _console_module()
    runner = command.runner("if given")
    identity = load_option("--verify", verify)
    terminal = _Terminal()
    sign_in_path = "/"
    if identity is None:
        identity = console.local(by, on_sign_out=terminal.show)
        sign_in_path = identity.sign_in_path
    application = console.app(
        runner.async_runner,
        verify=identity,
        can=load_option("--can", can),
        lifespan=(
            worker_lifespan(runner.async_runner, context=load_context(context))
            if work and command.app is not None
            else _no_worker
        ),
    )
    _serve(application, address, port, terminal, sign_in_path)


class _Terminal:
    """Shows the address of the console, again after a sign-out."""

    url = ""

    def show(self, path: str) -> None:
        with suppress(OSError):  # no terminal is left
            typer.echo(f"{self.url}{path}")


def _no_worker(_application: object) -> AbstractAsyncContextManager[None]:
    return nullcontext()


def _serve(
    application: Any, address: str, port: int, terminal: _Terminal, sign_in_path: str
) -> None:
    with _bound(address, port) as bound:
        real_port = bound.getsockname()[1]
        shown = f"[{address}]" if ":" in address else address
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
        terminal.url = f"http://{shown}:{real_port}"
        terminal.show(sign_in_path)
        server = make_server(application, address, real_port)
        live = application.state.live
        run_server(server, sockets=[bound], on_stop=live.close)


def _console_module() -> Any:
    """Return the module that only the extra `console` makes usable."""
    with _needs("ui", "starlette", "sse-starlette", "'pyjwt[crypto]'", "uvicorn"):
        import_module("uvicorn")

        from continuations.serve import console  # noqa: PLC0415 - only ui needs it

        import_module("continuations.serve.console.console_app")
    return console


def _address(host: str, verify: str | None) -> str:
    """Return the IP address to listen on; without a verifier only that of loopback."""
    try:
        address = ip_address(_LOOPBACK_NAMES.get(host, host))
    except ValueError:
        raise UsageError(
            f"--host must be an IP address, got {host!r}. Pass for example 127.0.0.1."
        ) from None
    if verify is None and not address.is_loopback:
        raise UsageError(
            f"--host {host} is open to other machines, and a token in an address does "
            "not protect that. Pass --verify MODULE:NAME, or leave --host out."
        )
    return str(address)


def _bound(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family)
    except OSError as error:
        raise UsageError(
            f"--port {port} of {address} cannot be used: {error.strerror}. Pass "
            "another one, or --port 0 for any free one."
        ) from error


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


def run_server(
    server: uvicorn.Server,
    *,
    sockets: list[socket.socket] | None = None,
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


# mcp ------------------------------------------------------------------------------

_VARIABLE = "CONTINUATIONS_SECRET"


@as_command
def mcp(
    command: Command,
    *,
    http: str | None = None,
    public_host: list[str] | None = None,
    verify: str | None = None,
    can: str | None = None,
    by: str | None = None,
    context: str | None = None,
) -> None:
    """Serve the agents as tools of the Model Context Protocol, for other programs.

    Without --http, one client uses the standard streams of this process. Decisions are
    recorded as local:NAME. Runs go on in this process while it serves. The variable
    CONTINUATIONS_SECRET has the secret that signs ids; --http needs it.

    Arguments and options:
        http ([HOST:]PORT): Serve HTTP at /mcp instead. Needs --verify.
        public_host (NAME): With --http: the name under which clients reach the
            server. Other names than this machine's are refused. Repeat it for more.
        verify (MODULE:NAME): With --http: the function that identifies a request.
        can (MODULE:NAME): The function can(identity, act, run) that tells what an
            identity may do.
    """
    if (http is None) != (verify is None):
        raise UsageError(
            "--http and --verify belong together. Pass both, or leave both out."
        )
    runner = command.runner("needed", may_be_first=True).async_runner
    server = _mcp_server()(
        runner,
        secret=_secret(runner, http),
        verify=load_option("--verify", verify),
        can=load_option("--can", can),
        context=load_context(context),
    )
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    if http is None:
        name = by or f"local:{getpass.getuser()}"
        asyncio.run(server.serve_stdio(by=name))
        return
    host, port = parse_address(http)
    run_server(make_server(server.app(hosts=public_host or []), host, port))


def _mcp_server() -> Any:
    try:
        from continuations.interop.mcp import mcp_server  # noqa: PLC0415 - only this command needs it
    except ImportError as error:
        raise UsageError(str(error)) from error
    return mcp_server


def _secret(runner: AsyncRunner, http: str | None) -> str | bytes:
    secret = environ.get(_VARIABLE)
    if secret is not None:
        return secret
    if http is not None:
        raise UsageError(
            f"{_VARIABLE} is missing: it signs the ids that clients keep. Set it to "
            "the output of `openssl rand -hex 32`."
        )
    # The client is a program of this user, who can read the store. The ids need to be
    # the same in the next process, and protect nothing here.
    return hashlib.sha256(f"local: {runner.store!r}".encode()).digest()
