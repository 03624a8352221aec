"""One agent, one tool, and one person who must approve the call.

    python examples/approve_a_refund.py            # all steps, in a temporary folder

    python examples/approve_a_refund.py start      # or step by step, in this folder
    python examples/approve_a_refund.py approve    # or: deny
    python examples/approve_a_refund.py resume

`start` takes the message of the customer: start "The lamp of order A-17 is broken."

Each step is a separate process. Between two steps no process runs; the file `runs.db`
holds the whole state.

With OPENAI_API_KEY set, the agent uses the real model, otherwise a scripted one.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from continuations import Agent, Approve, Deny, Finished, Outcome, Runner, tool
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall

RUN_ID = "order-a17"
REFUNDS = Path("refunds.txt")  # in place of a payment provider


@tool(approval=True)
def refund(order: str, cents: int) -> str:
    """Refund the money for an order to the customer."""
    with REFUNDS.open("a") as file:
        file.write(f"{cents} cents for {order}\n")
    return f"Refunded {cents} cents for order {order}."


def scripted_reply(request: ModelRequest) -> ScriptedReply:
    """Return the model's next message, so that the example runs without an API key."""
    last = request.messages[-1]
    if last.role == "user":
        return ToolCall("refund", {"order": "A-17", "cents": 1250})
    return f"About your order: {last.content}"


support = Agent(
    "support",
    instructions="You help customers. Refund broken goods in full.",
    tools=[refund],
    model="gpt-5-mini"
    if "OPENAI_API_KEY" in os.environ
    else ScriptedModel(scripted_reply),
)
runner = Runner(support, store="sqlite:runs.db")


def decide_all(decision: Approve | Deny) -> None:
    """Record the same decision for every open approval. No model is called."""
    for summary in runner.waiting():
        wait = runner.wait(summary.id)
        if wait.kind == "approval":
            print(f"{type(decision).__name__}: {wait.tool} {wait.arguments}")
            runner.decide(wait.id, decision)


def print_outcome(outcome: Outcome) -> None:
    """Print whether the run finished or what it waits for."""
    print(f"{type(outcome).__name__} in process {os.getpid()}")
    for wait in outcome.continuation.waits:
        print(f"  waits for {wait.kind}: {wait.tool} {wait.arguments}")
    if isinstance(outcome, Finished):
        print(f"  {outcome.output}")


def run_all_steps() -> None:
    """Run every step in a separate process and check that the refund was paid once."""
    with tempfile.TemporaryDirectory() as folder:
        for step in ("start", "approve", "resume"):
            subprocess.run([sys.executable, __file__, step], cwd=folder, check=True)
        refunds = (Path(folder) / REFUNDS).read_text()
    print(f"Refunds paid: {refunds.rstrip()}")
    if "OPENAI_API_KEY" not in os.environ and refunds != "1250 cents for A-17\n":
        sys.exit("Expected one refund of 1250 cents for A-17.")


def main() -> None:
    """Run one step, or all of them."""
    match sys.argv[1:]:
        case []:
            run_all_steps()
        case ["start", *words]:
            task = " ".join(words) or "Order A-17 arrived broken. I want 12.50 back."
            print_outcome(runner.start(task, run_id=RUN_ID))
        case ["approve"]:
            decide_all(Approve(by="kim@example.com"))
        case ["deny"]:
            decide_all(Deny(by="kim@example.com", reason="It was used for a year."))
        case ["resume"]:
            print_outcome(runner.resume(RUN_ID))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
