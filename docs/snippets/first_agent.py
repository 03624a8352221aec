"""Tutorial, step 1: an agent with one tool."""

from continuations import Agent, Finished, run, tool
from continuations.models.scripted import ScriptedModel, ToolCall

BALANCES = {"jane": 120_000}


@tool(read_only=True)
def balance(account: str) -> int:
    """Return the balance of an account in cents."""
    return BALANCES[account]


# The model's replies, in order. Replace this line with model = "gpt-5-mini".
model = ScriptedModel([ToolCall("balance", {"account": "jane"}), "Jane has 1,200 EUR."])
support = Agent(
    "support",
    instructions="Answer questions about accounts.",
    tools=[balance],
    model=model,
)

if __name__ == "__main__":
    outcome = run(support, "How much money does Jane have?")
    print(outcome.output if isinstance(outcome, Finished) else outcome)
    print(f"{outcome.continuation.usage.requests} model requests")
