"""Tutorial, step 6: a conversation that waits."""

from continuations import Agent, Runner
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall
from refunds import refund


def reply(request: ModelRequest) -> ScriptedReply:
    """Stand for a model: reply to the last message of the conversation."""
    last = request.messages[-1]
    text = str(last.content)
    if last.role == "tool":
        return f"Good news. {text}"
    if "broken" in text:
        return ToolCall("refund", {"order": "A-17", "cents": 1250})
    return "You are welcome." if "Thank" in text else "We open at nine."


support = Agent(
    "support",
    instructions="Help customers. Refund broken goods in full.",
    tools=[refund],
    model=ScriptedModel(reply),
)
runner = Runner(support, store="sqlite:runs.db")

if __name__ == "__main__":
    thread = runner.thread("support", key="customer 42")
    for message in thread.messages():
        if message["content"] and message["role"] in ("user", "assistant"):
            print(f"{message['role']}: {message['content']}")
