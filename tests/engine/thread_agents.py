"""Agents for tests of threads: what they reply depends on the messages alone."""

from __future__ import annotations

from typing import Any

from continuations import Agent
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from tests import effect_log
from tests.engine.agent_builders import text_tool

CLERK_ASKS = "ask the clerk to pay "
pay = text_tool("pay", "paid {what}", {"what": str}, logs=True, approval=True)
note = text_tool("note", "noted {what}", {"what": str}, logs=True)


def reply(request: ModelRequest) -> Any:
    """Return the reply to the last message of a conversation.

    `pay X` and `note X` call the tools, `ask the clerk to pay X` calls the agent below,
    and any other text is repeated, with the number of messages of users so far.
    """
    messages = [message.data for message in request.messages]
    last = messages[-1]
    if last["role"] == "tool":
        return f"done: {last['content']}"
    text = str(last["content"])
    effect_log.append_turn(text, len(messages))
    verb, _, what = text.partition(" ")
    if verb in ("pay", "note"):
        return ToolCall(verb, {"what": what})
    if text.startswith(CLERK_ASKS):
        return ToolCall("clerk", {"input": f"pay {text.removeprefix(CLERK_ASKS)}"})
    count = [each["role"] for each in messages].count("user")
    return f"{count}: {text}"


def support(**options: Any) -> Agent:
    """Return an agent with two tools and an agent that pays."""
    model = ScriptedModel(reply)
    clerk = Agent("clerk", instructions="Pay.", tools=[pay], model=model)
    options.setdefault("instructions", "Help.")
    return Agent("support", tools=[pay, note, clerk], model=model, **options)


def agents() -> list[Agent]:
    return [support()]
