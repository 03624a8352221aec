"""The agents that the conformance kit of MCP wants to find on a server."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import uvicorn
from pydantic import BaseModel

from continuations import Agent, AsyncRunner, Flow, ask, sleep, workflow
from continuations.errors import ModelError
from continuations.interop.mcp import mcp_server
from continuations.models.scripted import ScriptedModel


class Name(BaseModel):
    name: str


class Confirm(BaseModel):
    confirm: bool


class NamedConfirm(BaseModel):
    name: str
    confirm: bool


@workflow
async def greet(flow: Flow, name: str) -> str:
    """Greet a person."""
    return f"Hello, {name}!"


@workflow
async def slow_compute(flow: Flow, seconds: float, label: str = "") -> str:
    """Compute for some seconds."""
    if seconds:
        await sleep(seconds)
    return f"computed {label}"


@workflow
async def failing_job(flow: Flow) -> str:
    """Fail after a moment."""
    raise ValueError("the job failed")


def _refuse(_request: Any) -> str:
    raise ModelError("the model is broken", retryable=True)


protocol_error_job = Agent("protocol_error_job", model=ScriptedModel(_refuse))


@workflow
async def confirm_delete(flow: Flow, filename: str) -> str:
    """Delete a file after a person confirmed it."""
    answer = await ask(f"Delete {filename}?", Confirm)
    return f"deleted {filename}" if answer.confirm else "kept"


@workflow
async def multi_input(flow: Flow) -> str:
    """Ask two questions at once."""
    first, second = await asyncio.gather(
        ask("Who is first?", NamedConfirm), ask("Who is second?", NamedConfirm)
    )
    return f"{first.name} and {second.name}"


@workflow
async def test_tool_with_task(flow: Flow) -> str:
    """Ask for a name, then work as a task."""
    answer = await ask("What is your name?", Name)
    return f"Hello, {answer.name}!"


@workflow
async def test_simple_text(flow: Flow) -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@workflow
async def test_error_handling(flow: Flow) -> str:
    """Fail on purpose."""
    raise ValueError("This tool intentionally returns an error for testing")


@workflow
async def test_input_required_result_elicitation(flow: Flow) -> str:
    """Ask for a name."""
    answer = await ask("What is your name?", Name)
    return f"Hello, {answer.name}!"


AGENTS = [
    greet,
    slow_compute,
    failing_job,
    protocol_error_job,
    confirm_delete,
    multi_input,
    test_tool_with_task,
    test_simple_text,
    test_error_handling,
    test_input_required_result_elicitation,
]


def application(store: str) -> Any:
    runner = AsyncRunner(
        AGENTS, store=store, model_retry_time=0, max_model_failures=1
    )
    server = mcp_server(
        runner,
        secret=b"0123456789abcdef" * 2,
        verify=lambda _request: "kit",
        task_required=["failing_job", "protocol_error_job", "test_tool_with_task"],
        ask_first=["test_tool_with_task"],
    )
    return server.app(keeps_sessions=True)


if __name__ == "__main__":
    uvicorn.run(
        application(sys.argv[2] if len(sys.argv) > 2 else "memory:"),
        port=int(sys.argv[1]),
        log_level=os.environ.get("LOG", "warning"),
    )
