"""Guardrails, hooks and budgets where one rule meets another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from continuations import (
    Agent,
    Approve,
    Budget,
    Failed,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    run,
    tool,
)
from continuations.errors import ModelError, PriceUnknown
from continuations.guardrails import Guardrail, Guardrails, Tripped
from continuations.hooks import CallInfo, Hooks
from continuations.models.interface import Message, ModelReply, ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.prices import Price, Prices, Usage
from tests.outcomes import expect


def large(call: CallInfo) -> Tripped | None:
    """Stop a large payment."""
    return Tripped("it is large") if call.arguments["cents"] > 100 else None


def blocked(call: CallInfo) -> Tripped | None:
    """Stop a payment to a blocked account."""
    return Tripped("it is blocked") if call.arguments["to"] == "evil" else None


def payer(paid: list[Any], to: str, guardrails: Guardrails) -> Runner:
    """Return a runner whose agent pays once, and is asked for each payment."""

    @tool(approval=True)
    def pay(to: str, cents: int) -> str:
        """Pay."""
        paid.append((to, cents))
        return "paid"

    model = ScriptedModel([ToolCall("pay", {"to": to, "cents": 500}), "done"])
    agent = Agent("a", tools=[pay], model=model, guardrails=guardrails)
    return Runner(agent, store="memory:")


@pytest.mark.parametrize("asks_first", [True, False])
def test_guardrail_that_refuses_counts_in_every_order(*, asks_first: bool) -> None:
    paid: list[Any] = []
    checks = [Guardrail(check=large, on_trip="ask"), Guardrail(check=blocked)]
    order = checks if asks_first else checks[::-1]

    outcome = expect(payer(paid, "evil", Guardrails(tools=order)).start("go"), Finished)

    assert [] == paid
    refused = outcome.continuation.root.messages[-2]["content"]
    assert "it is blocked" in refused


def test_edited_arguments_are_checked_by_a_guardrail_that_refuses() -> None:
    """A person answers a guardrail that asks, and does not overrule the other one."""
    paid: list[Any] = []
    checks = [Guardrail(check=large, on_trip="ask"), Guardrail(check=blocked)]
    runner = payer(paid, "good", Guardrails(tools=checks))
    waiting = expect(runner.start("go", run_id="r"), Suspended)
    edited = Approve(by="kim", arguments={"to": "evil", "cents": 500})
    runner.decide(waiting.waits[0].id, edited)

    assert isinstance(runner.resume("r"), Finished)

    assert [] == paid


def test_approved_call_of_a_guardrail_that_asks_runs() -> None:
    paid: list[Any] = []
    asking = Guardrails(tools=[Guardrail(check=large, on_trip="ask")])
    runner = payer(paid, "good", asking)
    waiting = expect(runner.start("go", run_id="r"), Suspended)
    runner.decide(waiting.waits[0].id, Approve(by="kim"))

    assert isinstance(runner.resume("r"), Finished)
    assert [("good", 500)] == paid


@dataclass
class Count:
    """A state."""

    n: int = 0


def test_hook_that_observes_a_result_keeps_the_state() -> None:
    seen: list[str] = []

    @tool(writes_state=True)
    def add(ctx: ToolContext) -> str:
        """Add one."""
        ctx.update(n=ctx.state.n + 1)
        return "ok"

    model = ScriptedModel([[ToolCall("add", {}), ToolCall("add", {})], "done"])
    hooks = Hooks(after_tool=lambda info: seen.append(info.text))
    outcome = run(Agent("a", tools=[add], model=model, state=Count, hooks=hooks), "go")

    assert isinstance(outcome, Finished)
    assert ["ok", "ok"] == seen
    assert {"n": 2} == outcome.continuation.root.state


class Reporting:
    """A model that reports a usage."""

    name = "m"

    def __init__(self, usage: Any) -> None:
        self.usage = usage
        self.asked = 0

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return a reply with the usage."""
        del request
        self.asked += 1
        message = Message.from_mapping({"role": "assistant", "content": "hello"})
        return ModelReply(message=message, usage=self.usage)


PRICES = Prices({"m": Price(input="1", output="1")})


@pytest.mark.parametrize(
    "usage",
    [
        Usage(requests=1, input_tokens=-5),
        Usage(requests=1, input_tokens=5, cached_tokens=-1000),
        Usage(requests=1, input_tokens=1.5),  # type: ignore[arg-type]
        Usage(requests=1, input_tokens=10**30),
        Usage(requests=1, input_tokens=5, cost_units=-1, priced=6, currency="USD"),
        None,
    ],
    ids=["negative", "cached", "float", "huge", "credit", "none"],
)
def test_usage_that_is_no_count_is_refused(usage: Any) -> None:
    """The error names the usage, and the run can be read and resumed."""
    model = Reporting(usage)
    runner = Runner(Agent("a", model=model), store="memory:", prices=PRICES)
    with pytest.raises(ModelError, match="usage"):
        runner.start("go", run_id="r", budget=Budget(cost="5"))

    assert not runner.look("r").usage.cost_units
    model.usage = Usage(requests=1, input_tokens=5, output_tokens=1)
    assert isinstance(runner.resume("r"), Finished)


def test_reply_without_tokens_has_no_known_cost() -> None:
    """A budget in money then ends the run: a missing count is never no limit."""
    model = Reporting(Usage(requests=1))
    runner = Runner(Agent("a", model=model), store="memory:", prices=PRICES)

    outcome = runner.start("go", budget=Budget(cost="5"))

    assert isinstance(outcome, Finished | Failed)
    assert outcome.continuation.usage.cost is None
    assert 1 == model.asked


@dataclass
class Opinion:
    """The output of an agent that checks."""

    tripped: bool
    reason: str


def test_agent_of_a_guardrail_needs_a_price() -> None:
    judge = Agent("judge", model=Reporting(None), output_type=Opinion)
    judge_model: Any = judge.model
    judge_model.name = "unknown-model"
    guardrails = Guardrails(input=[Guardrail(check=judge)])
    agent = Agent("a", model=Reporting(None), guardrails=guardrails)
    runner = Runner(agent, store="memory:", prices=PRICES)

    with pytest.raises(PriceUnknown, match="unknown-model"):
        runner.start("go", run_id="r", budget=Budget(cost="5"))
