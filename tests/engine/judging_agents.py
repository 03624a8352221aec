"""boss > hr > clerk: people judge the clerk's texts, and an agent its payments."""

from __future__ import annotations

from continuations import Agent, ApprovalPolicy
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import ReplyInfo, TurnInfo
from tests import scripts
from tests.engine.agent_builders import Opinion, text_tool
from tests.scripts import Script

_JUDGED = '{"arguments":{"cents":%s},"tool":"pay"}'
# The clerk pays 7 and 900 cents; the checking agent lets the first one through.
PAY: Script = {
    "go": [[scripts.call("hr", input="A")], "all"],
    "A": [[scripts.call("clerk", input="B")], "hr"],
    "B": [[scripts.call("pay", cents=7), scripts.call("pay", cents=900)], "clerk"],
    _JUDGED % 7: ['{"tripped": false, "reason": ""}'],
    _JUDGED % 900: ['{"tripped": true, "reason": "too much"}'],
}


pay = text_tool("pay", "paid {cents}", {"cents": int}, logs=True)


def asks(info: TurnInfo | ReplyInfo) -> Tripped | None:
    """Let a person judge."""
    return Tripped(f"{info.text} is odd")


def agents() -> list[Agent]:
    model = scripts.scripted_model(scripts.of_environment())
    checker = Agent("checker", model=model, output_type=Opinion)
    policy = ApprovalPolicy(within=3600)
    ask = Guardrail(check=asks, on_trip="ask", approval=policy)
    clerk = Agent(
        "clerk",
        tools=[pay],
        model=model,
        guardrails=Guardrails(input=[ask], output=[ask], tools=[checker]),
    )
    hr = Agent("hr", tools=[clerk], model=model)
    return [Agent("boss", tools=[hr], model=model)]
