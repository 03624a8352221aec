"""Agents of the tests of the testing package."""

from __future__ import annotations

from datetime import timedelta

from continuations import Agent, ask, external, sleep, tool, wait_for
from continuations.models.scripted import Script, ScriptedModel, ToolCall
from continuations.testing import Effects
from continuations.tools import ToolWait


def make_clerk(effects: Effects) -> Agent[str]:
    """Return an agent that pays after an approval."""

    @tool(approval=True)
    def pay(person: str, cents: int) -> str:
        """Pay a person."""
        effects.record("pay", person=person, cents=cents)
        return f"paid {cents} cents"

    return Agent(
        "clerk",
        tools=[pay],
        model=ScriptedModel(
            [ToolCall("pay", {"person": "Jane", "cents": 500}), "Paid."]
        ),
    )


def make_boss(effects: Effects) -> Agent[str]:
    """Return an agent whose sub-agent pays after an approval."""
    script: Script = [ToolCall("clerk", {"input": "Pay Jane"}), "Done."]
    return Agent("boss", tools=[make_clerk(effects)], model=ScriptedModel(script))


def make_sleeper() -> Agent[str]:
    """Return an agent that sleeps a day, three times."""

    @tool
    def nap() -> ToolWait[str]:
        """Sleep a day."""
        return sleep(timedelta(days=1))

    return Agent(
        "sleeper", tools=[nap], model=ScriptedModel([*([ToolCall("nap")] * 3), "Up."])
    )


def make_asker() -> Agent[str]:
    """Return an agent that waits for a person, an event and a job at the same time."""

    @tool
    def colour() -> ToolWait[str]:
        """Ask for a colour."""
        return ask("Which colour?", str, within=timedelta(days=2))

    @tool
    def receipt(trip: str) -> ToolWait[dict[str, int]]:
        """Wait for a receipt."""
        return wait_for("receipt", dict[str, int], key=trip)

    @tool
    def scan() -> ToolWait[str]:
        """Scan a document."""
        return external("scan")

    calls = [
        ToolCall("colour"),
        ToolCall("receipt", {"trip": "Rome"}),
        ToolCall("scan"),
    ]
    return Agent(
        "asker", tools=[colour, receipt, scan], model=ScriptedModel([calls, "Ok."])
    )
