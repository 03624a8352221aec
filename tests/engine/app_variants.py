"""Two variants of the sample application: code that changes, and agents in a circle."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from continuations import Agent, ApprovalPolicy, ToolContext, tool
from tests import effect_log, sample_app, scripts
from tests.effect_log import Effect
from tests.engine.agent_builders import text_tool
from tests.scripts import Line, Script, call

VERSIONED_SCRIPT: Script = {
    "go": [[call("child", input="A")], "end"],
    "A": [[call("pay", what="5")], "A done"],
    "go twice": [[call("child", input="B")], "end"],
    "B": [[call("pay", what="5"), call("pay", what="6")], "B done"],
    "go plain": [[call("child", input="C")], "end"],
    "C": [[call("plain"), call("pay", what="5")], "C done"],
    "go deep": [[call("child", input="D")], "end"],
    "D": [[call("inner", input="A")], "D done"],
}

plain = text_tool("plain", "acted", logs=True)


def versioned_agents() -> list[Agent]:
    """Return boss > child > pay, in the version of the code that TEST_CODE names."""
    version = os.environ.get("TEST_CODE", "old")
    model = scripts.scripted_model(VERSIONED_SCRIPT)
    prompt = "You are careful." if version == "prompt" else "You are child."
    pay: Any = _pay_in_version(version)
    if version == "deep":
        pay = Agent("inner", tools=[pay], model=model)
    child = Agent(
        "child",
        instructions=prompt,
        tools=[plain, pay] if version == "plain" else [pay],
        model=model,
        max_turns=1 if version == "deep" else 100,
    )
    inner: Any = child.as_tool(name="helper" if version == "child" else "child")
    if version == "no agent":
        inner = tool(name="child")(_pay_in_version("open").function)
    name = "chief" if version == "renamed" else "boss"
    return [Agent(name, tools=[inner], model=model)]


def gated_sub_agent() -> list[Agent]:
    """Return boss, whose sub-agent `gated` needs an approval."""
    model = scripts.scripted_model(scripts.of_environment())
    gated = Agent("gated", model=model)
    return [Agent("boss", tools=[gated.as_tool(approval=True)], model=model)]


def _pay_in_version(version: str) -> Any:
    def pay(what: str, ctx: ToolContext) -> str:
        """Pay."""
        effect_log.record(Effect.of("pay", what, ctx))
        return f"paid {what}"

    def pay_cents(cents: int, ctx: ToolContext) -> str:
        """Pay an amount."""
        effect_log.record(Effect.of("pay", str(cents), ctx))
        return f"paid {cents} cents"

    def pay_in(what: str, ctx: ToolContext, currency: str = "EUR") -> str:
        """Pay in a currency."""
        effect_log.record(Effect.of("pay", f"{what} {currency}", ctx))
        return f"paid {what} {currency}"

    match version:
        case "schema":
            return tool(approval=True, name="pay")(pay_in)
        case "cents":
            return tool(approval=True, name="pay")(pay_cents)
        case "vanished":
            return tool(approval=True, name="transfer")(pay)
        case "version":
            return tool(approval=True, version="2")(pay)
        case "open":
            return tool(pay)
        case _:
            on_denied: Any = "stop" if version == "denial stops" else "continue"
            return tool(approval=ApprovalPolicy(on_denied=on_denied))(pay)


def recursive_line(messages: Sequence[Mapping[str, Any]]) -> Line:
    """Go down until the task is 0, pay there, and return one more number per level."""
    task = int(scripts.first_user_message(messages))
    if scripts.turn_count(messages) > 0:
        return f"{messages[-1]['content']} {task}"
    return [call("down", input=str(task - 1))] if task else [call("pay", what="x")]


def recursive_agents() -> list[Agent]:
    """Return the first of two agents that call each other as deep as the task says."""
    over_http = os.environ.get("TEST_HTTP")
    model = "gpt-5-mini" if over_http else scripts.scripted_model(recursive_line)
    pay = sample_app.make_pay(effect_log.record)
    even = Agent("even", tools=lambda: [odd.as_tool(name="down"), pay], model=model)
    odd: Agent = Agent(
        "odd", tools=lambda: [even.as_tool(name="down"), pay], model=model
    )
    return [odd]
