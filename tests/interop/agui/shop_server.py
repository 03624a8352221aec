"""A server of one chat, as a process: `python -m ….shop_server PORT FOLDER`.

A clerk below the agent pays. `FOLDER` has the store, and the file with the payments.
While it has a file `hold`, the agent writes two words, makes the file `writing`, and
writes no more.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from continuations import Agent, AsyncRunner, tool
from continuations.interop import agui
from continuations.models.interface import (
    ModelDelta,
    ModelReply,
    ModelRequest,
    PendingReply,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.interop.agui.servers import verify

PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])


@tool(approval=True)
def pay(name: str, cents: int) -> str:
    """Pay a person."""
    with (FOLDER / "payments").open("a") as bank:
        bank.write(f"{name} {cents}\n")
    return "paid"


def clerk_reply(request: ModelRequest) -> Any:
    """Pay, then report."""
    if request.messages[-1].role == "tool":
        return "The clerk has paid."
    return ToolCall("pay", {"name": "jane", "cents": 500})


def shop_reply(request: ModelRequest) -> Any:
    """Ask the clerk to pay; greet otherwise."""
    last = request.messages[-1]
    if last.role == "tool":
        return "Jane has her money, and you have a receipt."
    if str(last.content).startswith("Pay"):
        return ToolCall("clerk", {"input": "pay"})
    return "You are welcome."


class HeldModel(ScriptedModel):
    """A scripted model that stops after two words."""

    async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
        """Reply, or write two words."""
        reply = await super().reply(replace(request, on_delta=None))
        is_held = isinstance(reply, ModelReply) and not reply.message.tool_calls
        if not is_held or not (FOLDER / "hold").exists():
            return await super().reply(request)
        assert request.on_delta
        await request.on_delta(ModelDelta(kind="text", text="Jane has "))
        (FOLDER / "writing").touch()
        await asyncio.Event().wait()
        return reply


clerk = Agent("clerk", tools=[pay], model=ScriptedModel(clerk_reply))
shop = Agent("shop", tools=[clerk], model=HeldModel(shop_reply))
runner = AsyncRunner(shop, store=f"file:{FOLDER}/store", lease=1)

if __name__ == "__main__":
    uvicorn.run(agui.app(runner, verify=verify), port=PORT, log_level="error")
