"""An agent to talk to: `--app tests.cli.chat_agents:runner`; see `reply`."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from continuations import Agent, ApprovalPolicy, Runner, ToolContext, ask, sleep, tool
from continuations.models.interface import (
    ModelDelta,
    ModelReply,
    ModelRequest,
    PendingReply,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import ToolWait

EFFECTS = "chat effects"


def _record(effect: str) -> None:
    with Path(EFFECTS).open("a", encoding="utf-8") as log:
        log.write(f"{effect}\n")


def _wait_until_found() -> None:
    while not Path("found").exists():
        time.sleep(0.05)


@tool(approval=True, summary="Refund {cents:money/100} EUR")
def refund(cents: int) -> str:
    """Refund an amount."""
    _record(f"refund {cents}")
    return f"refunded {cents}"


@dataclass
class Address:
    """Where a parcel goes."""

    street: str
    number: int


@tool
def ask_address(name: str) -> ToolWait[Address]:
    """Ask a person for an address."""
    return ask(f"Where does {name} live?", Address)


@tool
def ask_colour() -> ToolWait[str]:
    """Ask a person for a colour."""
    return ask("Which colour?", str)


@tool
def nap(days: int) -> ToolWait[Any]:
    """Wait for some days."""
    return sleep(days * 86400)


@tool(read_only=True)
def search() -> str:
    """Search until the file `found` exists."""
    _record("search")
    print("searching", flush=True)  # noqa: T201 - the test waits for this line
    _wait_until_found()
    return "found it"


@tool(approval=ApprovalPolicy(approvers=["boss"]))
def hire() -> str:
    """Hire a person."""
    return "hired"


def reply(request: ModelRequest) -> Any:
    """Reply to a message with a call of the tool that it names, or with its words."""
    last = request.messages[-1]
    text = str(last.data["content"])
    if last.role == "tool":
        return f"The tool said: {text}"
    name, _, rest = text.partition(" ")
    if name == "slowly":
        return "You said:\nslowly"
    if name == "fail":
        raise ValueError(rest)
    if name in TOOLS:
        arguments: dict[str, dict[str, Any]] = {
            "refund": {"cents": int(rest) if rest.isdigit() else 1},
            "nap": {"days": 3},
            "ask_address": {"name": rest},
        }
        return ToolCall(name, arguments.get(name, {}))
    return f"You said: {text}"


class WritingModel(ScriptedModel):
    """Writes the reply to `slowly` in two parts, the second once `found` exists."""

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Reply, and hand on the parts of the text."""
        hand_on, last = request.on_delta, request.messages[-1]
        if hand_on is None or last.data["content"] != "slowly":
            return await super().reply(request)
        await hand_on(ModelDelta(kind="text", text="You said:\nslo"))
        await asyncio.to_thread(_wait_until_found)
        await hand_on(ModelDelta(kind="text", text="wly"))
        return await super().reply(replace(request, on_delta=None))


TOOLS: dict[str, Any] = {
    each.name: each for each in (refund, ask_address, ask_colour, nap, search, hire)
}
agent = Agent("support", tools=list(TOOLS.values()), model=WritingModel(reply))
runner = Runner(agent, store="file:runs", lease=2)


@tool(read_only=True)
def count_money(ctx: ToolContext) -> str:
    """Count the money."""
    ctx.progress({"counted": 5})
    return "5 coins"


def boss_reply(request: ModelRequest) -> Any:
    """Ask the agent `support` first, then reply in two lines."""
    if request.messages[-1].role == "tool":
        return "Support has replied.\nThe end."
    return ToolCall("support", {"input": request.messages[-1].data["content"]})


class ThinkingModel(ScriptedModel):
    """Thinks aloud before each text, and begins the first text anew."""

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Reply after a thought."""
        if request.on_delta is not None and request.messages[-1].role == "tool":
            await request.on_delta(ModelDelta(kind="reasoning", text="hm, "))
            await request.on_delta(ModelDelta(kind="reasoning", text="well"))
            await request.on_delta(ModelDelta(kind="text", text="Supp"))
            await request.on_delta(ModelDelta(kind="restart"))
        return await super().reply(request)


TOOLS["count_money"] = count_money
support = Agent("support", tools=list(TOOLS.values()), model=WritingModel(reply))
boss = Agent("boss", tools=[support], model=ThinkingModel(boss_reply))
nested = Runner(boss, store="file:runs", lease=2)
