"""The agents that the conformance kit of MCP wants to find on a server."""

# ruff: noqa: ARG001 - a workflow has a flow, whether it uses it or not

from __future__ import annotations

import asyncio
import os
import sys
from typing import Annotated, Any, Literal

import uvicorn
from pydantic import BaseModel, Field

from continuations import Agent, AsyncRunner, Flow, ask, sleep, tool, workflow
from continuations.errors import ModelError
from continuations.interop.mcp import mcp_server
from continuations.models.scripted import ScriptedModel, ToolCall


class Nothing(BaseModel):
    pass


class Name(BaseModel):
    name: str


class Color(BaseModel):
    color: str


class Ok(BaseModel):
    ok: bool


class User(BaseModel):
    username: str = Field(description="Your name")
    email: str = Field(description="Your mail address")


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


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


@tool
def prepare() -> str:
    """Prepare the work."""
    return "prepared"


_BROKEN = ScriptedModel(
    [ToolCall("prepare"), ModelError("the model is broken", retryable=True)]
)
protocol_error_job = Agent(
    "protocol_error_job", model=_BROKEN, tools=[prepare], input_type=Nothing
)


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


@workflow
async def test_input_required_result_request_state(flow: Flow) -> str:
    """Ask for a confirmation."""
    await ask("Please confirm", Ok)
    return "state-ok"


@workflow
async def test_input_required_result_tampered_state(flow: Flow) -> str:
    """Ask for a confirmation."""
    await ask("Please confirm", Ok)
    return "ok"


@workflow
async def test_input_required_result_multi_round(flow: Flow) -> str:
    """Ask for a name, then for a color."""
    name = await ask("Step 1: What is your name?", Name)
    color = await ask("Step 2: What is your favorite color?", Color)
    return f"{name.name} likes {color.color}"


@workflow
async def test_missing_capability(flow: Flow) -> str:
    """Need a client with tasks."""
    return "done"


@workflow
async def test_streaming_elicitation(flow: Flow) -> str:
    """Ask for a name."""
    answer = await ask("What is your name?", Name)
    return f"Hello, {answer.name}!"


@workflow
async def test_logging_tool(flow: Flow) -> str:
    """Log nothing."""
    return "done"


@workflow
async def test_x_mcp_header(
    flow: Flow,
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
) -> str:
    """Return the region, which a header mirrors."""
    return region


@workflow
async def test_elicitation(flow: Flow, message: str) -> str:
    """Ask for a name and a mail address."""
    answer = await ask(message, User)
    return f"User response: action=accept, content={answer.username}"


@workflow
async def test_elicitation_sep1034_defaults(flow: Flow) -> str:
    """Ask for values with defaults."""
    answer = await ask("Please check the values", Defaults)
    return f"Elicitation completed: action=accept, content={answer.model_dump_json()}"


# In the order above.
AGENTS: list[Agent[Any]] = [
    each for each in globals().values() if isinstance(each, Agent)
]


def application(store: str) -> Any:
    runner = AsyncRunner(AGENTS, store=store, model_retry_time=0, max_model_failures=1)
    server = mcp_server(
        runner,
        secret=b"0123456789abcdef" * 2,
        verify=lambda _request: "kit",
        task_required=[
            "failing_job",
            "protocol_error_job",
            "test_tool_with_task",
            "test_missing_capability",
        ],
        ask_first=["test_tool_with_task"],
    )
    return server.app(keeps_sessions=True)


if __name__ == "__main__":
    uvicorn.run(
        application(sys.argv[2] if len(sys.argv) > 2 else "memory:"),
        port=int(sys.argv[1]),
        log_level=os.environ.get("LOG", "warning"),
    )
