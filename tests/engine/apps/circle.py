"""Two agents that call each other as deep as the task says, and pay at the bottom."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from continuations import Agent
from tests.engine import ledgers, scripts
from tests.engine.apps.office import pay

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations.models.contract import ModelRequest
    from continuations.models.scripted import ScriptedModel


def line(messages: Sequence[Mapping[str, Any]]) -> scripts.Line:
    """Go down to zero, pay there, and come up with one more number in each level."""
    task = int(scripts.task_of(messages))
    if scripts.turn_of(messages) > 0:
        below = messages[-1]["content"]
        return f"{below} {task}"
    return [["down", {"input": str(task - 1)}]] if task else [["pay", {"what": "x"}]]


def scripted() -> ScriptedModel:
    """Return a model of this process that says these lines."""
    from continuations.models.scripted import ScriptedModel  # noqa: PLC0415 - over HTTP there is none

    def rule(request: ModelRequest) -> Any:
        messages = [message.data for message in request.messages]
        turn = scripts.turn_of(messages)
        ledgers.add(ledgers.TURNS, task=scripts.task_of(messages), turn=turn)
        return scripts.spoken(line(messages), turn)

    return ScriptedModel(rule)


def agents() -> list[Agent]:
    """Return the first of the two."""
    model = "gpt-5-mini" if os.environ.get("TEST_HTTP") else scripted()
    other = Agent(
        "even",
        instructions="Go down.",
        tools=lambda: [one.as_tool(name="down"), pay],
        model=model,
    )
    one = Agent(
        "odd",
        instructions="Go down.",
        tools=lambda: [other.as_tool(name="down"), pay],
        model=model,
    )
    return [one]
