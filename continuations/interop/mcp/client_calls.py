"""Calls of the tools of an MCP server: results, tasks and questions.

A call is a chain of stages (`docs/waiting.md`, "Wait several times"). A stage sends one
request to the server and returns the result or a wait. The memo of the wait has what
the next stage needs, so any later process can make it:

| memo | the next stage |
|---|---|
| `task` | asks for the state of the task (`tasks/get`) |
| `task`, `asking` | sends the answer of a person (`tasks/update`), then asks |
| `arguments`, `asking` | repeats the call with the answers (`tools/call`) |
| `arguments` | repeats the call with the state |

A call that waits has these rules:

- A crash in a stage that only asks or updates repeats the stage. After a crash in a
  call, its outcome is unknown, unless the tool is repeatable.
- A cancelled call or run cancels the task on the server (`tasks/cancel`).
- A fork reads the same task, and does not cancel it: the other run needs it. A question
  is asked in both runs.
- A rewind to a time after the call goes on with the task. A rewind to an earlier time
  asks a person whether the call may run again. The task goes on at the server.
- A question has no deadline. A denial ends the call, and the server gets no message.
"""

from __future__ import annotations

import asyncio
import logging
import re
from base64 import b64decode
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast
from urllib.parse import urlsplit

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from continuations import Answer, Approve, Deny, ToolContext, sleep
from continuations.attachments import Audio, File, Image
from continuations.errors import EffectUnknown, InvalidInput, ToolsUnavailable
from continuations.interop.mcp import client_connections
from continuations.interop.mcp.forms import ask_person, response
from continuations.tools import SchemaToolOptions, Tool, ToolWait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from mcp.client import ClientSession
    from mcp.shared.dispatcher import ProgressFnT


_log = logging.getLogger("continuations")
T = TypeVar("T")
_LIST_SECONDS = 30.0
_POLL_SECONDS = 30.0
_SHORTEST_POLL, _FIRST_POLL = 1.0, 5.0
_LONGEST_POLL = 3600.0
# A task that has run for a day need not be asked for each second.
_PART_OF_WAITED = 20.0
_NEW_STATE_MS = 1000
# After them it is not known whether the server received the request.
_LOST = frozenset(
    {
        types.CONNECTION_CLOSED,
        types.REQUEST_TIMEOUT,
        types.PARSE_ERROR,
        types.INVALID_REQUEST,
    }
)
_SESSION_GONE = "Session terminated"
_SERVER_ERROR = 500
_MAX_NAME = 100


class McpToolError(Exception):
    """A call of a tool of an MCP server failed; the model reads the text."""


class _TaskParams(types.RequestParams):
    task_id: str


class _UpdateParams(_TaskParams):
    input_responses: dict[str, Any]


class _GetTask(types.Request[_TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams
    name_param: ClassVar[str | None] = "taskId"


class _CancelTask(types.Request[_TaskParams, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _TaskParams
    name_param: ClassVar[str | None] = "taskId"


class _UpdateTask(types.Request[_UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    params: _UpdateParams
    name_param: ClassVar[str | None] = "taskId"


class _TaskState(types.Result):
    """The reply to `tasks/get`."""

    status: str
    status_message: str | None = None
    poll_interval_ms: int | None = None
    result: types.CallToolResult | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


async def listed_tools(
    connections: client_connections.Connections,
    server: str,
    *,
    prefix: str,
    include: frozenset[str] | None,
    defaults: SchemaToolOptions,
    tool_options: Mapping[str, SchemaToolOptions],
) -> Sequence[Tool[..., Any]]:
    """Return the tools that a server lists now; see `McpTools.list_tools`."""
    connection = connections.current()
    try:
        async with asyncio.timeout(_LIST_SECONDS), connection.session() as session:
            listed = await connection.list_tools(session)
    except client_connections.NotConnected as error:
        connection.retire()
        raise ToolsUnavailable(
            f"the tools of {server} could not be listed: {error}. Nothing ran and "
            "nothing was written. Check the address or the command, and headers=, "
            "auth= and env=; a later sweep tries a stored run again."
        ) from error
    except Exception:
        connection.retire()
        raise
    names = {each.name for each in listed}
    for option, named in (("tool_options", {*tool_options}), ("include", include)):
        missing = sorted((named or set[str]()) - names)
        if missing:
            raise ToolsUnavailable(
                f"{server} does not list the tool {missing[0]}, which {option} names. "
                "Nothing ran and nothing was written. Correct the name, or remove it."
            )
    chosen = [
        each
        for each in listed
        if (include is None or each.name in include)
        and _is_usable(server, prefix + each.name, each)
    ]
    return [
        _made_tool(
            RemoteTool(connections, server, each.name),
            each,
            prefix + each.name,
            {**defaults, **tool_options.get(each.name, {})},
        )
        for each in chosen
    ]


def _is_usable(server: str, name: str, listed: types.Tool) -> bool:
    """Return whether a tool can be offered; if not, the others still are."""
    try:
        made = Tool.from_schema(name, listed.input_schema, dict)
        _ = made.parameters
    except InvalidInput as error:
        _log.warning("A tool of %s is left out: %s", server, error)
        return False
    return True


def _made_tool(
    remote: RemoteTool, listed: types.Tool, name: str, options: Mapping[str, Any]
) -> Tool[..., Any]:
    hints = listed.annotations
    stated: SchemaToolOptions = {
        "description": listed.description or listed.title or "",
        "read_only": hints is not None and hints.read_only_hint is True,
        "idempotent": hints is not None and hints.idempotent_hint is True,
        "verify": remote.verify,
    }
    given = cast("SchemaToolOptions", {**stated, **options})
    made = Tool.from_schema(name, listed.input_schema, remote.call, **given)
    made.on_answer(remote.go_on)
    made.on_cancel(remote.cancel)
    return made


class RemoteTool:
    """One tool of a server: the function of a `Tool`, and its later stages."""

    def __init__(
        self, connections: client_connections.Connections, server: str, name: str
    ) -> None:
        self._connections = connections
        self._server = server
        self._name = name

    async def call(self, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        """Call the tool."""
        return await self._call(ctx, {"arguments": arguments})

    async def go_on(self, answer: Any, ctx: ToolContext) -> Any:
        """Go on after a wait, with the answer of a person or after a pause."""
        memo: dict[str, Any] = dict(ctx.memo)
        if "asking" in memo:
            memo = _with_answer(memo, answer)
            if memo["requests"]:
                return self._ask(memo)
        return await (self._poll(memo) if "task" in memo else self._call(ctx, memo))

    def verify(
        self, arguments: dict[str, Any], ctx: ToolContext
    ) -> Approve | Deny | Answer | None:
        """Let a stage run again that only asks for a state, or collects answers."""
        del arguments
        memo = ctx.memo
        if not ctx.stage or memo is None:
            return None
        collects = "asking" in memo and len(memo["requests"]) > 1
        return Approve() if "task" in memo or collects else None

    async def cancel(self, ctx: ToolContext) -> None:
        """Cancel the task of a call that waits; other waits leave nothing behind."""
        memo = ctx.memo
        if memo is None or "task" not in memo or memo["run"] != ctx.run_id:
            return  # the task of a fork is that of the other run
        params = _TaskParams(task_id=memo["task"])

        async def send(session: ClientSession) -> types.Result:
            return await session.send_request(_CancelTask(params=params), types.Result)

        try:
            await self._send(send)
        except MCPError as error:
            if error.code in _LOST:
                raise  # it is tried again
            # The task has ended, or the server does not know it any more.

    # Calls ----------------------------------------------------------------------

    async def _call(self, ctx: ToolContext, memo: dict[str, Any]) -> Any:
        seen = deque[int](maxlen=client_connections.MAX_STATUSES)
        token = client_connections.statuses.set(seen)
        try:
            result = await self._called(ctx, memo)
        except MCPError as error:
            raise self._call_error(error, seen) from error
        except client_connections.NotConnected as error:
            raise McpToolError(str(error)) from error
        except ValidationError as error:
            msg = f"{self._server} sent a result that breaks the protocol"
            raise EffectUnknown(msg) from error
        finally:
            client_connections.statuses.reset(token)
        return self._outcome(result, memo, ctx)

    async def _called(self, ctx: ToolContext, memo: dict[str, Any]) -> types.Result:
        """Send the call; once more if the server has certainly not begun it."""

        async def send(session: ClientSession) -> types.Result:
            return await session.call_tool(
                self._name,
                memo["arguments"],
                progress_callback=_progress(ctx),
                input_responses=memo.get("answers"),
                request_state=memo.get("state"),
                allow_input_required=True,
                allow_claimed=True,
            )

        try:
            return await self._send(send, lists=True)
        except MCPError as error:
            is_gone = error.message == _SESSION_GONE
            if error.code != types.HEADER_MISMATCH and not is_gone:
                raise
            self._connections.current().is_listed = False
        return await self._send(send, lists=True)

    def _call_error(self, error: MCPError, seen: Sequence[int]) -> Exception:
        failed = error.code == types.INTERNAL_ERROR and any(
            status >= _SERVER_ERROR for status in seen
        )
        if error.code in _LOST or failed:
            text = (
                f"{self._server} did not reply to the call, which may have had an "
                f"effect: {error.message}"
            )
            return EffectUnknown(text)
        return McpToolError(error.message)

    def _outcome(
        self, result: types.Result, memo: dict[str, Any], ctx: ToolContext
    ) -> Any:
        if isinstance(result, types.CallToolResult):
            return content_of(result)
        if isinstance(result, client_connections.TaskCreated):
            task = {"task": result.task_id, "run": ctx.run_id}
            return _pause(task, result.poll_interval_ms)
        if not isinstance(result, types.InputRequiredResult):
            raise EffectUnknown(f"{self._server} sent a result of an unknown type")
        memo = {k: memo[k] for k in ("arguments", "waited") if k in memo}
        if result.request_state is not None:
            memo["state"] = result.request_state
        if not result.input_requests:
            return _pause(memo, _NEW_STATE_MS)
        requests = {
            key: each.model_dump(mode="json", by_alias=True, exclude_none=True)
            for key, each in result.input_requests.items()
        }
        return self._ask({**memo, "requests": requests})

    def _ask(self, memo: dict[str, Any], note: str = "") -> ToolWait[Any]:
        """Ask the first question; the others follow, because a call has one wait."""
        key = next(iter(memo["requests"]))
        request = memo["requests"][key]
        return ask_person(self._server, request, {**memo, "asking": key}, note)

    # Tasks ----------------------------------------------------------------------

    async def _poll(self, memo: dict[str, Any]) -> Any:
        """Send the answers to a task, and ask for its state.

        A server that cannot be reached is asked again later.
        """
        note = ""
        try:
            async with asyncio.timeout(_POLL_SECONDS):
                if memo.get("answers"):
                    note = await self._update(memo)
                params = _TaskParams(task_id=memo["task"])

                async def get(session: ClientSession) -> _TaskState:
                    return await session.send_request(
                        _GetTask(params=params), _TaskState
                    )

                state = await self._send(get)
        except MCPError as error:
            if error.code in _LOST or error.code == types.INTERNAL_ERROR:
                return _pause(memo)
            raise EffectUnknown(
                f"{self._server} does not tell the state of its task: {error.message}"
            ) from error
        except ValidationError as error:
            text = f"{self._server} sent a state of its task that breaks the protocol"
            raise EffectUnknown(text) from error
        except (TimeoutError, client_connections.NotConnected):
            return _pause(memo)
        return self._task_outcome(state, memo, note)

    async def _update(self, memo: dict[str, Any]) -> str:
        """Send answers, and note which ones; return why the server refused them."""
        answers: dict[str, Any] = memo["answers"]
        params = _UpdateParams(task_id=memo["task"], input_responses=answers)

        async def send(session: ClientSession) -> types.Result:
            return await session.send_request(_UpdateTask(params=params), types.Result)

        try:
            await self._send(send)
        except MCPError as error:
            if error.code != types.INVALID_PARAMS:
                raise
            del memo["answers"]
            return error.message
        # The server may need a while before it drops an answered question.
        memo["answered"] = [*memo.get("answered", ()), *answers]
        del memo["answers"]
        return ""

    def _task_outcome(self, state: _TaskState, memo: dict[str, Any], note: str) -> Any:
        if state.status == "completed" and state.result is not None:
            return content_of(state.result)
        if state.status == "failed":
            message = (state.error or {}).get("message") or state.status_message
            raise McpToolError(str(message or "the task failed"))
        if state.status == "cancelled":
            raise McpToolError("the task was cancelled on the server")
        answered: Sequence[str] = memo.get("answered", ())
        requests = {
            key: request
            for key, request in (state.input_requests or {}).items()
            if key not in answered
        }
        if state.status == "input_required" and requests:
            return self._ask({**memo, "requests": requests}, note)
        return _pause(memo, state.poll_interval_ms)

    # The connection -------------------------------------------------------------

    async def _send(
        self,
        send: Callable[[ClientSession], Awaitable[T]],
        *,
        lists: bool = False,
    ) -> T:
        """Send a request; a connection that is lost is not used again.

        Raises `NotConnected` if the request was certainly not sent.
        """
        connection = self._connections.current()
        async with connection.session() as session:
            try:
                if lists and not connection.is_listed:
                    # The session must know the schemas, for headers and results.
                    await connection.list_tools(session)
                return await send(session)
            except MCPError as error:
                if error.code in _LOST:
                    connection.retire()
                raise


def _with_answer(memo: dict[str, Any], answer: Any) -> dict[str, Any]:
    """Return the memo with the answer of a person, and without its question."""
    memo = dict(memo)
    key, requests = memo.pop("asking"), dict(memo["requests"])
    given = response(requests.pop(key), answer)
    answers = {**memo.get("answers", {}), key: given}
    return {**memo, "requests": requests, "answers": answers}


def _pause(memo: dict[str, Any], interval_ms: int | None = None) -> ToolWait[str]:
    """Wait before the next request, the longer the longer the call waits already."""
    if interval_ms is not None:
        memo = {**memo, "interval": max(_SHORTEST_POLL, interval_ms / 1000)}
    waited: float = memo.get("waited", 0.0)
    seconds = max(memo.get("interval", _FIRST_POLL), waited / _PART_OF_WAITED)
    seconds = min(seconds, _LONGEST_POLL)
    return sleep(seconds, memo={**memo, "waited": waited + seconds})


def _progress(ctx: ToolContext) -> ProgressFnT:
    async def report(progress: float, total: float | None, message: str | None) -> None:
        ctx.progress({"progress": progress, "total": total, "message": message})

    return report


# Results ----------------------------------------------------------------------------


def content_of(result: types.CallToolResult) -> Any:
    """Return the result of a call: a text, or texts and attachments.

    Raises `McpToolError` with the text if the tool says that it failed.
    """
    parts = [_part(each) for each in result.content]
    texts = [part for part in parts if isinstance(part, str)]
    if result.is_error:
        raise McpToolError("\n".join(texts) or "the tool failed and gave no reason")
    if not parts:
        return result.structured_content
    return "\n".join(texts) if len(texts) == len(parts) else parts


def _part(block: types.ContentBlock) -> Any:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.ImageContent):
        return Image(b64decode(block.data), block.mime_type)
    if isinstance(block, types.AudioContent):
        return Audio(b64decode(block.data), block.mime_type)
    if isinstance(block, types.ResourceLink):
        return f"{block.name}: {block.uri}"
    resource = block.resource
    if isinstance(resource, types.TextResourceContents):
        return resource.text
    kind = resource.mime_type or "application/octet-stream"
    return File(b64decode(resource.blob), kind, _file_name(resource.uri))


def _file_name(uri: str) -> str:
    """Return the last part of an address as the name of a file."""
    last = urlsplit(uri).path.rpartition("/")[2][:_MAX_NAME]
    return re.sub(r"[^\w.-]", "_", last).strip(".") or "file"
