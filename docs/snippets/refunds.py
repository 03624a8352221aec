"""Tutorial, step 2: a tool that needs an approval, and a store."""

from continuations import Agent, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall


@tool(approval=True)
def refund(order: str, cents: int) -> str:
    """Refund an order.

    Args:
        order: The number of the order.
        cents: The amount in cents.
    """
    with open("bank.txt", "a") as bank:  # stands for the payment provider
        bank.write(f"{cents} cents for {order}\n")
    return f"Refunded {cents} cents for order {order}."


model = ScriptedModel(
    [ToolCall("refund", {"order": "A-17", "cents": 1250}), "The refund is on its way."]
)
support = Agent(
    "support",
    instructions="Refund broken goods in full.",
    tools=[refund],
    model=model,
)
runner = Runner(support, store="sqlite:runs.db")
