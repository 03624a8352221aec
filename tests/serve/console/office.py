"""A store with runs of all states, and consoles on it."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from html import unescape
from typing import Any

from continuations import (
    Agent,
    ApprovalPolicy,
    AsyncRunner,
    Runner,
    ask,
    external,
    sleep,
    tool,
    wait_for,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.clocks import ManualClock
from tests.serve.console.console_client import ConsoleClient


@tool(approval=ApprovalPolicy(approvers=["kim"]))
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool(approval=ApprovalPolicy(approvers=["group:finance"], votes=2))
def transfer(cents: int) -> str:
    """Transfer."""
    return f"moved {cents}"


@tool(approval=True)
def delete(name: str) -> str:
    """Delete."""
    return name


@tool
def choose(of: str) -> Any:
    """Ask."""
    return ask(f"Which {of}?")


@tool
def ask_within(seconds: int) -> Any:
    """Ask for some time."""
    return ask("Now?", within=timedelta(seconds=seconds))


@tool(idempotent=True)
def nap(hours: int) -> Any:
    """Sleep."""
    return sleep(timedelta(hours=hours))


@tool(idempotent=True)
def receipt(claim: str) -> Any:
    """Wait for a receipt."""
    return wait_for("receipt", key=claim)


@tool(idempotent=True)
def render(film: str) -> Any:
    """Wait for a job."""
    return external(f"film {film}")


TOOLS: list[Any] = [pay, transfer, delete, choose, ask_within, nap, receipt, render]


class Office:
    """A store with runs, and a console on it.

    Args:
        seconds: The time since the start of the year 2026.

    Attributes:
        clock: The clock of all processes.
        store: The store; it counts its requests.
    """

    def __init__(self, seconds: float = 12 * 3600.0) -> None:
        self.clock = ManualClock(seconds)
        self.store = FaultyStore(MemoryStore())

    def runner(self, *replies: Any, agent: str = "clerk", **options: Any) -> Runner:
        model = ScriptedModel([*replies])
        clerk = Agent(agent, tools=TOOLS, model=model)
        return Runner(clerk, store=self.store, clock=self.clock, **options)

    def start(self, run_id: str, *replies: Any, **options: Any) -> Runner:
        """Start a run with the replies of its model, and return its runner."""
        agent = options.pop("agent", "clerk")
        runner = self.runner(*replies, agent=agent, model_retry_time=0)
        runner.start("go", run_id=run_id, **options)
        self.clock.seconds += 60
        return runner

    def client(self, person: str = "kim", **options: Any) -> ConsoleClient:
        """Return a client of a new process."""
        runner = AsyncRunner([], store=self.store, clock=self.clock)
        own = {"clock": self.clock, **options}
        return ConsoleClient(runner, options=own, person=person)

    def requests(self) -> dict[str, int]:
        """Return how many requests the store got by verb, and forget them."""
        verbs = [each.verb for each in self.store.operations]
        self.store.operations.clear()
        return {verb: verbs.count(verb) for verb in set(verbs)}


def text_of(html: str) -> str:
    """Return the text of HTML, with single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def html_of(client: ConsoleClient, path: str) -> str:
    """Return the HTML of a page."""
    response = asyncio.run(client.get(path))
    assert 200 == response.status_code, response.text
    return response.text


def runs_in(html: str) -> list[str]:
    """Return the runs of the rows of a list."""
    return re.findall(r'<h[23]><a href="/(?:runs|threads)/([^"]+)">', html)


def states_in(html: str) -> dict[str, str]:
    """Return the states of the rows of a list, in words."""
    rows = re.findall(
        r"<li><span class=\"state\">(.*?)<h2>.*?/runs/([^\"]+)", html, re.DOTALL
    )
    return {run_id: text_of(state) for state, run_id in rows}


def call(name: str, /, **arguments: Any) -> ToolCall:
    """Return a reply that calls a tool."""
    return ToolCall(name, arguments)


def filled(office: Office | None = None) -> Office:
    """Return an office with some runs of two agents."""
    office = office or Office()
    for number in range(5):
        office.start(f"ship-{number}", "done", agent="shipping", title=f"Box {number}")
    office.start(
        "inv-12",
        call("pay", cents=5),
        title="Invoice INV-12 of Meridian",
        labels={"team": "finance"},
        by="ines",
    )
    office.start("inv-1", call("nap", hours=1), title="Remind Ines")
    return office
