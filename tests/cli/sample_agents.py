"""Agents of the sample application that suspend in one place, for the command line."""

from __future__ import annotations

from typing import Any

from continuations import Agent
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.effect_log import Effect
from tests.sample_app import make_agents, make_pay
from tests.scripts import ScriptedCall, call, scripted_model


def make_boss(*calls: ScriptedCall) -> Agent:
    """Return `boss`, whose sub-agent `left` makes the calls; by default it pays 500."""
    script = {
        "go": [[call("left", input="pay Jane")], "all done"],
        "pay Jane": [list(calls) or [call("pay", what="500")], "paid"],
    }
    [boss] = make_agents(scripted_model(script))
    return boss


def pay(what: str) -> ScriptedCall:
    """Return a call that needs an approval."""
    return call("pay", what=what)


def make_nested_agent(levels: int) -> Agent:
    """Return an agent that calls itself `levels` times and then waits for approval."""

    def reply(request: ModelRequest) -> Any:
        task: str = request.messages[0].data["content"]
        if request.messages[-1].role == "tool":
            return "returned"
        levels_left = levels if task == "go" else int(task)
        if levels_left > 1:
            return ToolCall("step", {"input": str(levels_left - 1)})
        return ToolCall("pay", {"what": "1"})

    step: Agent = Agent(
        "step",
        tools=lambda: [step, make_pay(_ignore_effect)],
        model=ScriptedModel(reply),
    )
    return step


def _ignore_effect(effect: Effect) -> None:
    """Record nothing."""
