"""A server of the Model Context Protocol whose tools are the agents of a runner.

    server = mcp_server(runner, secret=SECRET, verify=verify)
    app = server.app()              # ASGI, for uvicorn
    await server.serve_stdio()      # for a client on this machine

A call of a tool starts a run. A run that ends at once answers the call. A run that
waits is a task (`io.modelcontextprotocol/tasks`), whose open waits are `inputRequests`.
For clients without tasks, questions are asked in the reply to the call.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets as random
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

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
    msg = "continuations.interop.mcp needs mcp. Run: pip install 'continuations[mcp]'"
    raise ImportError(msg) from error

from starlette.requests import Request
from starlette.responses import JSONResponse

from continuations import __version__
from continuations.errors import (
    ContinuationsError,
    InvalidInput,
    NotFinished,
    RunBusy,
    StaleRun,
)
from continuations.interop.mcp import tasks
from continuations.interop.mcp.tasks import (
    EXTENSION,
    Client,
    RunTasks,
    TaskParams,
    UpdateParams,
)
from continuations.results import Door
from continuations.serve.http.api import Verifier, identify
from continuations.serve.http.asgi import plain_request
from continuations.serve.http.links import Signer
from continuations.serve.lifespan import worker_loop
from continuations.serve.option_checks import (
    check_async_runner,
    check_callable,
    check_dispatcher,
    check_seconds,
)
from continuations.serve.rights import Can, Rights

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence

    from mcp.server.context import ServerRequestContext
    from starlette.applications import Starlette
    from starlette.types import ASGIApp, Receive, Scope, Send

    from continuations import Agent, AsyncRunner, Continuation, Identity
    from continuations.serve.dispatch import Dispatcher

    Context: TypeAlias = ServerRequestContext[Any, Any]

__all__ = ["McpServer", "mcp_server"]

_log = logging.getLogger("continuations")
_IDENTITY = "continuations.identity"
# A client may come back with a question after this time; the run waits longer.
_STATE_SECONDS = 90 * 86_400.0
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")


def mcp_server(  # noqa: PLR0913 - what an application may choose, all by keyword
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
) -> McpServer:
    """Make a server of MCP whose tools are the root agents of a runner.

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

    Returns:
        The server.

    Raises:
        InvalidInput: An option is invalid.
    """
    check_async_runner(runner)
    check_callable("verify", verify, "a function that takes a Request")
    check_callable("run_id", run_id, "a function of an identity and an agent's name")
    if dispatcher is not None:
        check_dispatcher("dispatcher", dispatcher)
    for option, seconds in (("task_after", task_after), ("call_limit", call_limit)):
        check_seconds(option, seconds, above_zero=False)
    check_seconds("poll_interval", poll_interval, above_zero=True)
    known = {agent.name for agent in runner.root_agents}
    unknown = {*task_required, *ask_first} - known
    if unknown:
        msg = (
            f"task_required and ask_first must name root agents, got {min(unknown)!r}. "
            f"The root agents are: {', '.join(sorted(known))}."
        )
        raise InvalidInput(msg)
    signer = Signer(secret, previous, purpose="signing tasks of MCP")
    run_tasks = RunTasks(
        runner,
        rights=Rights(can),
        signer=signer,
        dispatcher=dispatcher,
        poll_interval=poll_interval,
    )
    keys = [signer.derive("sealing the state of MCP requests")]
    if previous is not None:
        older = Signer(previous, None, purpose="signing tasks of MCP")
        keys.append(older.derive("sealing the state of MCP requests"))
    calls = _Calls(
        runner,
        run_tasks,
        context=context,
        new_run_id=run_id,
        task_required=frozenset(task_required),
        ask_first=frozenset(ask_first),
        task_after=task_after,
        call_limit=call_limit,
    )
    return McpServer(
        name, keys, calls, run_tasks, verify, None if dispatcher else runner
    )


class McpServer:
    """A server of MCP; made by `mcp_server`.

    Attributes:
        sdk: The server of the package `mcp`, for example for middleware of your own.
    """

    sdk: Server[Any]

    def __init__(  # noqa: PLR0913, PLR0917 - `mcp_server` makes the parts
        self,
        name: str,
        keys: Sequence[bytes],
        calls: _Calls,
        run_tasks: RunTasks,
        verify: Verifier | None,
        worker: AsyncRunner | None,
    ) -> None:
        self._calls = calls
        self._tasks = run_tasks
        self._verify = verify
        self._worker = worker
        self._local: str | Identity | None = None
        self.sdk = Server(
            name,
            version=__version__,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            get_tool_input_schema=calls.schema_of,
            lifespan=self._lifespan,
        )
        self.sdk.extensions[EXTENSION] = {}
        self.sdk.add_request_handler("tasks/get", TaskParams, self._get)
        self.sdk.add_request_handler("tasks/update", UpdateParams, self._update)
        self.sdk.add_request_handler("tasks/cancel", TaskParams, self._cancel)
        security = RequestStateSecurity(
            keys=keys,
            ttl=_STATE_SECONDS,
            bind_principal=lambda ctx: self._client(ctx).name,
        )
        boundary = RequestStateBoundary(security, default_audience=name)
        self.sdk.middleware.append(boundary)

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
        made.add_middleware(_Identified, verify=self._verify)
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
                loop = worker_loop(self._worker, context=self._calls.context)
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

    async def _get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        return await self._of_task(ctx, params, self._tasks.get)

    async def _update(self, ctx: Context, params: UpdateParams) -> dict[str, Any]:
        return await self._of_task(ctx, params, self._tasks.update)

    async def _cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        return await self._of_task(ctx, params, self._tasks.cancel)

    async def _of_task(self, ctx: Context, params: Any, handler: Any) -> dict[str, Any]:
        client = self._client(ctx)
        if not client.has_tasks:
            raise _tasks_missing()
        _check_route(ctx, params.task_id)
        try:
            answer: dict[str, Any] = await handler(client, params)
        except ContinuationsError as error:
            raise tasks.error_of(error, ctx.method) from None
        return answer

    def _client(self, ctx: Context) -> Client:
        """Return who sends a request, and what the client declared in it."""
        identity, authentication = self._local, None
        if isinstance(ctx.request, Request):
            identity, authentication = ctx.request.scope.get(_IDENTITY), "verifier"
        if identity is None:
            msg = "The request has no identity. Serve it with app() or serve_stdio()."
            raise MCPError(types.INTERNAL_ERROR, msg)
        declared = ctx.session.client_capabilities
        extensions = declared.extensions if declared else None
        elicitation = declared.elicitation if declared else None
        return Client(
            identity=identity,
            door=Door("mcp", authentication),
            has_tasks=ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            and EXTENSION in (extensions or {}),
            has_forms=elicitation is not None
            and (elicitation.form is not None or elicitation.url is None),
        )


class _Identified:
    """ASGI middleware: refuse a request without an identity with status 401."""

    def __init__(self, app: ASGIApp, verify: Verifier | None) -> None:
        self._app = app
        self._verify = verify

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = plain_request(Request(scope, receive), scope["path"], b"")
        identity = await identify(self._verify, request)
        if identity is None:
            detail = {"error": "The request has no valid identity."}
            headers = {"www-authenticate": "Bearer", "cache-control": "no-store"}
            response = JSONResponse(detail, 401, headers)
            await response(scope, receive, send)
            return
        scope[_IDENTITY] = identity
        name = identity if isinstance(identity, str) else identity.name
        # A session of the SDK belongs to the identity that opened it.
        token = AccessToken(token="-", client_id=name, scopes=[])  # noqa: S106 - not a secret
        scope["user"] = AuthenticatedUser(token)
        await self._app(scope, receive, send)


class _Calls:
    """The calls of tools: each starts a run, works on it, and answers."""

    def __init__(  # noqa: PLR0913 - as for `mcp_server`
        self,
        runner: AsyncRunner,
        run_tasks: RunTasks,
        *,
        context: Any,
        new_run_id: Callable[[str | Identity, str], str] | None,
        task_required: frozenset[str],
        ask_first: frozenset[str],
        task_after: float,
        call_limit: float,
    ) -> None:
        self.context = context
        self._runner = runner
        self._tasks = run_tasks
        self._new_run_id = new_run_id or _random_run_id
        self._task_required = task_required
        self._ask_first = ask_first
        self._task_after = task_after
        self._call_limit = call_limit
        self._agents = {agent.name: agent for agent in runner.root_agents}
        self._tools = {name: each.as_tool() for name, each in self._agents.items()}
        # The work of this process; the store keeps everything that counts.
        self._work: set[asyncio.Task[Any]] = set()
        self._is_stopping = False

    @property
    def names(self) -> Sequence[str]:
        """The names of the tools."""
        return [*self._agents]

    @property
    def listed(self) -> list[types.Tool]:
        """The tools, as a client reads them."""
        return [
            types.Tool(
                name=name,
                description=tool.description,
                input_schema={"type": "object", **tool.parameters},
            )
            for name, tool in self._tools.items()
        ]

    def schema_of(self, name: str) -> Mapping[str, Any] | None:
        """Return the schema of a tool's arguments."""
        tool = self._tools.get(name)
        return None if tool is None else tool.parameters

    async def call(
        self, client: Client, ctx: Context, params: types.CallToolRequestParams
    ) -> Any:
        """Answer a call: with the output of the run, a task, questions or a text."""
        agent = self._agents.get(params.name)
        if agent is None:
            msg = f"The tool {params.name!r} does not exist. List the tools."
            raise MCPError(types.INVALID_PARAMS, msg)
        if params.name in self._task_required and not client.has_tasks:
            raise _tasks_missing()
        if params.request_state is not None:
            run_id = params.request_state
            raw = (ctx.params or {}).get("inputResponses")
            responses: dict[str, Any] = raw if isinstance(raw, dict) else {}
            with suppress(MCPError):  # a refused answer leaves its question open
                await self._tasks.answer(client, run_id, responses)
            work = self._begin(self._resume(run_id))
        else:
            try:
                run_input = self._input(agent, params.arguments or {})
                run_id = self._new_run_id(client.identity, agent.name)
                if not await self._tasks.may(client, "message", run_id):
                    raise tasks.forbidden("message")
                work = self._begin(self._start(agent, run_input, run_id, client))
                await self._stored(work, run_id)
            except InvalidInput as error:
                return tasks.text_result(str(error), is_error=True)
            except ValueError as error:  # the arguments do not fit
                return tasks.text_result(str(error), is_error=True)
        return await self._reply(client, ctx, params.name, run_id, work)

    def _input(self, agent: Agent[Any], arguments: dict[str, Any]) -> Any:
        if agent.is_workflow:
            return arguments
        text = json.dumps(arguments, ensure_ascii=False)
        effective = self._tools[agent.name].effective_arguments(text)
        return agent.first_user_message(effective)

    # Work -----------------------------------------------------------------------------

    async def stop(self) -> None:
        """Let the work of this process come to a point where others continue it."""
        self._is_stopping = True
        if self._work:
            await asyncio.wait(self._work)

    def _begin(self, work: Any) -> asyncio.Task[Any]:
        """Work in a task of its own: a client that leaves does not end it."""
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        task.add_done_callback(_retrieve_error)
        return task

    async def _start(
        self, agent: Agent[Any], run_input: Any, run_id: str, client: Client
    ) -> None:
        await self._runner.start(
            run_input,
            run_id=run_id,
            agent=agent.name,
            by=client.identity,
            context=self.context,
            should_pause=lambda: self._is_stopping,
        )

    async def _resume(self, run_id: str) -> None:
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + self._call_limit, 0.05
        while True:
            try:
                await self._runner.resume(
                    run_id,
                    context=self.context,
                    should_pause=lambda: self._is_stopping,
                )
            except (RunBusy, StaleRun):
                # Another worker holds the run. The call waits for what it does.
                if self._is_stopping or loop.time() > end:
                    return
                await asyncio.sleep(pause)
                pause = min(2 * pause, 1.0)
            else:
                return

    async def _stored(self, work: asyncio.Task[Any], run_id: str) -> None:
        """Wait until the run can be read, or raise why it was not stored."""
        await asyncio.wait({work}, timeout=self._task_after)
        pause = 0.05
        while await self._tasks.look(run_id) is None:
            if work.done():
                await work
                msg = f"run {run_id} was not stored. Call the tool again."
                raise NotFinished(msg, run_id=run_id)
            await asyncio.wait({work}, timeout=pause)
            pause = min(2 * pause, 1.0)

    # Replies ----------------------------------------------------------------------------

    async def _reply(
        self,
        client: Client,
        ctx: Context,
        name: str,
        run_id: str,
        work: asyncio.Task[Any],
    ) -> Any:
        while True:
            limit = self._task_after if client.has_tasks else self._call_limit
            await asyncio.wait({work}, timeout=limit)
            run = await self._tasks.look(run_id)
            if run is None:
                raise tasks.unknown_task()
            if not await self._tasks.may(client, "view", run_id):
                return tasks.text_result(f"Run {run_id} is recorded.")
            asks_here = not client.has_tasks or name in self._ask_first
            if run.waits and asks_here:
                questions = await self._tasks.questions(client, run)
                if questions and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    return {
                        "resultType": "input_required",
                        "inputRequests": questions,
                        "requestState": run_id,
                    }
                if questions and await self._elicit(client, ctx, run_id, questions):
                    work = self._begin(self._resume(run_id))
                    continue
            return await self._end(client, name, run)

    async def _end(self, client: Client, name: str, run: Continuation) -> Any:
        """Return the reply to a call whose run ended, or goes on without the call."""
        has_ended = run.status in ("finished", "failed", "cancelled")
        if name in self._task_required or (client.has_tasks and not has_ended):
            return {"resultType": "task", **await self._tasks.head(run)}
        if not has_ended:
            return tasks.text_result(
                f"Run {run.run_id} {tasks.waiting_text(run)}. It has no output yet, and "
                "goes on by itself. Do not call the tool again for the same work."
            )
        error = tasks.runtime_error(run)
        if error is not None:
            raise error
        return await self._tasks.result(client, run)

    async def _elicit(
        self, client: Client, ctx: Context, run_id: str, questions: dict[str, Any]
    ) -> bool:
        """Ask a client of an older protocol; return whether a wait was decided."""
        if not ctx.session.can_send_request:
            return False
        responses: dict[str, Any] = {}
        for wait_id, question in questions.items():
            form = question["params"]
            with suppress(MCPError, ValueError):  # no answer, or not one of MCP
                answer = await ctx.session.elicit_form(
                    form["message"], form["requestedSchema"], ctx.request_id
                )
                responses[wait_id] = answer.model_dump()
        with suppress(MCPError):  # a refused answer leaves its question open
            return await self._tasks.answer(client, run_id, responses)
        return False


def _random_run_id(_identity: str | Identity, _agent: str) -> str:
    return f"mcp-{random.token_hex(12)}"


def _check_route(ctx: Context, task_id: str) -> None:
    """Refuse a request whose header names another task than its body."""
    if isinstance(ctx.request, Request):
        routed = ctx.request.headers.get("mcp-name", task_id)
        if routed.strip() != task_id:
            msg = "The header Mcp-Name must be the taskId of the body. Send it again."
            raise MCPError(types.HEADER_MISMATCH, msg)


def _tasks_missing() -> MCPError:
    """Return the error for a client that did not declare the tasks extension."""
    return MCPError(
        types.MISSING_REQUIRED_CLIENT_CAPABILITY,
        f"The client must declare the extension {EXTENSION} in this request.",
        {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
    )


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    """Log why the work on a run ended; a sweep continues the run."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning("the work on a run of an MCP call ended: %s", error)
