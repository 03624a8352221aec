"""Two agents that call each other as deep as the task says, and pay at the bottom."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from continuations import Agent
from tests import effect_log, scripts
from tests.sample_app import pay

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations.models.interface import ModelRequest
    from continuations.models.scripted import ScriptedModel


def next_line(messages: Sequence[Mapping[str, Any]]) -> scripts.Line:
    """Go down to zero, pay there, and come up with one more number in each level."""
    task = int(scripts.first_user_message(messages))
    if scripts.turn_count(messages) > 0:
        below = messages[-1]["content"]
        return f"{below} {task}"
    return [["down", {"input": str(task - 1)}]] if task else [["pay", {"what": "x"}]]


def scripted_model() -> ScriptedModel:
    """Return a model of this process that says these lines."""
    from continuations.models.scripted import ScriptedModel  # noqa: PLC0415 - over HTTP there is none

    def rule(request: ModelRequest) -> Any:
        messages = [message.data for message in request.messages]
        turn = scripts.turn_count(messages)
        effect_log.append_line(
            effect_log.TURNS_VARIABLE,
            task=scripts.first_user_message(messages),
            turn=turn,
        )
        return scripts.assistant_message(next_line(messages), turn)

    return ScriptedModel(rule)


def agents() -> list[Agent]:
    """Return the first of the two."""
    model = "gpt-5-mini" if os.environ.get("TEST_HTTP") else scripted_model()
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
