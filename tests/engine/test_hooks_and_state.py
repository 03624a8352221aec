"""A hook shows the state of an agent to its model, in messages of one request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from continuations import Agent, Replied, Runner, ToolContext, tool
from continuations.hooks import ChangeRequest, Hooks, TurnInfo
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore


@dataclass
class Memory:
    """The facts that the agent knows."""

    name: str = "nobody"


def test_a_hook_renders_the_state_and_stores_nothing() -> None:
    """Each request has the present state once, and the transcript never has it."""
    seen: list[list[str]] = []

    @tool(writes_state=True)
    def remember(ctx: ToolContext, name: str) -> str:
        """Remember a name."""
        ctx.update(name=name)
        return "remembered"

    def show_state(info: TurnInfo) -> ChangeRequest:
        return ChangeRequest(request_messages=[f"Known: {info.state.name}"])

    def reply(request: ModelRequest) -> Any:
        texts = [str(message.data.get("content")) for message in request.messages]
        seen.append([text for text in texts if text.startswith("Known")])
        return ToolCall("remember", {"name": "Ann"}) if len(seen) == 1 else "Hello."

    agent = Agent(
        "host",
        model=ScriptedModel(reply),
        tools=[remember],
        state=Memory,
        hooks=Hooks(before_model=show_state),
    )
    thread = Runner(agent, store=MemoryStore()).thread(key="k")
    thread.send("I am Ann.")
    assert isinstance(thread.send("Who am I?"), Replied)

    assert [["Known: nobody"], ["Known: Ann"], ["Known: Ann"]] == seen
    assert not any("Known" in str(each["content"]) for each in thread.messages())
