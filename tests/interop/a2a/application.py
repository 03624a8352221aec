"""An A2A server for tests: in the process of the test, or for uvicorn in its own.

The user's text says what the agent does: `pay 5 and 6`, `ask`, `login`, `rest`,
`scan`. For every other text, it repeats all texts of the user that it has read.
"""

from __future__ import annotations

import os
import re
from typing import Annotated, Any

from a2a.types import AgentCard
from starlette.applications import Starlette

from continuations import Agent, AsyncRunner, ask, external, sleep, tool
from continuations.interop import a2a
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import Request
from continuations.tools import Secret
from tests.effect_log import append_effect

URL = "http://a2a.test"


@tool(approval=True, summary="Pay {cents} cents")
def pay(cents: int) -> str:
    """Pay an amount."""
    append_effect("pay", str(cents))
    return f"paid {cents}"


@tool
def choose() -> Any:
    """Ask a person for a number."""
    return ask("How many?", int)


@tool(approval=True)
def login(name: str, password: Annotated[str, Secret()]) -> str:
    """Log in."""
    return f"{name} is in with {len(password)} characters"


@tool
def rest() -> Any:
    """Wait for an hour."""
    return sleep(3600)


@tool
def scan() -> Any:
    """Start a job of another system."""
    return external("scan")


@scan.on_cancel
def stop_scan() -> None:
    """Stop the job."""
    append_effect("stop_scan", "")


def act(request: ModelRequest) -> Any:
    """Do what the last text of the user says."""
    data = [each.data for each in request.messages]
    users = [str(each["content"]) for each in data if each["role"] == "user"]
    last = data[-1]
    if last["role"] == "tool":
        results = [str(each["content"]) for each in data if each["role"] == "tool"]
        return f"Result: {', '.join(results)}"
    if users[-1].startswith("pay"):
        numbers = re.findall(r"\d+", users[-1])
        return [ToolCall("pay", {"cents": int(each)}) for each in numbers]
    calls = {
        "ask": ToolCall("choose"),
        "login": ToolCall("login", {"name": "kim", "password": "hunter2"}),
        "rest": ToolCall("rest"),
        "scan": ToolCall("scan"),
    }
    if users[-1] in calls:
        return [calls[users[-1]]]
    return f"You said: {' / '.join(users)}"


def make_runner(store: Any, **options: Any) -> AsyncRunner[Any]:
    """Return a runner with the agent."""
    agent = Agent(
        "clerk",
        description="Pays and asks.",
        tools=[pay, choose, login, rest, scan],
        model=ScriptedModel(act),
    )
    return AsyncRunner(agent, store=store, **options)


def verify(request: Request) -> str | None:
    """Trust the header of every client of this test."""
    return request.headers.get("x-user")


def make_app(
    runner: AsyncRunner[Any],
    url: str = URL,
    card: AgentCard | None = None,
    **options: Any,
) -> Starlette:
    """Return the application of a runner."""
    options = {"verify": verify, **options}
    return a2a.app(runner, card=card or a2a.card(runner, url), **options)


if "A2A_STORE" in os.environ:
    app = make_app(make_runner(os.environ["A2A_STORE"]), os.environ["A2A_URL"])
