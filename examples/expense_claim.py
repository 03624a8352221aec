"""An expense claim takes five days: waits of every kind, three agents deep.

finance > claims > payments wait for a receipt, an answer, a rate limit, two votes, an
escalation and a bank. Nothing runs while they wait.

    python examples/expense_claim.py               all steps in one process
    python examples/expense_claim.py --processes   a process for each step

Both print the same story, and move a clock instead of waiting for five days. The
processes share only a folder. The models are scripted, so it needs no API key.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path

from pydantic import BaseModel

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Failed,
    Finished,
    Outcome,
    Runner,
    Suspended,
    ToolContext,
    Wait,
    ask,
    escalate,
    external,
    tool,
    wait_for,
)
from continuations.errors import DecisionRefused, ModelError
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel, ScriptedReply, ToolCall
from continuations.results import Vote
from continuations.testing import FrozenClock, memory_store
from continuations.tools import ToolWait
from continuations_storage import FileStore, Store

RUN_ID = "claim-7"
DAY = timedelta(days=1)
MONDAY = datetime(2026, 1, 5, 9, tzinfo=UTC)
GROUPS = {
    "jane": ["sales", "finance"],
    "kim": ["finance"],
    "lee": ["finance"],
    "ana": ["directors"],
    "bob": ["directors"],
}

# What tools get as ctx.context --------------------------------------------------------


@dataclass
class Bank:
    """The bank: it makes transfers, and reports each to a wait."""

    folder: Path
    reporter: Runner

    @property
    def statement(self) -> Path:
        """The file with the transfers: the effects of this example."""
        return self.folder / "bank.txt"

    def transfer(self, person: str, cents: int, report_to: str) -> None:
        """Transfer money. This bank is fast: it reports before the caller returns."""
        with self.statement.open("a") as file:
            file.write(f"{cents} to {person}\n")
        self.reporter.decide(report_to, Answer("booked as B-99", by="bank"))


# The agents ---------------------------------------------------------------------------


class Receipt(BaseModel):
    """The data that the mail system reads from a receipt."""

    shop: str
    cents: int


class CostCentre(Enum):
    """The cost centres."""

    SALES = "sales"
    TRAINING = "training"


@tool(read_only=True)
def receipt(trip: str) -> ToolWait[Receipt]:
    """Wait for the receipt of a trip."""
    return wait_for("receipt", Receipt, key=trip, within=2 * DAY)


@tool(read_only=True)
def cost_centre(trip: str) -> ToolWait[CostCentre]:
    """Ask who bears the costs of a trip."""
    standard = Answer(CostCentre.SALES)
    question = f"Who bears the costs of {trip}?"
    return ask(question, CostCentre, within=DAY, on_deadline=standard)


two_of_finance = ApprovalPolicy(
    approvers=["group:finance"],
    votes=2,
    not_requester=True,
    within=DAY,
    on_deadline=escalate(to=["group:directors"], votes=2, within=2 * DAY),
)


@tool(approval=two_of_finance)
def pay(person: str, cents: int, ctx: ToolContext) -> ToolWait[str]:
    """Pay a person."""
    bank: Bank = ctx.context
    bank.transfer(person, cents, report_to=ctx.wait_id)
    return external("bank transfer", str, within=DAY)


def make_finance(folder: Path) -> Agent:
    """Return the agent finance, and below it claims and payments."""

    def payments_reply(request: ModelRequest) -> ScriptedReply:
        """Return the next reply; the first request meets a rate limit."""
        if request.messages[-1].role == "tool":
            return f"The bank says: {request.messages[-1].content}"
        limit = folder / "rate-limit"
        if limit.exists():
            return ToolCall("pay", {"person": "jane", "cents": 42_000})
        limit.touch()
        text = "payments: too many requests"
        raise ModelError(text, status=429, retryable=True, retry_after=3600)

    payments = Agent("payments", tools=[pay], model=ScriptedModel(payments_reply))
    claims = Agent(
        "claims",
        tools=[receipt, cost_centre, payments],
        model=ScriptedModel(
            [
                ToolCall("receipt", {"trip": "Rome"}),
                ToolCall("cost_centre", {"trip": "Rome"}),
                ToolCall("payments", {"input": "Pay Jane 420.00 EUR for Rome."}),
                "The claim is settled.",
            ]
        ),
    )
    return Agent(
        "finance",
        tools=[claims],
        model=ScriptedModel(
            [ToolCall("claims", {"input": "Settle Jane's trip."}), "Jane is paid."]
        ),
    )


# The story ----------------------------------------------------------------------------


class Office:
    """The store, and the people and programs that use it."""

    def __init__(self, store: Store, folder: Path, clock: FrozenClock) -> None:
        self.store = store
        self.folder = folder
        self.clock = clock
        self.bank = Bank(folder, self.runner())

    def runner(self, *agents: Agent) -> Runner:
        """Return a runner; people and other systems need no agents."""
        return Runner(
            agents,
            store=self.store,
            clock=self.clock,
            groups=lambda person: GROUPS[person],
            model_retry_time=0,
        )

    def worker(self) -> Runner:
        """Return a runner that can work."""
        return self.runner(make_finance(self.folder))

    def work(self) -> None:
        """Resume what is due, as a scheduled function does, and print the outcome."""
        worker = self.worker()
        worker.sweep(context=self.bank)
        print_outcome(worker.resume(RUN_ID, context=self.bank))

    def only_wait(self) -> Wait:
        """Return what people are asked now."""
        [summary] = self.runner().waiting()
        return self.runner().wait(summary.id)

    def vote(self, person: str, cents: int | None = None) -> None:
        """Approve the payment, perhaps with another amount."""
        edit = None if cents is None else {"person": "jane", "cents": cents}
        verdict = Approve(by=person, arguments=edit)
        try:
            result = self.runner().decide(self.only_wait().id, verdict)
        except DecisionRefused as error:
            print(f"   {person} is refused: {str(error).partition(': ')[2]}")
            return
        if isinstance(result, Vote):
            print(f"   {person} votes; {result.still_needed} more needed")
        else:
            print(f"   {person} votes; the payment is approved")


def print_outcome(outcome: Outcome) -> None:
    """Print what a run waits for, or its end."""
    match outcome:
        case Finished():
            print(f"   finished: {outcome.output}")
        case Suspended():
            for wait in outcome.waits:
                print(f"   waits: {wait.kind} of {' > '.join(wait.path)}")
        case Failed():
            sys.exit(f"failed: {outcome.error.message}")


def jane_files_the_claim(office: Office) -> None:
    outcome = office.worker().start(
        "Settle Jane's trip to Rome.",
        run_id=RUN_ID,
        by="jane",
        title="Trip to Rome",
        labels={"team": "sales"},
        context=office.bank,
    )
    print_outcome(outcome)


def the_mail_system_publishes_the_receipt(office: Office) -> None:
    data = {"shop": "Hotel Roma", "cents": 42_000}
    runner = office.runner()
    event = runner.publish("receipt", data, key="Rome", by="mail", id="mail-31")
    print(f"   it ends a wait of {', '.join(event.run_ids)}")


def jane_answers_the_question(office: Office) -> None:
    wait = office.only_wait()
    print(f"   {wait.question}")
    office.runner().decide(wait.id, Answer("sales", by="jane"))


def jane_tries_to_approve_it_herself(office: Office) -> None:
    office.vote("jane")


def kim_approves_a_smaller_amount(office: Office) -> None:
    office.vote("kim", 41_000)


def nobody_else_in_finance_decides(office: Office) -> None:
    office.work()
    approvers = ", ".join(office.only_wait().approvers)
    print(f"   now {approvers} decides; the vote of kim counts no more")


def two_directors_approve_the_smaller_amount(office: Office) -> None:
    office.vote("ana", 41_000)
    office.vote("bob", 41_000)


def the_auditor_reads_who_decided(office: Office) -> None:
    for line in office.runner().audit(RUN_ID):
        print(f"   {line.kind} {line.verdict} by {line.by or line.door}")
    print(f"   the bank: {office.bank.statement.read_text().strip()}")


def a_worker_works(office: Office) -> None:
    office.work()


Step = Callable[[Office], None]
# Each step, with the day on which it happens.
STEPS: tuple[tuple[float, str, Step], ...] = (
    (0, "Monday: Jane files the claim", jane_files_the_claim),
    (1, "Tuesday: the receipt arrives", the_mail_system_publishes_the_receipt),
    (1, "A worker goes on", a_worker_works),
    (1.3, "Jane answers", jane_answers_the_question),
    (1.3, "A worker goes on, and meets a rate limit", a_worker_works),
    (1.6, "An hour later", a_worker_works),
    (1.7, "Jane approves her own claim", jane_tries_to_approve_it_herself),
    (1.7, "Kim approves a smaller amount", kim_approves_a_smaller_amount),
    (3, "Thursday: nobody else decided", nobody_else_in_finance_decides),
    (4, "Friday: two directors", two_directors_approve_the_smaller_amount),
    (4, "A worker pays; the bank is fast", a_worker_works),
    (4, "The auditor", the_auditor_reads_who_decided),
)


class FolderWithoutTime:
    """The store of a folder; it tells no time, so that the moved clock counts."""

    def __init__(self, folder: Path) -> None:
        files = FileStore(folder)
        self.read, self.keys = files.read, files.keys
        self.delete, self.probe = files.delete, files.probe
        self._create = files.create

    async def create(self, key: str, body: bytes) -> None:
        """Put an object if its key is absent."""
        await self._create(key, body)


def run_in_one_process(folder: Path) -> None:
    """Run every step, and move the clock between them."""
    clock = FrozenClock(MONDAY)
    office = Office(memory_store(clock), folder, clock)
    for day, title, step in STEPS:
        clock.advance_to(MONDAY + day * DAY)
        print(f"\n{title}", flush=True)
        step(office)


def run_in_processes(folder: Path) -> None:
    """Run every step in a process of its own."""
    for number, (_, title, _) in enumerate(STEPS):
        print(f"\n{title}", flush=True)
        command = [sys.executable, __file__, "--step", str(number), str(folder)]
        subprocess.run(command, check=True)


def run_step(number: int, folder: Path) -> None:
    """Run one step, at its time, on the store in a folder."""
    day, _, step = STEPS[number]
    clock = FrozenClock(MONDAY + day * DAY)
    step(Office(FolderWithoutTime(folder / "runs"), folder, clock))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--step", nargs=2, metavar=("NUMBER", "FOLDER"))
    options = parser.parse_args()
    if options.step:
        run_step(int(options.step[0]), Path(options.step[1]))
        return
    with tempfile.TemporaryDirectory() as name:
        if options.processes:
            run_in_processes(Path(name))
        else:
            run_in_one_process(Path(name))


if __name__ == "__main__":
    main()
