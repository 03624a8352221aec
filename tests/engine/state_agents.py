"""Agents three deep, each with a state that its tools change."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from continuations import Agent, ToolContext, tool
from tests import effect_log, scripts
from tests.scripts import Script


class Purse(BaseModel):
    """The money that an agent has spent, and on what."""

    spent: int = 0
    on: list[str] = []


def _spend(name: str, cents: int, ctx: ToolContext[Purse]) -> str:
    effect_log.append_effect(name, str(cents))
    purse = ctx.state
    ctx.update(spent=purse.spent + cents, on=[*purse.on, name])
    return f"{cents} makes {ctx.state.spent}"


@tool(writes_state=True)
def buy(cents: int, ctx: ToolContext[Purse]) -> str:
    """Spend some cents; the call may not be repeated."""
    return _spend("buy", cents, ctx)


@tool(writes_state=True, idempotent=True)
def book(cents: int, ctx: ToolContext[Purse]) -> str:
    """Spend some cents; a call may be repeated."""
    return _spend("book", cents, ctx)


@tool(writes_state=True, approval=True)
def order(cents: int, ctx: ToolContext[Purse]) -> str:
    """Spend some cents after an approval."""
    return _spend("order", cents, ctx)


TOOLS = (buy, book, order)


def three_deep(script: Script) -> Agent:
    """Return boss > hr > clerk."""
    model = scripts.scripted_model(script)
    clerk = Agent("clerk", tools=[*TOOLS], model=model, state=Purse)
    hr = Agent("hr", tools=[clerk, *TOOLS], model=model, state=Purse)
    return Agent("boss", tools=[hr, *TOOLS], model=model, state=Purse)


def agents() -> list[Agent]:
    return [three_deep(scripts.of_environment())]


def replayed(messages: list[dict[str, Any]]) -> int:
    """Return the sum of the calls that returned, and check what each of them saw."""
    total = 0
    for message in messages:
        words = str(message["content"]).split()
        if message["role"] == "tool" and "makes" in words:
            total += int(words[0])
            assert str(total) == words[2], messages
    return total
