"""Connections to an MCP server: one for each event loop, held by a task of its own.

The transports of the package `mcp` must be left by the task that entered them, and
calls come from many tasks. So one task holds the connection. It leaves it when no call
has used it for a minute, when the server is gone, or when the event loop ends.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, cast

import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client import ClientExtension, ClientSession, ResultClaim
from mcp.client.streamable_http import streamable_http_client

from continuations import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Sequence

TASKS = "io.modelcontextprotocol/tasks"
_IDLE_SECONDS = 60.0
_MAX_PAGES = 100
# A reply may come as a stream that stays open; calls have limits of their own.
_TIMEOUT = httpx2.Timeout(30.0, read=None)
_INFO = types.Implementation(name="continuations", version=__version__)
# The last HTTP statuses of the replies to the requests of this task.
statuses: ContextVar[deque[int]] = ContextVar("statuses")
MAX_STATUSES = 100


class NotConnected(ConnectionError):
    """No connection could be opened, so nothing was sent."""


class TaskCreated(types.Result):
    """The result of a call that became a task of the server."""

    result_type: Literal["task"]
    task_id: str
    poll_interval_ms: int | None = None


class _Tasks(ClientExtension):
    """Declares tasks; the calls read their results themselves."""

    identifier = TASKS

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (
            ResultClaim(result_type="task", model=TaskCreated, resolve=_never_resolved),
        )


async def _never_resolved(*_: object) -> Any:
    """Fail: only `Client.call_tool` resolves a claim, and the calls use the session."""
    raise AssertionError("a task is read by its call, and not by the client")


async def _no_question(context: object, params: object) -> types.ErrorData:
    del context, params
    # In protocols before 2026-07-28 a question is part of an open connection, and
    # cannot wait for days.
    text = "Elicitation needs the protocol 2026-07-28: this client answers after days"
    return types.ErrorData(code=types.INVALID_REQUEST, message=text)


async def resolved(option: Any) -> Any:
    """Return an option; a function is called for it first."""
    made = option() if callable(option) else option
    return await made if inspect.isawaitable(made) else made


class Connection:
    """One connection, opened and closed by its own task.

    Attributes:
        is_listed: Whether the tools were listed over this connection.
        error: The error that ended it.
    """

    def __init__(self, make_server: Callable[[], Any]) -> None:
        self.is_listed = False
        self.error: BaseException | None = None
        self._users = 0
        self._timer: asyncio.TimerHandle | None = None
        self._leaves = asyncio.Event()
        self._is_retired = False
        self._statuses = deque[int](maxlen=MAX_STATUSES)
        self._opened: asyncio.Future[ClientSession] = (
            asyncio.get_running_loop().create_future()
        )
        self._task = asyncio.create_task(self._hold(make_server))

    async def _hold(self, make_server: Callable[[], Any]) -> None:
        statuses.set(self._statuses)
        try:
            client = Client(
                await resolved(make_server),
                client_info=_INFO,
                elicitation_callback=_no_question,
                extensions=[_Tasks()],
                cache=None,
            )
            async with client:
                self._opened.set_result(client.session)
                await self._leaves.wait()
        except BaseException as error:
            self.error = error
            if not isinstance(error, Exception):
                self._opened.cancel()
                raise
        finally:
            self._leaves.set()
            if not self._opened.done():
                self._opened.set_exception(self.error or ConnectionError())
                self._opened.exception()  # a caller may have given up

    @property
    def is_over(self) -> bool:
        """Whether no further call may use the connection."""
        return self._is_retired or self._leaves.is_set()

    def retire(self) -> None:
        """Let no further call use the connection; it closes after the present ones."""
        self._is_retired = True
        if not self._users:
            self._leaves.set()

    async def aclose(self) -> None:
        """Close the connection, and wait until it is closed."""
        self._leaves.set()
        with suppress(asyncio.CancelledError):
            await asyncio.wait([self._task])

    @asynccontextmanager
    async def session(self) -> AsyncGenerator[ClientSession]:
        """Use the connection; it does not become idle meanwhile."""
        self._users += 1
        if self._timer is not None:
            self._timer.cancel()
        try:
            yield await self._session()
        finally:
            self._users -= 1
            if not self._users:
                seconds = 0.0 if self._is_retired else _IDLE_SECONDS
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(seconds, self._leaves.set)

    async def _session(self) -> ClientSession:
        try:
            return await asyncio.shield(self._opened)
        except Exception as error:
            # The text of an error of a client may contain an address with a key.
            cause = type(_first_cause(error)).__name__
            if self._statuses and self._statuses[-1] >= HTTPStatus.BAD_REQUEST:
                cause = f"HTTP status {self._statuses[-1]}"
            msg = f"the connection could not be opened ({cause})"
            raise NotConnected(msg) from error

    async def list_tools(self, session: ClientSession) -> list[types.Tool]:
        """Return all tools of the server."""
        tools: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            page = await session.list_tools(params=params)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                self.is_listed = True
                return tools
        raise ValueError(f"more than {_MAX_PAGES} pages")


class Connections:
    """The connections to one server, one for each event loop.

    Args:
        server: A URL, the words of a command, or a function.
        headers: HTTP headers, or a function that returns them.
        auth: An `httpx2.Auth`, or a function that returns one.
        env: Variables for the command, or a function that returns them.
    """

    def __init__(self, server: object, *, headers: Any, auth: Any, env: Any) -> None:
        self._server = server
        self._headers = headers
        self._auth = auth
        self._env = env
        self._by_loop: dict[asyncio.AbstractEventLoop, Connection] = {}

    def current(self) -> Connection:
        """Return the connection of this event loop, perhaps one that opens now."""
        for loop in [each for each in self._by_loop if each.is_closed()]:
            self._by_loop.pop(loop, None)
        loop = asyncio.get_running_loop()
        found = self._by_loop.get(loop)
        if found is None or found.is_over:
            found = self._by_loop[loop] = Connection(self._make_server)
        return found

    async def aclose(self) -> None:
        """Close the connection of this event loop."""
        found = self._by_loop.pop(asyncio.get_running_loop(), None)
        if found is not None:
            await found.aclose()

    async def _make_server(self) -> Any:
        if isinstance(self._server, str):
            auth = cast("httpx2.Auth | None", await resolved(self._auth))
            return _over_http(self._server, self._headers, auth)
        server: Any = self._server
        if isinstance(server, list):
            command, *words = cast("list[str]", server)
            env = await resolved(self._env)
            variables = None if env is None else dict(env)
            return StdioServerParameters(command=command, args=words, env=variables)
        return await resolved(server)


@asynccontextmanager
async def _over_http(
    url: str, headers: Any, auth: httpx2.Auth | None
) -> AsyncGenerator[Any]:
    """Open a transport whose requests have the application's headers."""
    origin = _origin(httpx2.URL(url))

    async def add_headers(request: httpx2.Request) -> None:
        # The requests of an OAuth flow go elsewhere, and must not get them.
        if headers is not None and _origin(request.url) == origin:
            request.headers.update(await resolved(headers))

    async def note_status(response: httpx2.Response) -> None:
        statuses.get(deque[int]()).append(response.status_code)

    hooks: Any = {"request": [add_headers], "response": [note_status]}
    async with (
        httpx2.AsyncClient(auth=auth, timeout=_TIMEOUT, event_hooks=hooks) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


def _first_cause(error: BaseException) -> BaseException:
    """Return the first error of a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        error = group.exceptions[0]
    return error


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
