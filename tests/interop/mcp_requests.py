"""Requests of MCP 2026-07-28, as a client writes them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from continuations.interop.mcp import McpServer

EXTENSION = "io.modelcontextprotocol/tasks"
FORMS: Mapping[str, Any] = {"elicitation": {}}
TASKS: Mapping[str, Any] = {"extensions": {EXTENSION: {}}}
BOTH: Mapping[str, Any] = {**FORMS, **TASKS}
_VERSION = "2026-07-28"


class McpClient:
    """A client that sends each request as it is, and returns the whole response."""

    def __init__(self, http: httpx.AsyncClient, *, user: str = "kim") -> None:
        self._http = http
        self.user = user

    async def send(
        self,
        method: str,
        params: Mapping[str, Any],
        capabilities: Mapping[str, Any] = BOTH,
        headers: Mapping[str, str] | None = None,
        meta: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return the response to a request."""
        sent_meta = {
            **(meta or {}),
            "io.modelcontextprotocol/protocolVersion": _VERSION,
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }
        named = params.get("name") or params.get("taskId")
        response = await self._http.post(
            "/mcp",
            json={
                "jsonrpc": "2.0",
                "id": 1,
                "method": method,
                "params": {**params, "_meta": sent_meta},
            },
            headers={
                "accept": "application/json, text/event-stream",
                "mcp-protocol-version": _VERSION,
                "mcp-method": method,
                **({"mcp-name": named} if named else {}),
                "x-user": self.user,
                **(headers or {}),
            },
        )
        body: dict[str, Any] = response.json()
        return body

    async def call(
        self, tool: str, capabilities: Mapping[str, Any] = BOTH, **arguments: Any
    ) -> dict[str, Any]:
        """Return the result of a call of a tool."""
        params = {"name": tool, "arguments": arguments}
        result: dict[str, Any] = (await self.send("tools/call", params, capabilities))[
            "result"
        ]
        return result

    async def get(self, task: str) -> dict[str, Any]:
        """Return the state of a task."""
        result: dict[str, Any] = (await self.send("tasks/get", {"taskId": task}))[
            "result"
        ]
        return result

    async def update(self, task: str, **responses: Any) -> dict[str, Any]:
        """Return the response to answers."""
        params = {"taskId": task, "inputResponses": responses}
        return await self.send("tasks/update", params)


@asynccontextmanager
async def client_of(server: McpServer, user: str = "kim") -> AsyncGenerator[McpClient]:
    """Serve an application in this process, and yield a client."""
    app = server.app()
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1:8000", timeout=30
        ) as http,
    ):
        yield McpClient(http, user=user)
