"""One agent, one tool, one person who must say yes.

    python examples/approve_a_refund.py            # all of it, in a temporary folder

    python examples/approve_a_refund.py start      # or step by step, in this folder
    python examples/approve_a_refund.py approve    # or: deny
    python examples/approve_a_refund.py resume

Each step is a process of its own: between them nothing runs, and there is only what
the folder `.runs` holds.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from continuations import Agent, Approve, Deny, Finished, Outcome, Runner, tool
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall

REFUNDS = Path("refunds.txt")  # stands for the bank


@tool(approval=True)
def refund(order: str, cents: int) -> str:
    """Pay the money for an order back to its customer."""
    with REFUNDS.open("a") as bank:
        bank.write(f"{cents} cents for {order}\n")
    return f"Refunded {cents} cents for order {order}."


def scripted_reply(request: ModelRequest) -> ScriptedReply:
    """Answer in the model's place, so that the example runs without a key."""
    last = request.messages[-1]
    if last.role == "user":
        return ToolCall("refund", {"order": "A-17", "cents": 1250})
    return f"About your order: {last.content}"


support = Agent(
    "support",
    instructions="You help customers. Broken goods are refunded in full.",
    tools=[refund],
    model="gpt-5-mini"
    if "OPENAI_API_KEY" in os.environ
    else ScriptedModel(scripted_reply),
)
runner = Runner(support, store="file:.runs")


def decide(verdict: Approve | Deny) -> None:
    """Decide whatever waits. This needs neither the agent nor a model."""
    for waiting in runner.waiting():
        wait = runner.wait(waiting.id)
        print(f"{type(verdict).__name__}: {wait.tool} {wait.arguments}")
        runner.decide(wait.id, verdict)


def show(outcome: Outcome) -> None:
    """Say how the run stands."""
    print(f"{type(outcome).__name__} in process {os.getpid()}")
    for wait in outcome.continuation.waits:
        print(f"  waits for a person: {wait.tool} {wait.arguments}")
    if isinstance(outcome, Finished):
        print(f"  {outcome.output}")


def run_all_steps() -> None:
    """Do all steps, each in a process of its own, and look at what the bank saw."""
    with tempfile.TemporaryDirectory() as folder:
        for step in ("start", "approve", "resume"):
            subprocess.run([sys.executable, __file__, step], cwd=folder, check=True)
        seen = (Path(folder) / REFUNDS).read_text()
    print(f"The bank saw: {seen.rstrip()}")
    if "OPENAI_API_KEY" not in os.environ and seen != "1250 cents for A-17\n":
        sys.exit("That is not what was approved, once.")


def main() -> None:
    """Take one step, or all."""
    match sys.argv[1:]:
        case []:
            run_all_steps()
        case ["start"]:
            broken = "Order A-17 arrived broken. I want my 12.50 back."
            show(runner.start(broken, run_id="order-a17"))
        case ["approve"]:
            decide(Approve(by="kim@example.com"))
        case ["deny"]:
            decide(Deny(by="kim@example.com", reason="It was used for a year."))
        case ["resume"]:
            show(runner.resume("order-a17"))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
