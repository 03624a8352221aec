"""boss > hr > clerk in a process of their own; the payment of the clerk waits.

Each request is recorded in the log of turns, with its settings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from continuations import Agent, Fallback
from continuations.errors import ModelError
from continuations.models.interface import ModelRequest
from continuations.models.scripted import LaterReply, ScriptedModel, ToolCall
from continuations.prices import Price, Prices, Usage
from tests import effect_log
from tests.engine.agent_builders import text_tool

# Requests: boss 2, hr 2, clerk 2.
SCRIPT: dict[str, list[Any]] = {
    "boss": [ToolCall("hr", {"input": "A"}), "boss end"],
    "hr": [ToolCall("clerk", {"input": "B"}), "hr end"],
    "clerk": [ToolCall("pay", {"what": "x"}), "clerk end"],
}


class RecordingModel(ScriptedModel):
    """A scripted model that records each request."""

    async def reply(self, request: ModelRequest) -> Any:
        turn = sum(message.role == "assistant" for message in request.messages)
        settings = dict(request.settings)
        effect_log.append_turn(request.agent, turn, model=self.name, **settings)
        return await super().reply(request)


# A request of `PricedModel` has 10 tokens: it costs one cent.
_PRICE = Price(input="1000", output="0")
PRICES = Prices({"priced": _PRICE, "limited": _PRICE})


class PricedModel(RecordingModel):
    """A model whose replies have a usage."""

    def __init__(self, script: Any = None, name: str = "priced") -> None:
        super().__init__(SCRIPT if script is None else script, name)

    async def reply(self, request: ModelRequest) -> Any:
        """Return the reply of the script with 10 input tokens."""
        reply = await super().reply(request)
        return replace(reply, usage=Usage(requests=1, input_tokens=10))


def endless(request: ModelRequest) -> ToolCall:
    """Call a tool that does not exist, in every turn."""
    del request
    return ToolCall("none")


def agrees(request: ModelRequest) -> str:
    """Reply to every message."""
    del request
    return "Yes."


pay = text_tool("pay", "paid {what}", {"what": str}, logs=True, approval=True)


def make_boss(model: Any, **options: Any) -> Agent:
    """Return the root agent; the options are those of the clerk."""
    clerk = Agent("clerk", tools=[pay], model=model, **options)
    hr = Agent("hr", tools=[clerk], model=model)
    return Agent("boss", tools=[hr], model=model)


class LimitedModel(RecordingModel):
    """A model whose provider limits every request."""

    async def reply(self, request: ModelRequest) -> Any:
        """Record the request, and refuse it; the refusal cost 10 tokens."""
        await super().reply(request)
        spent = Usage(requests=1, input_tokens=10)
        raise ModelError("limited", status=429, retryable=True, usage=spent)


class LaterModel(RecordingModel):
    """A model that replies later; its second poll is the reply."""

    def __init__(self, name: str = "later") -> None:
        later = {
            agent: [LaterReply(reply, polls=2) for reply in replies]
            for agent, replies in SCRIPT.items()
        }
        super().__init__(later, name)

    async def poll(self, reply_id: str, request: ModelRequest) -> Any:
        """Record the poll, and return the reply if it is ready."""
        effect_log.append_turn(request.agent, -1, model=f"poll {self.name}")
        return await super().poll(reply_id, request)


def make_fallback() -> Fallback:
    """Return a limited model, and one that replies."""
    return Fallback([LimitedModel(SCRIPT, "limited"), PricedModel()])
