"""The console in a browser, with runs that wait in several ways: `make demo-web`.

    python examples/web_demo/app.py              # the store is in the folder .demo-web

One process serves the console and works: after each decision, the run goes on at once.
The models are scripted, so it needs no API key and no network. Ctrl-C ends it; start it
again, and the runs are where they were.
"""

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

import uvicorn

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Identity,
    Runner,
    Suspended,
    ask,
    sleep,
    tool,
)
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall
from continuations.serve import console
from continuations.serve.lifespan import worker_lifespan
from continuations.tools import Money, ToolWait

# A worker that died holds its run for this time, in seconds.
LEASE = 2.0

# The tools -------------------------------------------------------------------------


@tool(
    approval=ApprovalPolicy(
        approvers=["group:finance"],
        votes=2,
        expires_after=timedelta(days=3),
    ),
    summary="Send {cents} from {source} to {to}",
    reversible=False,
)
def transfer(
    source: str, to: str, cents: Annotated[int, Money("EUR", 100)], invoice: str
) -> str:
    """Send money to a supplier.

    Args:
        source: The account that pays.
        to: The account that receives.
        cents: The amount.
        invoice: The text on the statement.
    """
    return f"sent {cents / 100:.2f} EUR from {source} to {to} for {invoice}"


@tool(read_only=True)
def find_invoice(invoice: str) -> str:
    """Find an invoice."""
    return f"{invoice}: Meridian Freight GmbH, 12,400.00 EUR, due on Friday"


@tool(summary="Book {invoice} as paid")
def book(invoice: str) -> str:
    """Write to the ledger."""
    if os.environ.get("WEB_DEMO_DIES") == invoice:
        os._exit(1)  # as a machine that loses its power
    return f"{invoice} is booked"


@tool(summary="Choose a laptop for {person}")
def choose_laptop(person: str) -> ToolWait[str]:
    """Ask which laptop a person gets."""
    return ask(
        f"Which laptop for {person}, who starts on Monday?",
        Literal["14 inch, light", "16 inch, fast", "the standard model"],
        within=timedelta(hours=20),
        on_deadline=Deny(reason="the standard model is ordered"),
    )


@tool
def wait_until_tomorrow() -> ToolWait[str]:
    """Wait until tomorrow."""
    return sleep(timedelta(hours=16))


@tool(approval=True, summary="Refund {cents} for order {order}", reversible=False)
def refund(order: str, cents: Annotated[int, Money("EUR", 100)]) -> str:
    """Refund an order.

    Args:
        order: The number of the order.
        cents: The amount.
    """
    return f"refunded {cents / 100:.2f} EUR for {order}"


# The agents ------------------------------------------------------------------------

PAY = {
    "source": "Operations",
    "to": "Meridian Freight GmbH",
    "cents": 1_240_000,
    "invoice": "INV-20931",
}
SCRIPT: dict[str, list[ScriptedReply]] = {
    "Pay INV-20931": [
        ToolCall("payables", {"input": "INV-20931 of Meridian Freight"}),
        "INV-20931 is settled.",
    ],
    "INV-20931 of Meridian Freight": [
        ToolCall("banking", {"input": "Pay INV-20931 today"}),
        "The supplier has its money.",
    ],
    "Pay INV-20931 today": [
        ToolCall("find_invoice", {"invoice": "INV-20931"}),
        {
            "role": "assistant",
            "content": "The invoice is due on Friday. The discount is taken off.",
            "tool_calls": [
                {
                    "id": "pay-1",
                    "type": "function",
                    "function": {"name": "transfer", "arguments": json.dumps(PAY)},
                }
            ],
        },
        "The bank took it.",
    ],
    "Book INV-114": [
        ToolCall("payables", {"input": "INV-114 of Kettenwerk"}),
        "INV-114 is booked.",
    ],
    "INV-114 of Kettenwerk": [ToolCall("book", {"invoice": "INV-114"}), "Booked."],
    "Prepare Jane Okafor's first day": [
        ToolCall("it-team", {"input": "A laptop for Jane Okafor"}),
        "Jane's first day is prepared.",
    ],
    "A laptop for Jane Okafor": [
        ToolCall("choose_laptop", {"person": "Jane Okafor"}),
        "It is ordered.",
    ],
    "Remind Ines about INV-98": [
        ToolCall("wait_until_tomorrow", {}),
        "Ines knows.",
    ],
    "My order A-17 arrived broken.": [
        ToolCall("refund", {"order": "A-17", "cents": 1250}),
        "I am sorry about that. 12.50 EUR are on their way.",
    ],
}


def reply(request: ModelRequest) -> ScriptedReply:
    """Return the next line of the script; the first user message selects it."""
    messages = [message.data for message in request.messages]
    task = next(str(each["content"]) for each in messages if each["role"] == "user")
    lines = SCRIPT.get(task, ["I can only repeat the demonstration."])
    turn = [each["role"] for each in messages].count("assistant")
    return lines[min(turn, len(lines) - 1)]


MODEL = ScriptedModel(reply)
banking = Agent("banking", tools=[find_invoice, transfer], model=MODEL)
payables = Agent("payables", tools=[banking, book], model=MODEL)
it_team = Agent("it-team", tools=[choose_laptop], model=MODEL)
back_office = Agent(
    "back-office", tools=[payables, it_team, wait_until_tomorrow], model=MODEL
)
support = Agent("support", tools=[refund], model=MODEL)
AGENTS = [back_office, support]


# The runs --------------------------------------------------------------------------


def start_runs(store: str) -> None:
    """Start the runs of the demonstration, if the store does not have them."""
    runner = Runner(AGENTS, store=store, lease=LEASE)
    if any(True for _ in runner.runs()):
        return
    paid = runner.start(
        "Pay INV-20931",
        run_id="inv-20931",
        agent="back-office",
        title="Invoice INV-20931",
        labels={"team": "finance"},
        by="ines",
    )
    if isinstance(paid, Suspended):
        jo = Identity("jo", frozenset({"finance"}))
        runner.decide(paid.waits[0].id, Approve(by=jo))
    for task, run_id in (
        ("Prepare Jane Okafor's first day", "jane-okafor"),
        ("Remind Ines about INV-98", "inv-98"),
    ):
        runner.start(task, run_id=run_id, agent="back-office", title=task, by="ines")
    chat = runner.thread("support", key="customer 42", title="Order A-17")
    chat.send("My order A-17 arrived broken.", by="customer 42")
    start_and_die(store)


def start_and_die(store: str) -> None:
    """Let a process die during a call, whose outcome is then unknown."""
    command = [sys.executable, __file__, "--store", store, "--die"]
    subprocess.run(command, env={**os.environ, "WEB_DEMO_DIES": "INV-114"}, check=False)
    time.sleep(LEASE + 0.5)  # the claim of the dead process ends
    Runner(AGENTS, store=store, lease=LEASE).resume("inv-114")


# The server ------------------------------------------------------------------------


def serve(store: str, port: int) -> None:
    """Serve the console on this machine, and work on the runs, until Ctrl-C."""
    listener = socket.create_server(("127.0.0.1", port))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def show_address(path: str) -> None:
        sys.stdout.write(f"Open {address}{path}\n")
        sys.stdout.flush()

    runner = AsyncRunner(AGENTS, store=store)
    kim = console.local("kim", groups=["finance"], on_sign_out=show_address)
    app = console.app(runner, verify=kim, lifespan=worker_lifespan(runner, grace=3.0))
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2)
    with suppress(KeyboardInterrupt):
        show_address(kim.sign_in_path)
        sys.stdout.write("Ctrl-C ends it.\n")
        sys.stdout.flush()
        asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
    sys.stdout.write("Stopped. The runs are kept.\n")


def main() -> None:
    """Start the runs, then serve."""
    parser = argparse.ArgumentParser(description="Serve the console.")
    folder = Path.cwd() / ".demo-web"
    parser.add_argument("--store", default=f"sqlite:{folder / 'runs.db'}")
    parser.add_argument("--port", type=int, default=0, help="by default a free one")
    parser.add_argument("--die", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.die:
        Runner(AGENTS, store=options.store, lease=LEASE).start(
            "Book INV-114", run_id="inv-114", agent="back-office", title="Book INV-114"
        )
        return
    start_runs(options.store)
    serve(options.store, options.port)


if __name__ == "__main__":
    main()
