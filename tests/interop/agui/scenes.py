"""A shop whose agents ask people, and a chat with it for each person of a test."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import BaseModel

from continuations import (
    Agent,
    ApprovalPolicy,
    AsyncRunner,
    Call,
    ToolContext,
    ask_person,
    tool,
)
from continuations.interop import agui
from continuations.models.scripted import Script, ScriptedModel, ToolCall
from continuations.tools import Secret
from tests.interop.agui.clients import Client, Clients, run_clients
from tests.interop.agui.servers import serve, verify

paid: list[str] = []


@tool(approval=True, summary="Pay {cents:money/100} EUR to {name}")
def pay(name: str, cents: int, key: Annotated[str, Secret()] = "none") -> str:
    """Pay a person."""
    paid.append(f"{name} {cents} {key}")
    return f"paid {cents} to {name}"


@tool(approval=ApprovalPolicy(approvers=["kim"]))
def close_account(name: str) -> str:
    """Close an account."""
    paid.append(f"closed {name}")
    return f"closed {name}"


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    return f"{order} is on its way"


class Basket(BaseModel):
    """The things that a customer buys."""

    items: list[str] = []
    total: int = 0


@tool(writes_state=True)
def add_item(name: str, cents: int, ctx: ToolContext[Basket]) -> str:
    """Put something into the basket."""
    basket = ctx.state
    ctx.update(items=[*basket.items, name], total=basket.total + cents)
    return "added"


TOOLS: list[Any] = [pay, close_account, look_up, ask_person]


def shop(script: Script, **options: Any) -> Agent[str]:
    """Return the agent of the shop with a scripted model."""
    options = {"tools": TOOLS, **options}
    return Agent("shop", model=ScriptedModel(script), **options)


def pay_jane(cents: int = 500, **more: Any) -> ToolCall:
    arguments = {"name": "jane", "cents": cents, "key": "s3cret"}
    return ToolCall("pay", {**arguments, **more})


@dataclass
class Scene:
    """A server and its clients.

    Attributes:
        runner: The runner of the server.
        url: The address of the server.
        clients: Makes clients.
    """

    runner: AsyncRunner[Any]
    url: str
    clients: Clients
    paid: list[str] = field(default_factory=lambda: paid)

    def person(self, name: str = "ann", thread: str = "lamp", **head: str) -> Client:
        """Return the browser of a person."""
        return self.clients.client(self.url, name, thread, **head)

    async def run_id(self) -> str:
        """Return the run of the conversation."""
        found = await self.runner.thread(key="lamp").look()
        assert found
        return found.run_id

    async def open_waits(self) -> list[str]:
        """Return the kinds of the open waits."""
        return [each.kind async for each in self.runner.waiting()]

    async def users_texts(self) -> list[str]:
        """Return the messages of users that the agent has read."""
        messages = await self.runner.thread(key="lamp").messages()
        return [each["content"] for each in messages if each["role"] == "user"]


@asynccontextmanager
async def chat(
    agent: Agent[Any], *, store: Any = "memory:", runner: Any = None, **options: Any
) -> AsyncGenerator[Scene]:
    """Serve an agent to clients."""
    paid.clear()
    runner = AsyncRunner(agent, store=store) if runner is None else runner
    options = {"verify": verify, **options}
    application = agui.app(runner, **options)
    async with run_clients() as clients, serve(application) as url:
        yield Scene(runner, url, clients)


def open_call(frame: Any) -> Call:
    [call] = frame.calls
    found: Call = call
    return found
