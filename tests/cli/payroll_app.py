"""Agents for the command line's tests, as a user would write them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations import Agent, tool
from continuations.models.scripted import ScriptedModel, ToolCall

if TYPE_CHECKING:
    from continuations.models.interface import ModelRequest

# The same office as a module of its own, for processes of their own.
APP_SOURCE = """
from continuations import Agent, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall

@tool
def balance(account: str) -> int:
    "Balance in cents."
    return 1200

@tool(approval=True)
def transfer(source: str, target: str, cents: int) -> str:
    "Move money."
    with open("moved", "a") as file:
        file.write(f"{source} {target} {cents}\\n")
    return f"moved {cents}"

pay = ToolCall("transfer", {"source": "a", "target": "b", "cents": 500})
model = ScriptedModel({
    "boss": [ToolCall("accounts", {"input": "pay 500"}), "all done"],
    "accounts": [[ToolCall("balance", {"account": "a"}), pay], "paid"],
})
accounts = Agent("accounts", tools=[balance, transfer], model=model)
boss = Agent("boss", tools=[accounts], model=model)
runner = Runner(boss, store="file:runs")
"""


@tool
def balance(account: str) -> int:
    """Balance in cents."""
    return len(account)


@tool(approval=True)
def transfer(source: str, target: str, cents: int) -> str:
    """Move money."""
    return f"moved {cents} from {source} to {target}"


def make_boss(*calls: ToolCall) -> Agent:
    """Return an agent whose sub-agent makes the calls, by default one transfer."""
    pay = ToolCall("transfer", {"source": "a", "target": "b", "cents": 500})
    model = ScriptedModel(
        {
            "boss": [ToolCall("accounts", {"input": "pay"}), "all done"],
            "accounts": [list(calls) or [pay], "paid"],
        }
    )
    accounts = Agent("accounts", tools=[balance, transfer], model=model)
    return Agent("boss", tools=[accounts], model=model)


def transfer_from(source: str) -> ToolCall:
    """Return a transfer whose source is a text."""
    return ToolCall("transfer", {"source": source, "target": "b", "cents": 1})


def make_nested_agent(levels: int) -> Agent:
    """Return an agent that calls itself, so many levels down, and then waits."""

    def line(request: ModelRequest) -> Any:
        said: str = request.messages[0].data["content"]
        if request.messages[-1].role == "tool":
            return "up"
        left = levels if said == "go" else int(said)
        if left > 1:
            return ToolCall("step", {"input": str(left - 1)})
        return ToolCall("transfer", {"source": "a", "target": "b", "cents": 1})

    step = Agent("step", tools=lambda: [step, transfer], model=ScriptedModel(line))
    return step
