"""Agents whose histories are shortened: what they do depends on their messages alone.

The agent makes so many steps, and counts them by the results that it reads. A summary
names the last step, so the agent goes on behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from continuations import Agent, Compaction, tool
from continuations.core.messages import Message
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from tests import effect_log
from tests.engine.agent_builders import text_tool

PADDING = "x" * 300
_STEP = re.compile(r"step (\d+) done")


@tool
def step(number: int) -> str:
    """Make a step."""
    effect_log.append_effect("step", number)
    return f"step {number} done {PADDING}"


pay = text_tool("pay", "paid {cents}", {"cents": int}, logs=True, approval=True)


def last_step(messages: Sequence[Message]) -> int:
    found = [int(number) for each in messages for number in _STEP.findall(each.content)]
    return max(found, default=0)


def summary_of(request: ModelRequest) -> str:
    """Return the reply to a request for a summary; the request is recorded."""
    done = last_step(request.messages)
    effect_log.append_effect("summary", done)
    return f"The agent made its steps: step {done} done."


def steps(count: int, *then: Any) -> Callable[[ModelRequest], Any]:
    """Return a script with so many steps, then other replies, then the end."""

    def reply(request: ModelRequest) -> Any:
        if request.agent.endswith("/summary"):
            return summary_of(request)
        done = last_step(request.messages)
        effect_log.append_turn(request.agent, done)
        if done < count:
            return ToolCall("step", {"number": done + 1}, id=f"s{done + 1}")
        roles = [each.answered_call_id or "" for each in request.messages]
        later = [each for each in roles if each.startswith("then")]
        if len(later) < len(then):
            line = then[len(later)]
            name, arguments = line
            return ToolCall(name, arguments, id=f"then{len(later)}")
        return f"all {done} steps are done"

    return reply


def worker(script: Any, name: str = "worker", **options: Any) -> Agent:
    """Return an agent with a history that is soon shortened."""
    options.setdefault("compaction", Compaction(soft=800, hard=1600, keep_last=4))
    options.setdefault("tools", [step, pay])
    options.setdefault("instructions", "Make the steps.")
    return Agent(name, model=ScriptedModel(script), **options)


def nested() -> list[Agent]:
    """Return boss > (worker, payer): the history of the worker is shortened.

    The worker makes steps, asks for an approval, and makes more steps. The payer asks
    for an approval at once.
    """
    make = steps(8, ("pay", {"cents": 8}))

    def later(request: ModelRequest) -> Any:
        """Make 8 steps, pay, and make 8 steps more."""
        if request.agent.endswith("/summary"):
            return summary_of(request)
        done = last_step(request.messages)
        paid = any("paid 8" in each.content for each in request.messages)
        if done >= 8 and (paid or done > 8) and done < 16:
            effect_log.append_turn(request.agent, done)
            return ToolCall("step", {"number": done + 1}, id=f"s{done + 1}")
        return make(request) if done < 16 else "16 steps are done"

    inner = worker(later)
    payer = Agent(
        "payer",
        tools=[pay],
        model=ScriptedModel([ToolCall("pay", {"cents": 5}), "paid it"]),
    )
    both = [
        ToolCall("worker", {"input": "Make the steps."}),
        ToolCall("payer", {"input": "Pay."}),
    ]
    model = ScriptedModel([both, "all done"])
    return [Agent("boss", tools=[inner, payer], model=model)]
