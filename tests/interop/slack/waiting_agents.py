"""Agents whose runs wait for a person, one for each kind of wait, and their runner."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

from pydantic import BaseModel

from continuations import Agent, AsyncRunner, Identity, Wait, ask, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Money, Secret, ToolWait
from tests.outcomes import single_wait

PIN = "PLANTED-PIN-9876"
TEXT = ["Pay Meridian."]
PEOPLE = {
    ("U1", "T1"): Identity("kim", ["finance"]),
    ("U2", "T1"): Identity("lee"),
    ("U3", "T1"): Identity("mara"),
}


def users(user: str, team: str) -> Identity | None:
    """Return the person of a Slack user."""
    return PEOPLE.get((user, team))


@tool(approval=True, summary="Send {cents} to {to}", reversible=False)
def transfer(
    to: str,
    cents: Annotated[int, Money("EUR", 100)],
    pin: Annotated[str, Secret()] = PIN,
) -> str:
    """Send money."""
    return f"sent {cents} to {to} with {len(pin)} digits"


class Size(Enum):
    """A size."""

    SMALL = "small"
    LARGE = "large"


class Case(BaseModel):
    """A part of an order."""

    color: str = "black"


class Laptop(BaseModel):
    """An order."""

    model: str
    count: int
    size: Size
    insured: bool
    case: Case
    note: str | None = None


@tool
def choose() -> ToolWait[Laptop]:
    """Let a person choose a laptop."""
    return ask("Which laptop?", Laptop)


@tool
def choose_seat() -> ToolWait[str]:
    """Let a person choose a seat."""
    return ask("Which seat?")


@tool
def choose_any() -> ToolWait[dict[str, list[int]]]:
    """Ask for a value that has no inputs."""
    return ask("Which numbers?", dict[str, list[int]])


def make_runner(
    call: ToolCall, tools: list[Any], *, store: Any = "memory:", **options: Any
) -> AsyncRunner[Any]:
    """Return a runner of one agent that makes a call."""
    agent = Agent("payables", tools=tools, model=ScriptedModel([call, "Done."]))
    return AsyncRunner(agent, store=store, **options)


def transfer_call(**arguments: Any) -> ToolCall:
    return ToolCall("transfer", {"to": "Meridian", "cents": 1240000} | arguments)


async def start(runner: AsyncRunner[Any], run_id: str = "r-1", **options: Any) -> Wait:
    return single_wait(await runner.start("Pay the invoice", run_id=run_id, **options))
