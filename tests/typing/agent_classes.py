"""Agents as classes are typed: tools and tasks lose `self`, tasks have their output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from continuations import Agent, Finished, Runner, run, task, tool


@dataclass
class Plan:
    """A typed output."""

    modules: int


class Desk(Agent):
    """You plan."""

    model = "gpt-5-mini"
    max_turns = 4
    settings = {"temperature": 0}  # noqa: RUF012 - no reader changes it

    @tool(approval=True)
    def refund(self, order: str, cents: int = 5) -> str:
        """Pay back."""
        return f"{self.name} {order} {cents}"

    @task
    def plan(self, brief: str, *, modules: int = 3) -> Plan:
        """Plan it."""
        raise NotImplementedError


desk = Desk()
assert_type(desk.refund("A", cents=3), str)
assert_type(desk.plan.input("dates", modules=2), str)
desk.plan.input(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
desk.refund(order=5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
outcome = run(desk.plan, desk.plan.input("dates"))
if isinstance(outcome, Finished):
    assert_type(outcome.output, Plan)
runner: Runner[Plan] = Runner(desk.plan, store="memory:")
boss = Agent("boss", tools=[desk, desk.plan, desk.refund])


@tool
def plain(order: str) -> int:
    """Count."""
    return len(order)


assert_type(plain(order="A"), int)


class NightDesk(Desk):
    """You plan at night. `self: Desk` keeps the type of the tool that is overridden."""

    @tool(approval=True)
    def refund(self: Desk, order: str, cents: int = 5) -> str:
        """Pay back later."""
        return f"{self.name} {order} {cents} tomorrow"


assert_type(NightDesk().refund("A", cents=3), str)


class StrictDesk(Desk):
    """You plan with a reason. Another signature needs an ignore of pyright alone."""

    @tool(approval=True)
    def refund(  # pyright: ignore[reportIncompatibleVariableOverride]
        self: Desk, order: str, cents: int = 5, why: str = ""
    ) -> str:
        """Pay back for a reason."""
        return f"{self.name} {order} {cents} {why}"


assert_type(StrictDesk().refund("A", why="broken"), str)
