"""The approver changes the arguments of a call before it runs.

    python examples/edited_arguments.py

The run keeps both versions: the arguments that the model wrote and the arguments of
the executed call. The tool message tells the model which arguments were used.

With OPENAI_API_KEY set, the agent uses the real model, otherwise a scripted one.
"""

import os
import sys

from continuations import Agent, Approve, Finished, Runner, tool
from continuations.errors import DecisionRefused
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall

RUN_ID = "bonus-jane"
paid_cents: list[int] = []


@tool(approval=True)
def pay_bonus(person: str, cents: int) -> str:
    """Pay a bonus to a person."""
    paid_cents.append(cents)
    return f"Paid {cents} cents to {person}."


def scripted_reply(request: ModelRequest) -> ScriptedReply:
    """Return the model's next message, so that the example runs without an API key."""
    last = request.messages[-1]
    if last.role == "user":
        return ToolCall("pay_bonus", {"person": "Jane", "cents": 500_000})
    return "Jane's bonus is paid. The approver set the amount."


payroll = Agent(
    "payroll",
    instructions="You pay bonuses: call the tool, then report what was paid.",
    tools=[pay_bonus],
    model="gpt-5-mini"
    if "OPENAI_API_KEY" in os.environ
    else ScriptedModel(scripted_reply),
)
runner = Runner(payroll, store="memory:")


def main() -> None:
    """Start a run, approve another amount, resume, and print both amounts."""
    suspended = runner.start("Pay Jane a bonus of 5000.00.", run_id=RUN_ID)
    wait = suspended.continuation.waits[0]
    print(f"{type(suspended).__name__}: {wait.tool} {wait.arguments}")

    # The edited arguments must match the tool's schema. If they do not, no decision is
    # recorded, the wait stays open, and the approver can try again.
    try:
        runner.decide(wait.id, Approve(arguments={"person": "Jane", "cents": "lots"}))
    except DecisionRefused as error:
        print(f"{type(error).__name__}: {error}")

    edited = {**wait.arguments, "cents": 50_000}
    runner.decide(wait.id, Approve(by="kim@example.com", arguments=edited))
    outcome = runner.resume(RUN_ID)
    print(f"{type(outcome).__name__}: the tool paid {paid_cents}")

    # Every version of a run can be read. The first version after the suspension
    # contains the decision and was written before the call ran.
    claimed = runner.look(RUN_ID, version=suspended.continuation.version + 1)
    call = claimed.root.calls[0]
    print(f"The model wrote:   {call.original_arguments}")
    print(f"The tool ran with: {call.arguments}")

    messages = outcome.continuation.root.messages
    (result,) = [m["content"] for m in messages if m["role"] == "tool"]
    print("The model received:", *result.splitlines(), sep="\n  ")
    if isinstance(outcome, Finished):
        print(f"The model replied: {outcome.output}")

    is_paid = isinstance(outcome, Finished) and paid_cents == [50_000]
    if not (is_paid and "50000" in result):
        sys.exit("Expected one payment of 50000 cents, reported to the model.")


if __name__ == "__main__":
    main()
