"""Five different waits behind a console, in a real server."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Identity,
    Runner,
    ask,
    escalate,
    tool,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve import console
from continuations.tools import Money
from continuations_storage import MemoryStore
from tests.browser.served_app import serve
from tests.clocks import OffsetClock

if TYPE_CHECKING:
    from collections.abc import Generator

    from continuations import Wait
    from continuations.serve.http.request_response import Request

DAY = timedelta(days=1)


class Laptop(BaseModel):
    """The laptop of a new person."""

    model: str = Field(description="One of the catalog: T14, X1 or M3.")
    extended_warranty: bool = False


@tool(read_only=True)
def match_order(invoice: str) -> str:
    """Compare an invoice with its purchase order."""
    return f"Invoice {invoice} matches purchase order 4471: same supplier, same amount"


@tool(
    approval=ApprovalPolicy(
        name="large_transfer",
        approvers=["kim", "ruth", "lee"],
        votes=2,
        not_requester=True,
        within=timedelta(days=2, hours=11),
    ),
    summary="Send {cents} from {source} to {to}",
    reversible=False,
)
def transfer(
    to: str,
    cents: Annotated[int, Money("EUR", 100)],
    iban: str,
    source: str,
    reference: str,
    execute_on: date = date(2026, 11, 24),
) -> str:
    """Send money.

    Args:
        to: Account that receives.
        cents: Amount.
        iban: Number of the account that receives.
        source: Account that pays.
        reference: Text on the statement.
        execute_on: Day of the transfer.
    """
    del iban, reference, execute_on
    return f"sent {cents} from {source} to {to}"


@tool(
    approval=ApprovalPolicy(
        approvers=["kim"],
        within=timedelta(hours=4),
        on_deadline=escalate(to=["head-of-support"], within=DAY),
    ),
    summary="Refund {cents} to {customer}",
    reversible=True,
)
def refund(customer: str, cents: Annotated[int, Money("EUR", 100)], order: str) -> str:
    """Give money back.

    Args:
        customer: The customer who gets the money.
        cents: Amount.
        order: Number of the order.
    """
    return f"{order}: {cents} to {customer}"


@tool(
    approval=ApprovalPolicy(within=4 * DAY, on_expired="stop"),
    summary="Send the newsletter {subject} to {readers} readers",
    reversible=False,
)
def send_campaign(subject: str, readers: int, list_name: str) -> str:
    """Send a newsletter.

    Args:
        subject: The subject of the mail.
        readers: How many people get it.
        list_name: The list of readers.
    """
    del readers, list_name
    return subject


@tool(timeout=0.05, on_timeout="unknown", summary="Pay {cents} to {to}")
async def pay(to: str, cents: Annotated[int, Money("EUR", 100)]) -> str:
    """Pay, and get no reply in time.

    Args:
        to: Account that receives.
        cents: Amount.
    """
    import asyncio  # noqa: PLC0415 - this tool only

    await asyncio.sleep(60)
    return f"paid {cents} to {to}"


@tool
def choose_laptop(person: str, budget: Annotated[int, Money("EUR", 1)]) -> Any:
    """Ask for a laptop.

    Args:
        person: The person who gets it.
        budget: The most that it may cost.
    """
    del budget
    return ask(
        f"Which laptop does {person} get on Monday?",
        Laptop,
        within=timedelta(hours=3),
        on_deadline=Answer({"model": "T14", "extended_warranty": False}),
    )


TRANSFER = {
    "to": "Meridian Freight GmbH",
    "cents": 1240000,
    "iban": "DE89 3704 0044 0532 0130 00",
    "source": "Operations",
    "reference": "INV-20931 / PO 4471",
}
CALLS: dict[str, tuple[ToolCall, ...]] = {
    "transfer": (
        ToolCall("match_order", {"invoice": "INV-20931"}),
        ToolCall("transfer", TRANSFER),
    ),
    "refund": (
        ToolCall("refund", {"customer": "Jane Okafor", "cents": 4250, "order": "B-7"}),
    ),
    "campaign": (
        ToolCall(
            "send_campaign",
            {
                "subject": "Winter service week",
                "readers": 18204,
                "list_name": "newsletter",
            },
        ),
    ),
    "payment": (ToolCall("pay", {"to": "Kettenwerk AG", "cents": 318240}),),
    "laptop": (ToolCall("choose_laptop", {"person": "Jane Okafor", "budget": 1800}),),
}
TOOLS: list[Any] = [match_order, transfer, refund, send_campaign, pay, choose_laptop]


@dataclass
class WaitScenes:
    """A store with waits, and the console that shows them to kim.

    Attributes:
        base_url: The address of the server.
        clock: The clock of the runs and of the console.
    """

    base_url: str = ""
    clock: OffsetClock = field(default_factory=OffsetClock)

    def __post_init__(self) -> None:
        self.store = MemoryStore()
        self.decider = Runner([], store=self.store, clock=self.clock)

    def app(self) -> Any:
        """Return the console; a header or cookie names another person than kim."""
        runner = AsyncRunner([], store=self.store, clock=self.clock)
        return console.app(runner, verify=_verify, clock=self.clock)

    def runner_of(self, *turns: Any) -> Runner:
        """Return a runner whose agent has these turns."""
        payables = Agent("payables", tools=TOOLS, model=ScriptedModel(list(turns)))
        call = ToolCall("payables", {"input": "go"})
        boss = Agent(
            "back-office", tools=[payables], model=ScriptedModel([call, "done"])
        )
        return Runner(boss, store=self.store, clock=self.clock)

    def open(self, name: str, run_id: str = "") -> Wait:
        """Start the run of one scene, and return its wait."""
        return self.start(run_id or name, *CALLS[name])

    def start(self, run_id: str, *turns: Any) -> Wait:
        """Start a run with these turns, and return its wait."""
        runner = self.runner_of(*turns, "done")
        runner.start("Pay the invoices of November", run_id=run_id, by="ines")
        [wait] = runner.look(run_id).waits
        return wait

    def examined(self) -> dict[str, str]:
        """Return the paths of the five waits of the examination."""
        waits = {name: self.open(name) for name in CALLS}
        self.decider.decide(waits["transfer"].id, Approve(by="ruth"))
        return {name: f"/waits/{wait.id}" for name, wait in waits.items()}

    def url(self, wait: Wait) -> str:
        """Return the address of a wait's page."""
        return f"{self.base_url}/waits/{wait.id}"


def _verify(request: Request) -> Identity:
    cookies = request.headers.get("cookie", "")
    return Identity(cookies.partition("person=")[2].partition(";")[0] or "kim")


@contextmanager
def run_console() -> Generator[WaitScenes]:
    """Serve the console on a free port of this machine."""
    scenes = WaitScenes()
    with serve(scenes.app()) as port:
        scenes.base_url = f"http://127.0.0.1:{port}"
        yield scenes
