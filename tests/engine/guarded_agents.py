"""boss > hr > clerk: the clerk has hooks and guardrails, and its payment waits."""

from __future__ import annotations

from continuations import Agent
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import (
    CallInfo,
    ChangeArguments,
    ChangeResult,
    Hooks,
    ResultInfo,
)
from tests import scripts
from tests.engine.agent_builders import text_tool
from tests.scripts import Script

# The model asks for 900 cents; the hook allows 100.
PAY: Script = {
    "go": [[scripts.call("hr", input="A")], "all"],
    "A": [[scripts.call("clerk", input="B")], "hr"],
    "B": [[scripts.call("pay", cents=900)], "clerk"],
}
# The model sends to a new address; the guardrail asks.
SEND: Script = {**PAY, "B": [[scripts.call("send", to="eve")], "clerk"]}

pay = text_tool("pay", "paid {cents}", {"cents": int}, logs=True, approval=True)
send = text_tool("send", "sent to {to}", {"to": str}, logs=True)


def cap(call: CallInfo) -> ChangeArguments | None:
    """Allow 100 cents at most."""
    if call.arguments.get("cents", 0) <= 100:
        return None
    return ChangeArguments({"cents": 100})


def new_address(call: CallInfo) -> Tripped | None:
    """Ask about addresses that are not known."""
    if call.arguments.get("to") == "eve":
        return Tripped("eve is not known")
    return None


async def upper(result: ResultInfo) -> ChangeResult:
    return ChangeResult(result.text.upper())


def agents() -> list[Agent]:
    model = scripts.scripted_model(scripts.of_environment())
    clerk = Agent(
        "clerk",
        tools=[pay, send],
        model=model,
        hooks=Hooks(before_tool=cap, after_tool=upper),
        guardrails=Guardrails(tools=[Guardrail(check=new_address, on_trip="ask")]),
    )
    hr = Agent("hr", tools=[clerk], model=model)
    return [Agent("boss", tools=[hr], model=model)]
