"""Agents as classes, three levels deep, for tests in fresh interpreters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from continuations import Agent, ask, task, tool
from continuations.tools import ToolWait
from tests import effect_log
from tests.scripts import call, scripted_model

SCRIPT: Any = {
    "go": [[call("designer_plan", brief="dates", modules=2)], "built"],
    '{"brief":"dates","modules":2}': [
        [call("writer", input="parser")],
        '{"names": ["parser", "format"]}',
    ],
    "parser": [[call("publish", name="parser"), call("confirm")], "written"],
}


@dataclass
class Plan:
    """A typed result."""

    names: list[str]


class Shop:
    """The application behind the tools."""

    def publish(self, name: str) -> str:
        effect_log.append_effect("publish", name)
        return f"published {name}"


class Writer(Agent):
    """You write modules."""

    model = scripted_model(SCRIPT)

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        super().__init__()

    @tool(approval=True)
    def publish(self, name: str) -> str:
        """Publish a module."""
        return self.shop.publish(name)

    @tool
    def confirm(self) -> ToolWait[str]:
        """Ask a person."""
        return ask("Is it good?")

    @confirm.on_answer
    def _confirmed(self, answer: str) -> str:
        return f"{type(self.shop).__name__} heard {answer}"


class Designer(Agent):
    """You design libraries."""

    model = Writer.model

    def tools(self) -> list[Agent]:
        return [Writer(Shop())]

    @task
    def plan(self, brief: str, modules: int = 3) -> Plan:
        """Plan a library.

        Name its modules.
        """
        raise NotImplementedError


class Boss(Agent):
    """You build libraries."""

    model = Writer.model
    tools = (Designer().plan,)


def agents() -> list[Agent]:
    """Return the root agent, above two others."""
    return [Boss()]
