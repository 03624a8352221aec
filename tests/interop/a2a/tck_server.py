"""The server that the A2A TCK tests: `uvicorn tests.interop.a2a.tck_server:app`.

The kit says with the beginning of the id of a message what the agent must do. An agent
does not read ids of messages, so an adapter puts the id before the text. Two more of
its habits need the adapter:

- It sends the same message several times and expects a new task. To this server, an
  equal message is a repeat, so the adapter gives each new message an id of its own.
- It completes a task that waits with a text. The adapter sends a typed answer instead.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import tempfile
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from continuations import Agent, AsyncRunner, ask, tool
from continuations.errors import ContinuationsError
from continuations.interop import a2a
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall

URL = os.environ.get("A2A_URL", "http://127.0.0.1:9999")
_SECONDS_OF_LONG_TASK = 4.0


@tool
def question() -> Any:
    """Ask a person."""
    return ask("What is your name?")


@tool
async def work() -> str:
    """Work for some seconds."""
    await asyncio.sleep(_SECONDS_OF_LONG_TASK)
    return "worked"


def act(request: ModelRequest) -> Any:
    """Do what the id of the message says."""
    data = [each.data for each in request.messages]
    users = [str(each["content"]) for each in data if each["role"] == "user"]
    if data[-1]["role"] == "tool":
        return "Hello from TCK"
    if users[-1].startswith("tck-input-required"):
        return [ToolCall("question")]
    if users[-1].startswith("test-resubscribe"):
        return [ToolCall("work")]
    if users[-1].startswith("tck-artifact-text"):
        return "Generated text content"
    return "Hello from TCK"


class Adapter:
    """Changes the messages of the kit."""

    def __init__(self, application: ASGIApp) -> None:
        self._app = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Change the body of a request."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        changed: list[Message] = [{"type": "http.request", "body": await adapted(body)}]
        headers = [each for each in scope["headers"] if each[0] != b"content-length"]

        async def replay() -> Message:
            return changed.pop() if changed else await receive()

        await self._app({**scope, "headers": headers}, replay, send)


_numbers = itertools.count()


async def adapted(body: bytes) -> bytes:
    """Return a body whose message this server reads as the kit means it."""
    try:
        request = json.loads(body)
        message = request.get("params", request)["message"]
        task_id, message_id = message.get("taskId"), message["messageId"]
        if not task_id:
            message["parts"].insert(0, {"text": message_id})
            message["messageId"] = f"{message_id}-{next(_numbers)}"
        elif message_id.startswith("tck-complete-task"):
            waits = (await runner.look(task_id)).waits
            data = {"decision": "answer", "value": "TCK"}
            if not waits:
                return body
            message["parts"] = [{"data": {"wait": w.id, **data}} for w in waits]
    except (ValueError, LookupError, TypeError, AttributeError, ContinuationsError):
        return body  # the kit sends wrong bodies too
    return json.dumps(request).encode()


async def any_url(_url: str) -> bool:
    """Allow each URL: the kit's receiver is on this machine."""
    return True


store = f"file:{tempfile.mkdtemp(prefix='a2a-tck-')}"
agent = Agent("tck", tools=[question, work], model=ScriptedModel(act))
push = a2a.Push(store, secret="whsec_" + "c2VjcmV0" * 4, check_url=any_url)
runner: AsyncRunner[Any] = AsyncRunner(agent, store=store, notify=push)
app = Adapter(
    a2a.app(
        runner, card=a2a.card(runner, URL), verify=lambda _request: "tck", push=push
    )
)
