"""One tool that waits, in versions of the code that come one after the other."""

from __future__ import annotations

import os
from typing import Any

from continuations import Agent, ToolContext, tool
from tests import scripts
from tests.sample_app import record_effect

SCRIPT: scripts.Script = {
    "go": [[["child", {"input": "A"}]], "end"],
    "A": [[["pay", {"amount": 5}]], "A done"],
}


def make_pay_tool(code_version: str) -> Any:
    """Return the tool `pay` as that version of the code has it."""

    def pay(amount: int, ctx: ToolContext) -> str:
        """Pay."""
        record_effect("pay", str(amount), ctx)
        return f"paid {amount}"

    def pay_in(amount: int, ctx: ToolContext, currency: str = "EUR") -> str:
        """Pay in a currency."""
        record_effect("pay", f"{amount} {currency}", ctx)
        return f"paid {amount} {currency}"

    match code_version:
        case "schema":
            return tool(approval=True, name="pay")(pay_in)
        case "vanished":
            return tool(approval=True, name="transfer")(pay)
        case "version":
            return tool(approval=True, version="2")(pay)
        case "open":
            return tool(pay)
        case _:
            return tool(approval=True)(pay)


def agents() -> list[Agent]:
    """Return boss > child > pay as TEST_CODE has them."""
    code = os.environ.get("TEST_CODE", "old")
    model = scripts.scripted_model(SCRIPT)
    prompt = "You are careful." if code == "prompt" else "You are child."
    child = Agent(
        "child", instructions=prompt, tools=[make_pay_tool(code)], model=model
    )
    below: list[Any] = [child.as_tool(name="helper" if code == "child" else "child")]
    if code == "no agent":
        below = [tool(name="child")(make_pay_tool("open").function)]
    return [Agent("chief" if code == "renamed" else "boss", tools=below, model=model)]
