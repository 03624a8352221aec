"""Clients of the Python SDK, over ASGI or over a socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.helpers import get_data_parts, new_data_part, new_message, new_text_part
from a2a.types import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskState,
)
from starlette.types import ASGIApp

from tests.interop.a2a.application import URL

INPUT_REQUIRED = TaskState.TASK_STATE_INPUT_REQUIRED
COMPLETED = TaskState.TASK_STATE_COMPLETED
WORKING = TaskState.TASK_STATE_WORKING


class Sender:
    """A client that sends texts and data, and returns the task that follows."""

    def __init__(self, client: Client, http: httpx.AsyncClient) -> None:
        self.client = client
        self.http = http

    async def send(self, *contents: Any, **options: Any) -> Task:
        """Send a message; return the task of the last response."""
        events = [each async for each in self.stream(*contents, **options)]
        task_id = task_id_of(events[-1])
        if events[-1].HasField("task"):
            return events[-1].task
        return await self.get(task_id)

    async def stream(
        self, *contents: Any, **options: Any
    ) -> AsyncGenerator[StreamResponse]:
        """Send a message; yield the events."""
        configuration = options.pop("configuration", SendMessageConfiguration())
        message = message_of(*contents, **options)
        request = SendMessageRequest(message=message, configuration=configuration)
        async for event in self.client.send_message(request):
            yield event

    async def get(self, task_id: str) -> Task:
        return await self.client.get_task(GetTaskRequest(id=task_id))


def message_of(*contents: Any, **options: Any) -> Message:
    """Return a message; see `part_of`."""
    parts = [*map(part_of, contents)]
    message_id = options.pop("message_id", None)
    message = new_message(parts, role=Role.ROLE_USER, **options)
    if message_id is not None:
        message.message_id = message_id
    return message


def part_of(content: Any) -> Part:
    """Return the part of a message for a text, a part or any other value."""
    if isinstance(content, Part):
        return content
    return (
        new_text_part(content) if isinstance(content, str) else new_data_part(content)
    )


def task_id_of(event: StreamResponse) -> str:
    if event.HasField("task"):
        return event.task.id
    if event.HasField("status_update"):
        return event.status_update.task_id
    return event.artifact_update.task_id


@asynccontextmanager
async def sender(
    app: ASGIApp | None = None,
    *,
    user: str | None = "kim",
    binding: str = "JSONRPC",
    streaming: bool = False,
    url: str = URL,
) -> AsyncGenerator[Sender]:
    """Return a client that has read the card."""
    transport = None if app is None else httpx.ASGITransport(app)
    headers = {} if user is None else {"x-user": user}
    async with httpx.AsyncClient(
        transport=transport, headers=headers, base_url=url, timeout=30
    ) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        config = ClientConfig(
            httpx_client=http,
            streaming=streaming,
            supported_protocol_bindings=[binding],
        )
        yield Sender(ClientFactory(config).create(card), http)


def waits_of(task: Task) -> list[dict[str, Any]]:
    """Return the data parts of the waits of a task."""
    return get_data_parts(task.status.message.parts)


def texts_of(task: Task) -> list[str]:
    """Return the texts of the status of a task."""
    return [p.text for p in task.status.message.parts if p.HasField("text")]


def output_of(task: Task) -> str:
    """Return the text of the only artifact."""
    [artifact] = task.artifacts
    return str(artifact.parts[0].text)


def approval(wait: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the data part that approves a wait."""
    return {
        "wait": wait["wait"],
        "decision": "approve",
        "shown": wait["digest"],
        **more,
    }
