"""The command that keeps running: the worker loop, alone or beside the HTTP API."""

from __future__ import annotations

import json as json_format
import logging
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from continuations.cli import web_server
from continuations.cli.application import load_context, load_option, runner_with_agents
from continuations.cli.errors import UsageError
from continuations.cli.options import App, Context, StoreUrl
from continuations.errors import StoreUnavailable
from continuations.ledger.objects import check_folder_exists

if TYPE_CHECKING:
    import uvicorn

    from continuations import Runner

# typer reads the annotations when it runs.
# ruff: noqa: TC001

_log = logging.getLogger("continuations")
_DEFAULT_HOST = "127.0.0.1"
# The fields of the line about the work on a run; see `engine.worker`.
_WORK_FIELDS = ("run_id", "version_from", "version_to", "outcome", "seconds")


def serve(  # noqa: PLR0913 - one parameter for each option
    *,
    interval: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Longest time between two checks."),
    ] = 10.0,
    max_concurrent_runs: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Runs at the same time."),
    ] = 8,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Serve the HTTP API too. Needs `pip install starlette "
            "uvicorn`. The default host is 127.0.0.1.",
        ),
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="With --http: the function that identifies a request.",
        ),
    ] = None,
    links: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME", help="With --http: your Links, for signed links."
        ),
    ] = None,
    context: Context = None,
    json: Annotated[
        bool, typer.Option("--json", help="Write each line of the log as JSON.")
    ] = False,
    app: App = None,
    store: StoreUrl = None,
) -> None:
    """Resume due runs until SIGTERM or Ctrl-C.

    After the first signal nothing new begins. Calls in progress are completed, their
    runs are suspended, and the exit code is 0. A second signal stops the process at
    once. If a file: store has no folder, a warning says so: the first run makes it.
    """
    runner = runner_with_agents(app, store, command="serve", may_be_first=True)
    options: dict[str, Any] = {
        "interval": interval,
        "max_concurrent_runs": max_concurrent_runs,
        "context": load_context(context),
    }
    server = None
    if http is not None:
        server = _make_server(runner, _parse_address(http), verify, links, options)
    else:
        _refuse_http_options(verify, links)
    _log_to_stderr(runner, as_json=json)
    if server is None:
        runner.serve_forever(**options)
    else:
        web_server.run(server)


def _refuse_http_options(verify: str | None, links: str | None) -> None:
    if verify is not None or links is not None:
        msg = "--verify and --links need --http. Add it, or leave them out."
        raise UsageError(msg)


def _warn_of_missing_folder(runner: Runner) -> None:
    try:
        check_folder_exists(runner.store)
    except StoreUnavailable as error:
        _log.warning("%s", error)


def _make_server(
    runner: Runner,
    address: tuple[str, int],
    verify: str | None,
    links: str | None,
    options: dict[str, Any],
) -> uvicorn.Server:
    try:
        import_module("uvicorn")

        from continuations.serve.http import asgi  # noqa: PLC0415 - only --http needs it
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"uvicorn", "starlette"}:
            raise
        msg = (
            f"--http needs the package {error.name}, which is not installed. Run: "
            "pip install starlette uvicorn"
        )
        raise UsageError(msg) from error
    from continuations.serve.http.api import HttpApi  # noqa: PLC0415 - see above
    from continuations.serve.lifespan import worker_lifespan  # noqa: PLC0415 - see above

    api = HttpApi(
        runner.async_runner,
        verify=load_option("--verify", verify),
        links=load_option("--links", links),
    )

    lifespan = worker_lifespan(runner.async_runner, **options)
    return web_server.make_server(asgi.app(api, lifespan=lifespan), *address)


def _parse_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port[:9]) > 65_535:  # noqa: PLR2004 - the highest port
        msg = f"--http must be PORT or HOST:PORT, got {text!r}. Pass for example 8000."
        raise UsageError(msg)
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
    _warn_of_missing_folder(runner)
