"""The command mcp: the agents of an application as tools of an MCP server."""

from __future__ import annotations

import asyncio
import getpass
import hashlib
import logging
import sys
from os import environ
from typing import TYPE_CHECKING, Any

from continuations.cli.application import load_context, load_option
from continuations.cli.command import Command, as_command
from continuations.cli.options import UsageError
from continuations.cli.serve_commands import make_server, parse_address, run_server

if TYPE_CHECKING:
    from continuations import AsyncRunner

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
