"""Tutorial, step 3: an agent that calls an agent that calls a tool."""

from continuations import Agent, ApprovalPolicy, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall


def is_large(cents: int) -> bool:
    return cents > 10_000


@tool(approval=ApprovalPolicy(when=is_large))
def transfer(to: str, cents: int) -> str:
    """Send money."""
    return f"Sent {cents} cents to {to}."


model = ScriptedModel(
    {
        "hr": [ToolCall("accounts", {"input": "Pay Jane a bonus of 500."}), "Welcome!"],
        "accounts": [ToolCall("transfer", {"to": "Jane", "cents": 50_000}), "Paid."],
    }
)
accounts = Agent(
    "accounts", instructions="Keep the books.", tools=[transfer], model=model
)
hr = Agent("hr", instructions="Look after people.", tools=[accounts], model=model)
runner = Runner(hr, store="sqlite:runs.db")
