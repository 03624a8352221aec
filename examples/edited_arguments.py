"""The approver changes what runs: another amount, and everybody knows of it.

    python examples/edited_arguments.py

What the model wrote and what ran are both kept, and the model is told, so that it does
not go on believing in its own number.
"""

import os
import sys

from continuations import Agent, Approve, DecisionRefused, Finished, Runner, tool
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall

paid: list[int] = []


@tool(approval=True)
def pay_bonus(person: str, cents: int) -> str:
    """Pay a bonus to a person."""
    paid.append(cents)
    return f"Paid {cents} cents to {person}."


def scripted_reply(request: ModelRequest) -> ScriptedReply:
    """Answer in the model's place, so that the example runs without a key."""
    last = request.messages[-1]
    if last.role == "user":
        return ToolCall("pay_bonus", {"person": "Jane", "cents": 500_000})
    return "Jane's bonus is paid; the approver set the amount."


agent = Agent(
    "payroll",
    instructions="You pay bonuses: call the tool, then report what was paid.",
    tools=[pay_bonus],
    model="gpt-5-mini"
    if "OPENAI_API_KEY" in os.environ
    else ScriptedModel(scripted_reply),
)
runner = Runner(agent, store="memory:")


def main() -> None:
    """Start, approve with another amount, resume, and read what is kept."""
    suspended = runner.start("Pay Jane a bonus of 5000.00.", run_id="bonus")
    wait = suspended.continuation.waits[0]
    print(f"{type(suspended).__name__}: {wait.tool} {wait.arguments}")

    # An edit must fit the tool's schema. One that does not is not recorded, so the
    # wait stays open and the approver can try again.
    try:
        runner.decide(wait.id, Approve(arguments={"person": "Jane", "cents": "lots"}))
    except DecisionRefused as refused:
        print(f"{type(refused).__name__}: {refused}")

    edited = {**wait.arguments, "cents": 50_000}
    runner.decide(wait.id, Approve(by="kim@example.com", arguments=edited))
    outcome = runner.resume("bonus")
    print(f"{type(outcome).__name__}: the tool paid {paid}")

    # Every version of a run stays readable. The one after the suspension is the claim
    # that took the decision in, before the call ran.
    claim = runner.look("bonus", version=suspended.continuation.version + 1)
    call = claim.root.calls[0]
    print(f"The model wrote:    {call.original_arguments}")
    print(f"What was run:       {call.arguments}")

    messages = outcome.continuation.root.messages
    (told,) = [m["content"] for m in messages if m["role"] == "tool"]
    print(f"The model was told: {told}")
    if isinstance(outcome, Finished):
        print(f"The model said:     {outcome.output}")

    if not (isinstance(outcome, Finished) and paid == [50_000] and "50000" in told):
        sys.exit("What ran is not what was approved.")


if __name__ == "__main__":
    main()
