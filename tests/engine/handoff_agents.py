"""Agents that hand over to each other: triage, refunds and sales, below a boss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from continuations import Agent, Runner, tool
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ToolCall
from tests import effect_log
from tests.clocks import ManualClock


@tool(approval=True)
def refund(cents: int) -> str:
    """Refund money."""
    effect_log.append_effect(f"refund {cents}")
    return f"refunded {cents}"


@tool
def look_up(order: str) -> str:
    """Look an order up."""
    effect_log.append_effect(f"look_up {order}")
    return f"order {order}"


def last_of(request: ModelRequest) -> tuple[str, str]:
    """Return the role and the text of the last message of a request."""
    last = request.messages[-1]
    return last.role, last.content


class Shop:
    """Three agents that hand over to each other, and what their models were sent."""

    def __init__(self, **options: Any) -> None:
        self.seen: list[tuple[str, tuple[str, ...], str]] = []
        self.refunds: Agent[str] = Agent(
            "refunds",
            instructions="You refund.",
            description="Refunds money.",
            model=self.model(self.refunds_says),
            tools=[refund],
            handoffs=lambda: [self.triage],
        )
        self.sales: Agent[str] = Agent(
            "sales", instructions="You sell.", model=self.model(lambda _: "sold")
        )
        self.triage: Agent[str] = Agent(
            "triage",
            instructions="You route.",
            model=self.model(self.triage_says),
            tools=[look_up],
            handoffs=[options.pop("refunds", self.refunds), self.sales],
            **options,
        )

    def model(self, says: Callable[[ModelRequest], Any]) -> ScriptedModel:
        def reply(request: ModelRequest) -> Any:
            tools = tuple(each.name for each in request.tools)
            system = [m.content for m in request.messages if m.role == "system"]
            self.seen.append((request.agent, tools, " ".join(system)))
            return says(request)

        return ScriptedModel(reply)

    def triage_says(self, request: ModelRequest) -> Any:
        """Hand over for a refund."""
        role, text = last_of(request)
        if role == "user" and "refund" in text:
            return ToolCall("transfer_to_refunds", {})
        if role == "user" and "both" in text:
            names = ("transfer_to_refunds", "transfer_to_sales")
            look = ToolCall("look_up", {"order": "o1"})
            return [look, *(ToolCall(name, {}) for name in names)]
        return f"triage: {text}"

    def refunds_says(self, request: ModelRequest) -> Any:
        """Refund, or hand back."""
        role, text = last_of(request)
        if role == "tool" and ("conversation" in text or "handoff" in text):
            return ToolCall("refund", {"cents": 5})
        if role == "user" and "back" in text:
            return ToolCall("transfer_to_triage", {})
        return f"refunds: {text}"

    def runner(self, store: Any, **options: Any) -> Runner:
        options.setdefault("clock", ManualClock())
        return Runner(self.triage, store=store, **options)


def boss() -> Agent[str]:
    """Return an agent above the shop."""

    def says(request: ModelRequest) -> Any:
        role, text = last_of(request)
        return ToolCall("triage", {"input": "a refund"}) if role == "user" else text

    return Agent("boss", tools=[Shop().triage], model=ScriptedModel(says))


def agents() -> list[Agent[str]]:
    return [boss()]
