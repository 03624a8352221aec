"""A server of the Model Context Protocol whose tools are the agents of a runner.

    server = mcp_server(runner, secret=SECRET, verify=verify)
    app = server.app()              # ASGI, for uvicorn
    await server.serve_stdio(by="kim")  # for a client on this machine

A call of a tool starts a run. A run that ends at once answers the call. A run that
waits is a task (`io.modelcontextprotocol/tasks`), whose open waits are `inputRequests`.
For clients without tasks, questions are asked in the reply to the call.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from continuations.interop import missing_package

try:
    import mcp_types as types
    from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
    from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
    from mcp.server.auth.provider import AccessToken
    from mcp.server.lowlevel.server import Server
    from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
    from mcp.server.stdio import stdio_server
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.shared.exceptions import MCPError
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS
except ImportError as error:
    raise missing_package("mcp", "'mcp>=2.3' starlette", error) from None

from starlette.requests import Request

from continuations import __version__
from continuations.errors import ContinuationsError, InvalidInput
from continuations.interop.mcp import tasks
from continuations.interop.mcp.tool_calls import CallOptions, Calls, random_run_id
from continuations.results import Door
from continuations.serve import option_checks
from continuations.serve.http.asgi import IDENTITY, Verified
from continuations.serve.http.links import Signer
from continuations.serve.lifespan import worker_loop
from continuations.serve.rights import Can, Rights

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Sequence

    from mcp.server.context import ServerRequestContext
    from starlette.applications import Starlette

    from continuations import AsyncRunner, Identity
    from continuations.serve.dispatch import Dispatcher
    from continuations.serve.http.api import Verifier

    Context: TypeAlias = ServerRequestContext[Any, Any]

_PURPOSE = "signing tasks of MCP"
# A client may come back with a question after this time; the run waits longer.
_STATE_SECONDS = 90 * 86_400.0
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class McpServer:
    """A server of MCP whose tools are the root agents of a runner.

    Each process that serves the same store needs the same `secret`. Then a client may
    send each request to another process.

    Args:
        runner: The runner. Its store keeps everything that counts.
        secret: At least 32 random bytes (`openssl rand -hex 32`). Keys for the ids of
            tasks and for `requestState` are derived from it.
        previous: The secret before the last rotation.
        name: The name of the server.
        verify: Returns the identity of an HTTP request, as for `HttpApi`. Without it,
            the ASGI application refuses every request.
        can: Returns whether an identity may do something with a run; see
            `continuations.serve.rights`. `None`: each identity may do everything.
        dispatcher: Resumes a run after a decision. `None`: the worker loop runs in
            this process while it serves.
        context: Your object for the tools, `ctx.context`. It is never stored.
        run_id: Returns the id of a new run, for an identity and the name of an agent.
            Default: a random id.
        task_required: Names of agents whose calls are always tasks. A client without
            the tasks extension gets the error -32021.
        ask_first: Names of agents whose first questions are asked in the reply to the
            call, also of clients with tasks.
        task_after: After this time, a call becomes a task, in seconds.
        call_limit: After this time, a client without tasks gets a text that names the
            run, in seconds.
        poll_interval: The pause that clients should make between two looks, in
            seconds.

    Raises:
        InvalidInput: An option is invalid.

    Attributes:
        sdk: The server of the package `mcp`, for example for middleware of your own.
    """

    sdk: Server[Any]

    def __init__(  # noqa: PLR0913 - what an application may choose, all by keyword
        self,
        runner: AsyncRunner,
        *,
        secret: bytes | str,
        previous: bytes | str | None = None,
        name: str = "continuations",
        verify: Verifier | None = None,
        can: Can | None = None,
        dispatcher: Dispatcher | None = None,
        context: Any = None,
        run_id: Callable[[str | Identity, str], str] | None = None,
        task_required: Collection[str] = (),
        ask_first: Collection[str] = (),
        task_after: float = 5.0,
        call_limit: float = 50.0,
        poll_interval: float = 2.0,
    ) -> None:
        _check_functions(runner, verify, run_id, dispatcher)
        _check_names(runner, {*task_required, *ask_first})
        option_checks.check_seconds("task_after", task_after, above_zero=False)
        option_checks.check_seconds("call_limit", call_limit, above_zero=False)
        option_checks.check_seconds("poll_interval", poll_interval, above_zero=True)
        self._verify = verify
        self._worker = None if dispatcher else runner
        self._local: str | Identity | None = None
        self._tasks = tasks.RunTasks(
            runner,
            rights=Rights(can),
            signer=Signer(secret, previous, purpose=_PURPOSE),
            dispatcher=dispatcher,
            poll_interval=poll_interval,
        )
        options = CallOptions(
            context=context,
            run_id=run_id or random_run_id,
            task_required=frozenset(task_required),
            ask_first=frozenset(ask_first),
            task_after=task_after,
            call_limit=call_limit,
        )
        self._context = context
        self._calls = Calls(runner, self._tasks, options)
        self.sdk = self._server(name, [each for each in (secret, previous) if each])

    def _server(self, name: str, secrets: Sequence[bytes | str]) -> Server[Any]:
        """Return the server of the SDK with our tools, methods and keys."""
        server: Server[Any] = Server(
            name,
            version=__version__,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            get_tool_input_schema=self._calls.schema_of,
            lifespan=self._lifespan,
        )
        server.extensions[tasks.EXTENSION] = {}
        server.add_request_handler("tasks/get", tasks.TaskParams, self._get)
        server.add_request_handler("tasks/update", tasks.UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", tasks.TaskParams, self._cancel)
        security = RequestStateSecurity(
            # The key of the SDK itself would not outlive this process.
            keys=[
                Signer(each, None, purpose=_PURPOSE).derive("sealing requestState")
                for each in secrets
            ],
            ttl=_STATE_SECONDS,
            bind_principal=lambda ctx: self._client(ctx).name,
        )
        boundary = RequestStateBoundary(security, default_audience=name)
        server.middleware.append(boundary)
        return server

    def __repr__(self) -> str:
        """Name the tools."""
        return f"<McpServer {', '.join(self._calls.names)}>"

    def app(
        self,
        *,
        path: str = "/mcp",
        hosts: Sequence[str] = (),
        keeps_sessions: bool = False,
    ) -> Starlette:
        """Return the ASGI application (Streamable HTTP).

        Args:
            path: The path of the endpoint.
            hosts: The public names of the server, such as `"mcp.example.com"`. A
                request for another host is refused; this machine's names are allowed.
            keeps_sessions: Whether clients of protocols before 2026-07-28 get a session
                in the memory of this process. Only in a session can the server send
                its questions to such a client.

        Returns:
            The application. Its lifespan runs the worker loop, unless the server has a
            dispatcher.
        """
        _check_hosts(hosts)
        names = [*hosts, *_LOCAL_HOSTS]
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[*hosts, *(f"{each}:*" for each in names)],
            allowed_origins=[
                *(f"https://{each}" for each in hosts),
                *(f"http://{each}:*" for each in _LOCAL_HOSTS),
            ],
        )
        made = self.sdk.streamable_http_app(
            streamable_http_path=path,
            stateless_http=not keeps_sessions,
            transport_security=security,
        )
        made.add_middleware(AuthContextMiddleware)
        made.add_middleware(
            Verified, verify=self._verify, option_of="mcp_server", user=_user
        )
        return made

    async def serve_stdio(self, *, by: str | Identity) -> None:
        """Serve one client over the standard streams of this process.

        Args:
            by: The person at this machine: the requester of runs, and the decider.
        """
        self._local = by
        async with stdio_server() as (reading, writing):
            options = self.sdk.create_initialization_options()
            await self.sdk.run(reading, writing, options)

    @asynccontextmanager
    async def _lifespan(self, _: Server[Any]) -> AsyncGenerator[dict[str, Any]]:
        async with AsyncExitStack() as stack:
            if self._worker is not None:
                loop = worker_loop(self._worker, context=self._context)
                await stack.enter_async_context(loop)
            stack.push_async_callback(self._calls.stop)
            yield {}

    # Requests -----------------------------------------------------------------------

    async def _list_tools(self, _ctx: Context, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=self._calls.listed, ttl_ms=0, cache_scope="private"
        )

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> Any:
        client = self._client(ctx)
        try:
            return await self._calls.call(client, ctx, params)
        except ContinuationsError as error:
            raise tasks.error_of(error, "tools/call") from None

    async def _get(self, ctx: Context, params: tasks.TaskParams) -> dict[str, Any]:
        return await self._of_task(ctx, params, self._tasks.get)

    async def _update(self, ctx: Context, params: tasks.UpdateParams) -> dict[str, Any]:
        return await self._of_task(ctx, params, self._tasks.update)

    async def _cancel(self, ctx: Context, params: tasks.TaskParams) -> dict[str, Any]:
        return await self._of_task(ctx, params, self._tasks.cancel)

    async def _of_task(self, ctx: Context, params: Any, handler: Any) -> dict[str, Any]:
        client = self._client(ctx)
        if not client.has_tasks:
            raise tasks.tasks_missing()
        _check_route(ctx, params.task_id)
        try:
            answer: dict[str, Any] = await handler(client, params)
        except ContinuationsError as error:
            raise tasks.error_of(error, ctx.method) from None
        return answer

    def _client(self, ctx: Context) -> tasks.Client:
        """Return who sends a request, and what the client declared in it."""
        identity, authentication = self._local, None
        request = _http_request(ctx)
        if request is not None:
            identity, authentication = request.scope.get(IDENTITY), "verifier"
        if identity is None:
            msg = "The request has no identity. Serve it with app() or serve_stdio()."
            raise MCPError(types.INTERNAL_ERROR, msg)
        declared = ctx.session.client_capabilities
        extensions = declared.extensions if declared else None
        elicitation = declared.elicitation if declared else None
        return tasks.Client(
            identity=identity,
            door=Door("mcp", authentication),
            has_tasks=ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            and tasks.EXTENSION in (extensions or {}),
            has_forms=elicitation is not None
            and (elicitation.form is not None or elicitation.url is None),
        )


def _user(name: str) -> AuthenticatedUser:
    """Return the user of the SDK: a session belongs to the one that opened it."""
    token = AccessToken(token="-", client_id=name, scopes=[])  # noqa: S106 - not a secret
    return AuthenticatedUser(token)


def _http_request(ctx: Context) -> Request | None:
    """Return the HTTP request of a message, or `None` over standard streams."""
    request: Any = ctx.request
    return cast("Request", request) if isinstance(request, Request) else None


def _check_route(ctx: Context, task_id: str) -> None:
    """Refuse a request whose header names another task than its body."""
    request = _http_request(ctx)
    if request is not None:
        routed = request.headers.get("mcp-name", task_id)
        if routed.strip() != task_id:
            msg = "The header Mcp-Name must be the taskId of the body. Send it again."
            raise MCPError(types.HEADER_MISMATCH, msg)


def _check_functions(
    runner: object, verify: object, run_id: object, dispatcher: object
) -> None:
    option_checks.check_async_runner(runner)
    option_checks.check_callable("verify", verify, "a function that takes a Request")
    option_checks.check_callable(
        "run_id", run_id, "a function of an identity and an agent's name"
    )
    if dispatcher is not None:
        option_checks.check_dispatcher("dispatcher", dispatcher)


def _check_hosts(hosts: object) -> None:
    names = cast("Sequence[object]", hosts) if isinstance(hosts, list | tuple) else None
    if names is None or not all(
        isinstance(each, str) and each and "/" not in each for each in names
    ):
        raise InvalidInput(
            "hosts must be a list of names such as ['mcp.example.com'], got "
            f"{hosts!r:.100}. Pass names without a scheme."
        )


def _check_names(runner: AsyncRunner, names: Collection[str]) -> None:
    known = {agent.name for agent in runner.root_agents}
    unknown = {*names} - known
    if unknown:
        raise InvalidInput(
            f"task_required and ask_first must name root agents, got {min(unknown)!r}. "
            f"The root agents are: {', '.join(sorted(known))}."
        )


mcp_server = McpServer
