"""A server of MCP, made with the official SDK: a bank whose answers a test scripts.

python -m tests.interop.mcp_bank            over standard streams
python -m tests.interop.mcp_bank PORT       over HTTP
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

TASKS = "io.modelcontextprotocol/tasks"
SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string"}},
    "required": ["to"],
}
FORM = {
    "type": "object",
    "properties": {
        "cents": {"type": "integer", "minimum": 1, "title": "Amount"},
        "note": {"type": "string", "default": "thanks"},
    },
    "required": ["cents"],
}


class _TaskParams(types.RequestParams):
    task_id: str


class _UpdateParams(_TaskParams):
    input_responses: dict[str, Any]


def form(message: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a question as a server sends it."""
    params = {"mode": "form", "message": message, "requestedSchema": schema or FORM}
    return {"method": "elicitation/create", "params": params}


class Bank:
    """The server; a test sets what it replies.

    Attributes:
        tools: The tools by name.
        reply: Returns the result of a call: a text, a result of MCP, or an exception.
        calls: The parameters of the calls.
        task: The state of each task, which `tasks/get` returns.
        updates: The responses that `tasks/update` got.
        cancelled: The tasks that were cancelled.
        requests: The methods of all requests, in order.
        delay: The seconds before a call returns.
        replies_to_update: An error instead of the acceptance of responses.
        cursor: The cursor of a page that follows each page of tools.
        progress: The progress that a call reports before it returns.
        error: An error instead of the list of tools.
        poll_error: An error instead of the state of a task.
        cancel_error: An error instead of the acceptance of a cancellation.
    """

    def __init__(self, *names: str, **annotations: bool) -> None:
        self.tools: dict[str, types.Tool] = {}
        for name in names or ("pay",):
            self.add(name, **annotations)
        self.reply: Callable[[types.CallToolRequestParams], Any] = lambda params: (
            f"paid {(params.arguments or {}).get('to')}"
        )
        self.calls: list[types.CallToolRequestParams] = []
        self.task: dict[str, Any] = {"status": "working"}
        self.updates: list[dict[str, Any]] = []
        self.cancelled: list[str] = []
        self.requests: list[str] = []
        self.delay = 0.0
        self.replies_to_update: MCPError | None = None
        self.cursor: str | None = None
        self.progress: float | None = None
        self.error: MCPError | None = None
        self.poll_error: MCPError | None = None
        self.cancel_error: MCPError | None = None
        self.server = self._made_server()

    def add(self, name: str, **annotations: bool) -> None:
        """List another tool."""
        self.tools[name] = types.Tool(
            name=name,
            description=f"Do {name}.",
            input_schema=SCHEMA,
            annotations=types.ToolAnnotations.model_validate(annotations),
        )

    def change(self, name: str, /, **fields: Any) -> None:
        """Change fields of a tool."""
        self.tools[name] = self.tools[name].model_copy(update=fields)

    def __call__(self) -> Server[Any]:
        """Return the server, as the function of `McpTools` does."""
        return self.server

    def _made_server(self) -> Server[Any]:
        server: Server[Any] = Server(
            "bank", on_list_tools=self._list, on_call_tool=self._call
        )
        server.extensions[TASKS] = {}
        server.add_request_handler("tasks/get", _TaskParams, self._get)
        server.add_request_handler("tasks/update", _UpdateParams, self._update)
        server.add_request_handler("tasks/cancel", _TaskParams, self._cancel)
        return server

    async def _list(self, _ctx: Any, _params: Any) -> types.ListToolsResult:
        self.requests.append("tools/list")
        if self.error is not None:
            raise self.error
        tools = list(self.tools.values())
        return types.ListToolsResult(tools=tools, next_cursor=self.cursor)

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        self.requests.append("tools/call")
        self.calls.append(params)
        await anyio.sleep(self.delay)
        if self.progress is not None:
            await ctx.session.report_progress(self.progress, 1.0, "half")
        made = self.reply(params)
        if isinstance(made, str):
            text = types.TextContent(type="text", text=made)
            return types.CallToolResult(content=[text])
        if isinstance(made, Exception):
            raise made
        return made

    async def _get(self, _ctx: Any, params: _TaskParams) -> dict[str, Any]:
        self.requests.append("tasks/get")
        if self.poll_error is not None:
            raise self.poll_error
        return {"taskId": params.task_id, "resultType": "complete", **self.task}

    async def _update(self, _ctx: Any, params: _UpdateParams) -> dict[str, Any]:
        self.requests.append("tasks/update")
        self.updates.append(params.input_responses)
        if self.replies_to_update is not None:
            raise self.replies_to_update
        return {}

    async def _cancel(self, _ctx: Any, params: _TaskParams) -> dict[str, Any]:
        self.requests.append("tasks/cancel")
        if self.cancel_error is not None:
            raise self.cancel_error
        self.cancelled.append(params.task_id)
        return {}


def start_task(_params: object) -> dict[str, Any]:
    """Return the result of a call that becomes a task."""
    return {
        "resultType": "task",
        "taskId": "task-1",
        "status": "working",
        "createdAt": "2026-11-29T08:00:00Z",
        "lastUpdatedAt": "2026-11-29T08:00:00Z",
        "ttlMs": None,
        "pollIntervalMs": 60_000,
    }


def completed(text: str) -> dict[str, Any]:
    """Return the state of a task that has ended."""
    content = [{"type": "text", "text": text}]
    return {"status": "completed", "result": {"content": content}}


def asks(message: str = "How much?", key: str = "q1") -> dict[str, Any]:
    """Return the state of a task that has a question."""
    return {"status": "input_required", "inputRequests": {key: form(message)}}


async def _serve_stdio(bank: Bank) -> None:
    async with stdio_server() as (reads, writes):
        options = bank.server.create_initialization_options()
        await bank.server.run(reads, writes, options)


def _die(status: str) -> str:
    os._exit(int(status))


def main() -> None:
    """Serve a bank whose tool `die` ends this process, and `env` tells a variable."""
    bank = Bank("pay", "die", "env")
    calls: dict[str, Callable[[str], str]] = {
        "pay": lambda to: f"paid {to}",
        "die": _die,
        "env": lambda name: os.environ.get(name, "unknown"),
    }
    bank.reply = lambda params: calls[params.name]((params.arguments or {})["to"])
    if len(sys.argv) > 1:
        app = bank.server.streamable_http_app()
        uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
    else:
        anyio.run(_serve_stdio, bank)


if __name__ == "__main__":
    main()
