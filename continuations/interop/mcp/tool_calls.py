"""The calls of tools: each starts a run, works on it, and answers.

The work of a call is a task of its own. A client that leaves does not end it, and what
a process leaves undone is continued by a sweep.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets as random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from continuations.errors import NotFinished, RunBusy, StaleRun
from continuations.interop.mcp import forms, tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from mcp.server.context import ServerRequestContext

    from continuations import Agent, AsyncRunner, Continuation, Identity
    from continuations.interop.mcp.tasks import Client, RunTasks

    Context = ServerRequestContext[Any, Any]

_log = logging.getLogger("continuations")


class CallOptions(NamedTuple):
    """The options of `McpServer` for calls of tools."""

    context: Any
    run_id: Callable[[str | Identity, str], str]
    task_required: frozenset[str]
    ask_first: frozenset[str]
    task_after: float
    call_limit: float


class Calls:
    """The calls of tools: each starts a run, works on it, and answers."""

    def __init__(
        self, runner: AsyncRunner, run_tasks: RunTasks, options: CallOptions
    ) -> None:
        self._runner = runner
        self._tasks = run_tasks
        self._options = options
        self._agents = {agent.name: agent for agent in runner.root_agents}
        self._tools = {name: each.as_tool() for name, each in self._agents.items()}
        # The work of this process; the store keeps everything that counts.
        self._work: set[asyncio.Task[None]] = set()
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
        if params.name in self._options.task_required and not client.has_tasks:
            raise tasks.tasks_missing()
        if params.request_state is not None:
            run_id = params.request_state
            raw = (ctx.params or {}).get("inputResponses")
            responses = forms.as_object(raw) or {}
            with suppress(MCPError):  # a refused answer leaves its question open
                await self._tasks.answer(client, run_id, responses)
            work = self._begin(self._resume(run_id))
            await self._wait(client, work)
        else:
            try:
                run_input = self._input(agent, params.arguments or {})
                run_id = self._options.run_id(client.identity, agent.name)
                if not await self._tasks.may(client, "message", run_id):
                    raise tasks.forbidden("message")
                work = self._begin(self._start(agent, run_input, run_id, client))
                await self._wait(client, work)
                await self._stored(work, run_id)
            except ValueError as error:  # the arguments do not fit, or the input
                return tasks.text_result(str(error), is_error=True)
        return await self._reply(client, ctx, params.name, run_id)

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

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work in a task of its own: a client that leaves does not end it."""
        task = asyncio.get_running_loop().create_task(work)
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
            context=self._options.context,
            should_pause=lambda: self._is_stopping,
            trace_context=_trace_context(),
        )

    async def _resume(self, run_id: str) -> None:
        loop = asyncio.get_running_loop()
        end, pause = loop.time() + self._options.call_limit, 0.05
        while True:
            try:
                await self._runner.resume(
                    run_id,
                    context=self._options.context,
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

    async def _wait(self, client: Client, work: asyncio.Task[None]) -> None:
        """Wait for the end of the work, as long as a client waits for a reply."""
        options = self._options
        limit = options.task_after if client.has_tasks else options.call_limit
        await asyncio.wait({work}, timeout=limit)

    async def _stored(self, work: asyncio.Task[None], run_id: str) -> None:
        """Wait until the run can be read, or raise why it was not stored."""
        pause = 0.05
        while await self._tasks.look(run_id) is None:
            if work.done():
                await work
                msg = f"run {run_id} was not stored. Call the tool again."
                raise NotFinished(msg, run_id=run_id)
            await asyncio.wait({work}, timeout=pause)
            pause = min(2 * pause, 1.0)

    # Replies --------------------------------------------------------------------------

    async def _reply(self, client: Client, ctx: Context, name: str, run_id: str) -> Any:
        while True:
            run = await self._tasks.look(run_id)
            if run is None:
                raise tasks.unknown_task()
            if not await self._tasks.may(client, "view", run_id):
                return tasks.text_result(f"Run {run_id} is recorded.")
            asks_here = not client.has_tasks or name in self._options.ask_first
            if run.waits and asks_here:
                questions = await self._tasks.questions(client, run)
                if questions and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    return {
                        "resultType": "input_required",
                        "inputRequests": questions,
                        "requestState": run_id,
                    }
                if questions and await self._elicit(client, ctx, run_id, questions):
                    await self._wait(client, self._begin(self._resume(run_id)))
                    continue
            return await self._end(client, name, run)

    async def _end(self, client: Client, name: str, run: Continuation) -> Any:
        """Return the reply to a call whose run ended, or goes on without the call."""
        has_ended = run.run_state.run.has_ended
        if name in self._options.task_required or (client.has_tasks and not has_ended):
            return {"resultType": "task", **await self._tasks.head(run)}
        if not has_ended:
            return tasks.text_result(
                f"Run {run.run_id} {tasks.waiting_text(run)}. It has no output yet. It "
                "goes on when that is over, or a person has decided. Do not call the "
                "tool again for the same work."
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


def random_run_id(_identity: str | Identity, _agent: str) -> str:
    """Return a new id that cannot be guessed."""
    return f"mcp-{random.token_hex(12)}"


def _trace_context() -> dict[str, str]:
    """Return the trace of the request, which the SDK reads from its `_meta`."""
    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers


def _retrieve_error(task: asyncio.Task[None]) -> None:
    """Log why the work on a run ended; a sweep continues the run."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.warning("the work on a run of an MCP call ended: %s", error)
