"""Runs that wait in every way that a link can show, behind a real HTTP server."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Runner,
    ask,
    escalate,
    external,
    tool,
    wait_for,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http import asgi
from continuations.serve.http.api import HttpApi
from continuations.serve.http.links import Links
from continuations.tools import Money, Secret
from continuations_storage import MemoryStore
from tests.browser.served_app import served
from tests.clocks import OffsetClock

if TYPE_CHECKING:
    from collections.abc import Generator

    from continuations import Wait

SECRET = "0123456789abcdef" * 2
DAY = timedelta(days=1)
IBAN = "DE89 3704 0044 0532 0130 00"


class Address(BaseModel):
    """Where a parcel goes."""

    street: str
    city: str


class Laptop(BaseModel):
    """The laptop of a new person."""

    model: str
    memory_gb: int
    deliver_to: Address


@tool(read_only=True)
def match_order(invoice: str) -> str:
    """Compare an invoice with its purchase order."""
    return f"{invoice} matches purchase order 4471: same supplier, same amount"


@tool(
    approval=ApprovalPolicy(
        approvers=["kim", "lee", "ruth"],
        votes=2,
        not_requester=True,
        within=2 * DAY,
        on_deadline=escalate(to=["cfo"], within=DAY),
    ),
    summary="Send {cents} to {to}",
    reversible=False,
)
def transfer(
    to: str,
    cents: Annotated[int, Money("EUR", 100)],
    on: date,
    iban: str,
    pin: Annotated[str, Secret()],
    lines: list[dict[str, Any]],
) -> str:
    """Send money.

    Args:
        to: The account that receives.
        cents: The amount.
        on: The day of the transfer.
        iban: The number of the account.
        pin: The pin of the account that pays.
        lines: The lines of the invoice.
    """
    del on, iban, pin, lines
    return f"sent {cents} to {to}"


@tool(approval=ApprovalPolicy(within=DAY, on_denied="stop"))
def delete_account(name: str, reason: str = "") -> str:
    """Delete an account."""
    del reason
    return f"{name} is deleted"


@tool(timeout=0.05, on_timeout="unknown")
async def charge(cents: int) -> str:
    """Charge a card, and get no reply."""
    await asyncio.sleep(60)
    return f"charged {cents}"


@tool
def choose_laptop(person: str) -> Any:
    """Ask for a laptop."""
    return ask(f"Which laptop does {person} get?", Laptop, within=3 * DAY)


@tool
def ask_name(of: str) -> Any:
    """Ask for a name."""
    return ask(f"What is the name of {of}?")


@tool
def receipt(claim: str) -> Any:
    """Wait for a receipt."""
    return wait_for("receipt", key=claim)


@tool
def render(film: str) -> Any:
    """Start a job of another system."""
    return external(f"Render {film}", within=DAY)


TRANSFER = {
    "to": "Meridian Freight GmbH",
    "cents": 1240000,
    "on": "2026-11-24",
    "iban": IBAN,
    "pin": "9876",
    "lines": [{"item": "Freight Oslo", "cents": 1200000}, {"item": "Tax", "cents": 1}],
}
DELETE = {"name": "bob", "reason": "x" * 400}


@dataclass
class LinkScenes:
    """A store with runs, and the links of their waits.

    Attributes:
        base_url: The URL of the server.
        clock: The clock of the runs and of the links.
    """

    base_url: str
    clock: OffsetClock = field(default_factory=OffsetClock)

    def __post_init__(self) -> None:
        self.store = MemoryStore()
        self.links = Links(SECRET, base_url=self.base_url, clock=self.clock)
        self.tools: list[Any] = [match_order, transfer, delete_account, charge]
        self.tools += [choose_laptop, ask_name, receipt, render]

    def api(self) -> HttpApi:
        """Return the API that answers the links."""
        runner = AsyncRunner([], store=self.store, clock=self.clock)
        return HttpApi(runner, links=self.links, clock=self.clock)

    def runner_of(self, *turns: Any) -> Runner:
        """Return a runner whose agent has these turns."""
        clerk = Agent("clerk", tools=self.tools, model=ScriptedModel(list(turns)))
        call = ToolCall("clerk", {"input": "go"})
        boss = Agent("boss", tools=[clerk], model=ScriptedModel([call, "done"]))
        return Runner(boss, store=self.store, clock=self.clock)

    def wait_of(self, name: str, *turns: Any) -> Wait:
        """Start a run that makes these turns, and return its wait."""
        runner = self.runner_of(*turns, "done")
        runner.start("Pay the invoices of November", run_id=name, by="ines")
        [wait] = runner.look(name).waits
        return wait

    def calling(self, run_id: str, tool_name: str, /, **arguments: Any) -> Wait:
        """Start a run that calls a tool, and return its wait."""
        return self.wait_of(run_id, ToolCall(tool_name, arguments))

    def transfer_wait(self, name: str) -> Wait:
        """Start a run that wants to send money, after a tool found something."""
        look = ToolCall("match_order", {"invoice": "INV-20931"})
        return self.wait_of(name, look, ToolCall("transfer", TRANSFER))

    def link(self, wait: Wait, actor: str | None = "kim") -> str:
        """Return the link of a person."""
        return self.links.link(wait, actor=actor, until=self.clock.now() + 90 * DAY)

    def urls(self) -> dict[str, str]:
        """Return a URL for each page that a GET can show."""
        decider = Runner([], store=self.store, clock=self.clock)
        expired = self.calling("expired", "delete_account", **DELETE)
        escalated = self.transfer_wait("escalated")
        self.clock.offset_seconds += 3 * DAY.total_seconds()
        worker = self.runner_of("done", "done")
        worker.resume("expired")
        worker.resume("escalated")

        approved = self.calling("approved", "delete_account", **DELETE)
        edit = {"name": "bob.miller", "reason": "left"}
        decider.decide(approved.id, Approve(by="kim", arguments=edit))
        denied = self.calling("denied", "delete_account", **DELETE)
        decider.decide(denied.id, Deny(by="lee", reason="Bob is on holiday."))
        answered = self.calling("answered", "ask_name", of="the cat")
        cancelled = self.calling("cancelled", "delete_account", **DELETE)
        decider.cancel("cancelled", by="lee", reason="The claim was a test.")
        voted = self.transfer_wait("voted")
        decider.decide(voted.id, Approve(by="kim"))
        return {
            "approval": self.link(self.calling("a", "delete_account", **DELETE)),
            "approval by votes": self.link(self.transfer_wait("b")),
            "one vote is there": self.link(voted, "ruth"),
            "after the own vote": self.link(voted),
            "of the requester": self.link(voted, "ines"),
            "without a name": self.link(voted, None),
            "after the escalation": self.link(decider.wait(escalated.id), "cfo"),
            "question": self.link(answered),
            "question with a form": self.link(
                self.calling("c", "choose_laptop", person="Jane")
            ),
            "unknown outcome": self.link(self.calling("d", "charge", cents=4200)),
            "event": self.link(self.calling("e", "receipt", claim="claim-7")),
            "job": self.link(self.calling("f", "render", film="Metropolis")),
            "approved with an edit": self.link(approved),
            "denied": self.link(denied),
            "expired": self.link(expired),
            "cancelled": self.link(cancelled),
            "invalid link": f"{self.base_url}/d/not-a-token",
        }


@contextmanager
def run_server() -> Generator[LinkScenes]:
    """Serve the pages of some runs on a free port of this machine."""
    scenes: LinkScenes | None = None

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scenes is not None
        await asgi.app(scenes.api())(scope, receive, send)

    with served(app) as url:
        scenes = LinkScenes(url)
        yield scenes
