"""The run of the supplier invoices: three levels, two votes, an unknown outcome.

A clock of the test tells the time, so every length on the page is known.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any, Self

from continuations import Agent, Answer, ApprovalPolicy, Approve, Runner, ask, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, crashed
from tests import scripts
from tests.clocks import ManualClock

RUN = "invoices-2026-11"
TITLE = "Pay the supplier invoices due before 30 November"
SUPPLIERS = ("Meridian Freight", "Studio Halm", "Kettenwerk")
HOUR = 3600.0


class InvoiceRun:
    """The run, with its store and its clock.

    Attributes:
        clock: The clock of all processes.
        store: The store.
        runner: A runner of the agents.
    """

    def __init__(self) -> None:
        self.clock = ManualClock(9 * HOUR + 120)
        self.store = MemoryStore()
        self._is_dead = False
        self.runner = self.new_runner()

    def new_runner(self) -> Runner:
        """Return a runner of another process; it dies at the transfer to Kettenwerk."""
        self._is_dead = False
        dying = FaultyStore(
            self.store, lambda _: crashed("before") if self._is_dead else None
        )
        return Runner(self._back_office(), store=dying, clock=self.clock)

    @classmethod
    def suspended(cls) -> Self:
        """Return a run that waits for two votes, and for an answer of Ines."""
        run = cls()
        run.suspend()
        return run

    @classmethod
    def interrupted(cls) -> Self:
        """Return a run with one vote, whose worker died during a transfer."""
        run = cls.suspended()
        run.vote()
        run.die()
        return run

    def suspend(self) -> None:
        """Start the run: it waits for two votes, and for an answer of Ines."""
        self.runner.start(
            TITLE,
            run_id=RUN,
            title=TITLE,
            by="Ines Albrecht",
            labels={"team": "finance"},
        )

    def vote(self) -> None:
        """Cast one of two votes, two hours later."""
        self.clock.seconds += 2 * HOUR
        [approval] = [w for w in self.runner.waiting() if w.kind == "approval"]
        self.runner.decide(approval.id, Approve(by="Ruth Haas"))

    def die(self) -> None:
        """Answer the question; then the worker dies during a transfer."""
        self.clock.seconds += 2 * HOUR
        [question] = [w for w in self.runner.waiting() if w.kind == "question"]
        self.runner.decide(question.id, Answer("pay it", by="Ines Albrecht"))
        with suppress(Crash):
            self.new_runner().resume(RUN)
        self.clock.seconds += 60
        self.new_runner().sweep()
        self.clock.seconds += 8 * HOUR

    def _work(self, seconds: float) -> None:
        self.clock.seconds += seconds

    def _back_office(self) -> Agent:
        tasks: list[Any] = [ToolCall("payables", {"input": s}) for s in SUPPLIERS]
        replies: list[Any] = [
            [ToolCall("read_mailbox", {"folder": "invoices"})],
            tasks,
            "All invoices are paid.",
        ]

        @tool(read_only=True)
        async def read_mailbox(folder: str) -> str:
            """Read the invoices of a mailbox."""
            self._work(1.2)
            return f"3 invoices in {folder}"

        return Agent(
            "back-office",
            tools=[read_mailbox, self._payables()],
            model=ScriptedModel(replies),
        )

    def _payables(self) -> Agent:
        def is_large(cents: int) -> bool:
            return cents > 1_000_000

        policy = ApprovalPolicy(when=is_large, votes=2, within=timedelta(days=3))

        @tool(read_only=True)
        async def match_order(supplier: str) -> str:
            """Compare an invoice with its purchase order."""
            self._work(0.8)
            return f"{supplier} matches purchase order 4471"

        @tool
        async def ask_ines(question: str) -> Any:
            """Ask the buyer."""
            return ask(question, str)

        @tool(approval=policy, summary="Send {cents:money/100 EUR} to {to}")
        async def transfer(to: str, cents: int) -> str:
            """Send money."""
            self._work(1.9)
            self._is_dead = to == "Kettenwerk"
            return f"sent {cents}"

        def reply(request: Any) -> Any:
            messages = [each.data for each in request.messages]
            supplier = scripts.first_user_message(messages)
            return _script(supplier)[scripts.turn_count(messages)]

        return Agent(
            "payables",
            tools=[match_order, ask_ines, transfer],
            model=ScriptedModel(reply),
        )


def _script(supplier: str) -> list[Any]:
    match supplier:
        case "Meridian Freight":
            cents = 1_240_000
        case "Kettenwerk":
            cents = 318_240
        case _:
            cents = 86_000
    pays = ToolCall("transfer", {"to": supplier, "cents": cents})
    checks = ToolCall("match_order", {"supplier": supplier})
    asks = ToolCall("ask_ines", {"question": "€214 more than ordered: pay it?"})
    if supplier == "Kettenwerk":
        return [[asks], [pays], "Paid."]
    return [[checks], [pays], "Paid."]
