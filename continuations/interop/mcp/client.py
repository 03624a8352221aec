"""Tools of MCP servers as tools of agents.

    agent = Agent("clerk", tools=[McpTools("https://bank.example/mcp", approval=True)])

A worker lists the tools before it works on a run (`ToolSource`). The package `mcp` is
loaded then: an application that only decides does not load it.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from continuations.errors import InvalidInput
from continuations.interop import missing_package

if TYPE_CHECKING:
    from datetime import timedelta

    import httpx2

    from continuations import ApprovalPolicy
    from continuations.interop.mcp.client_connections import Connections
    from continuations.tools import SchemaToolOptions, Tool

    Auth: TypeAlias = httpx2.Auth | Callable[[], httpx2.Auth | Awaitable[httpx2.Auth]]

if find_spec("mcp") is None:
    _missing = ImportError("there is no package mcp", name="mcp")
    raise missing_package("mcp", "'mcp>=2.3'", _missing)

Texts: TypeAlias = (
    "Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]"
)


class McpTools:
    """The tools of an MCP server, for `Agent(tools=[...])`.

    Each worker lists the tools once before it works on a run. All runs of an event loop
    share one connection, which closes when no call has used it for a minute.

    - An approval is bound to the schema and the description of its tool: if the server
      changes one of them while a call waits, a person is asked again.
    - `readOnlyHint` and `idempotentHint` of the server are `read_only` and
      `idempotent`. Without them, a call whose reply is lost has an unknown outcome.
    - A tool that answers with a task makes the call wait. The id of the task is stored,
      and a sweep asks the server for its state. No process runs meanwhile.
    - A question of the server becomes a wait of the kind `question` for a person.
    - A cancelled call whose task runs cancels the task (`tasks/cancel`).

    Nothing of `headers`, `auth` and `env` is stored, logged or shown.

    Args:
        server: A URL (`https://...`), a command or a function. A command speaks MCP
            over its standard streams; pass a text as in a shell, or a list of words. A
            function, plain or async, returns what `mcp.Client` takes, for example a
            transport.
        name: The name of the server in errors and questions. Default: its host, or the
            name of the command.
        prefix: A text before the name of each tool, such as `"bank_"`.
        include: The names of the tools to use, as the server lists them. Default: all.
            A name that it does not list raises `ToolsUnavailable`.
        approval: Which calls wait for a person, as in `tool`, for all tools.
        timeout: How long one request of a call may take: a timedelta, or seconds.
            `None`: no limit. Default: 60 seconds.
        tool_options: Options of `Tool.from_schema` by the name of a tool, as the server
            lists it. They go before everything that the server says. A name that the
            server does not list raises `ToolsUnavailable`.
        headers: HTTP headers, or a function that returns them. It is called for each
            request, and never for a request to another host.
        auth: An `httpx2.Auth`, such as `mcp.client.auth.OAuthClientProvider`, or a
            function that returns one for a new connection.
        env: Variables for the environment of a command, or a function that returns
            them. The command inherits few others, such as `PATH`.

    Raises:
        InvalidInput: An option is invalid.
    """

    def __init__(  # noqa: PLR0913 - options by keyword
        self,
        server: str | Sequence[str] | Callable[[], Any],
        *,
        name: str | None = None,
        prefix: str = "",
        include: Sequence[str] | None = None,
        approval: bool | Callable[..., object] | ApprovalPolicy | None = None,
        timeout: timedelta | float | None = 60.0,
        tool_options: Mapping[str, SchemaToolOptions] | None = None,
        headers: Texts | None = None,
        auth: Auth | None = None,
        env: Texts | None = None,
    ) -> None:
        self._server, own_name = _checked_server(server)
        self._name = own_name if name is None else _checked_name("name", name)
        is_url = isinstance(self._server, str)
        is_command = isinstance(self._server, list)
        _check_fits("headers", headers, "a URL", fits=is_url)
        _check_fits("auth", auth, "a URL", fits=is_url)
        _check_fits("env", env, "a command", fits=is_command)
        _check_texts("headers", headers)
        _check_texts("env", env)
        self._prefix = _checked_name("prefix", prefix) if prefix else ""
        self._include = None if include is None else _checked_names(include)
        defaults = {"approval": approval, "timeout": timeout}
        self._defaults = cast("SchemaToolOptions", defaults)
        self._tool_options = _checked_options(self._defaults, tool_options)
        self._secrets = (headers, auth, env)
        self._connections: Connections | None = None

    def __repr__(self) -> str:
        return f"<McpTools {self._name}>"

    @property
    def name(self) -> str:
        """The name of the server in errors and questions."""
        return self._name

    async def list_tools(self) -> Sequence[Tool[..., Any]]:
        """Return the present tools of the server; a worker calls it.

        Returns:
            The tools in the order of the server.

        Raises:
            ToolsUnavailable: The server did not answer, or `tool_options` has a tool
                that it does not list.
        """
        from continuations.interop.mcp.client_calls import listed_tools  # noqa: PLC0415 - it loads the package mcp

        return await listed_tools(
            self._open_connections(),
            self._name,
            prefix=self._prefix,
            include=self._include,
            defaults=self._defaults,
            tool_options=self._tool_options,
        )

    async def aclose(self) -> None:
        """Close the connection of this event loop now; the next call opens one."""
        if self._connections is not None:
            await self._connections.aclose()

    def _open_connections(self) -> Connections:
        from continuations.interop.mcp import client_connections  # noqa: PLC0415 - it loads the package mcp

        if self._connections is None:
            headers, auth, env = self._secrets
            self._connections = client_connections.Connections(
                self._server, headers=headers, auth=auth, env=env
            )
        return self._connections


def _checked_server(server: Any) -> tuple[str | list[str] | Callable[[], Any], str]:
    """Return a URL, the words of a command or a function, and its name."""
    if isinstance(server, str) and "://" in server.partition(" ")[0]:
        return server, _checked_host(server)
    if callable(server) and not isinstance(server, type):
        return cast("Callable[[], Any]", server), "the server"
    words = _words(server)
    if not words or not all(isinstance(word, str) and word for word in words):
        raise InvalidInput(
            "McpTools: server must be a URL, a command or a function, got "
            f"{type(server).__name__}. Pass for example 'https://bank.example/mcp' or "
            "['python', 'bank.py']."
        )
    return cast("list[str]", [*words]), PurePath(str(words[0])).name


def _words(server: object) -> Sequence[object]:
    if isinstance(server, str):
        try:
            return shlex.split(server)
        except ValueError:  # a quote is not closed
            return []
    return (
        list(cast("Sequence[object]", server)) if isinstance(server, Sequence) else []
    )


def _checked_host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.scheme in ("http", "https") else None
        has_password = "@" in parts.netloc
    except ValueError:
        host, has_password = None, False
    if host is None:
        raise InvalidInput(
            "McpTools: server is not a valid URL. Pass a URL such as "
            "'https://bank.example/mcp', or a command."
        )
    if has_password:
        # Clients log URLs.
        raise InvalidInput(
            "McpTools: server has a user name or a password in its URL. Pass them with "
            "headers=, as a function that returns them."
        )
    return host


def _checked_name(label: str, name: object) -> str:
    if isinstance(name, str) and name.strip():
        return name
    msg = f"McpTools: {label} must be a str that is not empty, got {name!r}."
    raise InvalidInput(msg)


def _checked_names(include: object) -> frozenset[str]:
    if isinstance(include, Sequence) and not isinstance(include, str):
        names = cast("Sequence[object]", include)
        return frozenset(_checked_name("each name in include", each) for each in names)
    raise InvalidInput(
        "McpTools: include must be a list of names of tools, got "
        f"{type(include).__name__}. Pass for example ['balance']."
    )


def _check_fits(label: str, option: object, wanted: str, *, fits: bool) -> None:
    if option is not None and not fits:
        raise InvalidInput(
            f"McpTools: {label} is only for {wanted}. Leave it out, or set it in the "
            "transport that your function returns."
        )


def _check_texts(label: str, option: object) -> None:
    """Raise `InvalidInput` without the value, which may be a secret."""
    if option is None or callable(option):
        return
    fields = _as_mapping(option)
    if fields is None or not all(isinstance(each, str) for each in fields.values()):
        raise InvalidInput(
            f"McpTools: {label} must be a dict of texts, or a function that returns "
            f"one, got {type(option).__name__}."
        )


def _as_mapping(value: object) -> Mapping[str, object] | None:
    """Return a mapping whose keys are texts, or `None`."""
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[Any, object]", value)
    return fields if all(isinstance(key, str) for key in fields) else None


def _checked_options(
    defaults: SchemaToolOptions, tool_options: object
) -> dict[str, SchemaToolOptions]:
    """Return the options of tools, as far as they can be checked without the tools."""
    from continuations import ApprovalPolicy  # noqa: PLC0415 - beside its only use
    from continuations.tools import Tool  # noqa: PLC0415 - beside its only use

    by_name = _as_mapping({} if tool_options is None else tool_options)
    each = [_as_mapping(options) for options in (by_name or {}).values()]
    if by_name is None or None in each:
        raise InvalidInput(
            "McpTools: tool_options must be a dict of dicts by names of tools. Pass "
            "for example {'pay': {'approval': True}}."
        )
    for options in (None, *each):
        given: dict[str, object] = {**defaults, **(options or {})}
        ApprovalPolicy.from_option(cast("Any", given.pop("approval")))
        for arguments in ("readings", "summary"):
            given.pop(arguments, None)  # they are checked with the arguments
        given.setdefault("idempotent", True)  # as the server may say
        checked = cast("SchemaToolOptions", given)
        Tool.from_schema("of_any_server", {"type": "object"}, dict, **checked)
    return cast("dict[str, SchemaToolOptions]", dict(by_name))
