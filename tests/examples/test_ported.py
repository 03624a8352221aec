"""examples/ported: each program runs to its end through all its stops."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from continuations import Answer, Failed, Finished, Runner, Suspended
from continuations_storage import MemoryStore
from examples.ported import agent_inbox, expense, order, subscription
from tests.clocks import ManualClock
from tests.examples.example_process import EXAMPLES, example_output

FOLDER = EXAMPLES / "ported"
PROGRAMS = (
    *("expense.py", "agent_inbox.py", "order.py", "essay.py", "subscription.py"),
    "customer_service.py",
)
ORDER = order.Order(order_id="A-17", customer_id="ada", amount=4200)


class SharedStore:
    """Programs that share a store and a clock, each with a runner of its own."""

    def __init__(self, workflow: Any) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock.now)
        self._workflow = workflow

    def runner(self) -> Runner[Any]:
        """Return the runner of a new shared."""
        return Runner(self._workflow, store=self.store, clock=self.clock)

    def wait_id(self, kind: str) -> str:
        """Return the id of the only open wait of a kind."""
        [wait] = self.runner().waiting(kinds=[kind])
        return wait.id

    def pass_time(self, time: timedelta) -> None:
        """Move the clock past a time, and sweep."""
        self.clock.seconds += time.total_seconds() + 1
        swept = self.runner().sweep()
        assert {} == swept.errors


# The programs as a reader starts them -------------------------------------------------


@pytest.mark.parametrize(
    ("program", "last_line"),
    [
        ("expense.py", "E-7: 'COMPLETED'"),
        ("agent_inbox.py", "bob failed: a hotel"),
        ("order.py", "PAYMENT_COMPLETED: paid"),
        ("essay.py", "{'essay': 'All about cats.', 'is_approved': True}"),
        ("subscription.py", "ada: Ended(status='cancelled', months=3)"),
    ],
)
def test_program_runs_all_steps_in_memory(
    program: str, last_line: str, tmp_path: Path
) -> None:
    printed = example_output(f"ported/{program}", folder=tmp_path)

    assert last_line == printed.splitlines()[-1]
    effects = [line for line in printed.splitlines() if is_effect(line)]
    assert effects
    assert len(effects) == len(set(effects))


def test_all_steps_of_the_customer_service_run_in_memory(tmp_path: Path) -> None:
    lines = example_output("ported/customer_service.py", folder=tmp_path).splitlines()

    assert "triage hands over to seats" in lines
    assert "triage: How can I help you?" == lines[-1]


def is_effect(line: str) -> bool:
    """Return whether a tool or a model printed a line."""
    words = "created registered paid model: reserved released payment wrote email"
    return line.split(maxsplit=1)[0] in [*words.split(), "charged"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_readme_has_the_lines_of_the_ported_part(program: str) -> None:
    readme = (FOLDER / "README.md").read_text()
    row = re.search(rf"\| \[`{program}`\].*\| (\d+) \|$", readme, re.MULTILINE)

    assert row is not None
    assert code_lines((FOLDER / program).read_text()) == int(row[1])


def code_lines(text: str) -> int:
    """Count the code lines between the headings of a program, without docstrings."""
    first, last = (
        text[: text.index(f"# {heading} ---")].count("\n") + 1
        for heading in ("The ported program", "The steps")
    )
    no_code = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE)
    blocks = (*no_code, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blocks:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return len([line for line in lines if first < line < last])


# Each step in a fresh interpreter -----------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "effects", "end"),
    [
        ("approve", ["paid E-7"], "E-7: 'COMPLETED'"),
        ("reject", [], "E-7: ''"),
    ],
)
def test_expense_is_paid_once_after_its_approval(
    decision: str, effects: list[str], end: str, tmp_path: Path
) -> None:
    def step(name: str) -> list[str]:
        printed = example_output(
            "ported/expense.py", "runs", name, "E-7", folder=tmp_path
        )
        return printed.splitlines()

    waits = "E-7 waits for: decision"
    assert ["created E-7", "registered E-7", waits] == step("start")
    assert [waits] == step("resume")
    assert [] == step(decision)
    assert [*effects, end] == step("resume")
    assert [end] == step("resume")


def test_inbox_lists_agents_and_answers_them(tmp_path: Path) -> None:
    def step(*arguments: str) -> list[str]:
        printed = example_output(
            "ported/agent_inbox.py", "runs", *arguments, folder=tmp_path
        )
        return printed.splitlines()

    assert ["model: Plan: a flight"] == step("start", "ada", "a flight")
    assert ["model: Plan: a hotel"] == step("start", "bob", "a hotel")
    questions = [
        "ada asks: May I carry out [Plan: a flight]?",
        "bob asks: May I carry out [Plan: a hotel]?",
    ]
    assert questions == step("list")
    assert [] == step("deny", "bob")
    assert [] == step("sweep")
    assert [questions[0], "bob failed: a hotel"] == step("list")
    assert [] == step("confirm", "ada")
    assert ["model: Carry out: a flight"] == step("sweep")
    assert [] == step("sweep")
    assert ["ada finished: a flight", "bob failed: a hotel"] == step("list")


@pytest.mark.parametrize(
    ("decision", "approved"), [("approve", True), ("reject", False)]
)
def test_essay_is_written_once(decision: str, approved: bool, tmp_path: Path) -> None:
    def step(name: str) -> list[str]:
        printed = example_output("ported/essay.py", "runs", name, folder=tmp_path)
        return printed.splitlines()

    question = "Is this essay good? All about cats."
    assert ["wrote about cats", question] == step("start")
    assert [question] == step("resume")
    assert [] == step(decision)
    end = {"essay": "All about cats.", "is_approved": approved}
    assert [str(end)] == step("resume")


# With a clock that the test moves -----------------------------------------------------


def test_expense_fails_if_no_decision_comes(capsys: pytest.CaptureFixture[str]) -> None:
    shared = SharedStore(expense.expense)
    shared.runner().start(expense.expense.bind("E-8"), run_id="E-8")

    shared.pass_time(timedelta(minutes=10))

    failed = shared.runner().resume("E-8")
    assert isinstance(failed, Failed)
    assert "call" == failed.error.code
    assert "created E-8\nregistered E-8\n" == capsys.readouterr().out


def test_agent_without_an_answer_is_denied(capsys: pytest.CaptureFixture[str]) -> None:
    shared = SharedStore(agent_inbox.durable_agent)
    agent_inbox.start_agent(shared.runner(), "cleo", "a car")
    assert ["cleo"] == names(agent_inbox.list_waiting_agents(shared.runner()))

    shared.pass_time(timedelta(hours=1))

    assert [] == agent_inbox.list_waiting_agents(shared.runner())
    assert [] == agent_inbox.list_approved_agents(shared.runner())
    assert ["cleo"] == names(agent_inbox.list_denied_agents(shared.runner()))
    assert ["model:"] == effects(capsys)


def names(agents: list[agent_inbox.AgentStatus]) -> list[str]:
    """Return the names of agents."""
    return [agent.agent_id for agent in agents]


def test_order_is_paid(capsys: pytest.CaptureFixture[str]) -> None:
    shared = SharedStore(order.process_order)
    shared.runner().start(order.process_order.bind(ORDER), run_id="o")
    shared.pass_time(order.PROCESSING_DELAY)
    shared.runner().decide(shared.wait_id("external"), Answer({"approved": True}))

    result = shared.runner().resume("o").result()

    assert ("PAYMENT_COMPLETED", "RSV-A-17") == (result.status, result.reservation_id)
    assert result.received < result.completed
    assert ["model:", "reserved", "payment"] == effects(capsys)


@pytest.mark.parametrize(
    ("rejects", "message"),
    [(True, "no money"), (False, "no approval in time")],
)
def test_order_without_its_payment_releases_the_goods(
    rejects: bool, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = SharedStore(order.process_order)
    shared.runner().start(order.process_order.bind(ORDER), run_id="o")
    shared.pass_time(order.PROCESSING_DELAY)
    if rejects:
        answer = Answer({"approved": False, "reason": "no money"})
        shared.runner().decide(shared.wait_id("external"), answer)
    else:
        shared.pass_time(order.PAYMENT_TIMEOUT)

    result = shared.runner().resume("o").result()

    assert ("PAYMENT_FAILED", message) == (result.status, result.message)
    undone = order.Compensation(action="release-inventory", success=True)
    assert [undone] == result.compensations
    assert ["model:", "reserved", "payment", "released"] == effects(capsys)


def test_order_is_cancelled_before_the_payment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shared = SharedStore(order.process_order)
    shared.runner().start(order.process_order.bind(ORDER), run_id="o")

    shared.runner().signal("o", "cancel", data=True, by="ada")

    assert "CANCELLED" == shared.runner().resume("o").result().status
    assert ["model:"] == effects(capsys)


def test_order_with_an_empty_field_is_invalid() -> None:
    shared = SharedStore(order.process_order)
    empty = order.Order(order_id="", customer_id="ada", amount=1)

    outcome = shared.runner().start(order.process_order.bind(empty), run_id="o")

    assert isinstance(outcome, Finished)
    result = outcome.result()
    assert ("VALIDATION_FAILED", "unknown") == (result.status, result.order_id)


def test_subscription_charges_each_month_once_until_it_is_cancelled(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shared = SharedStore(subscription.subscription)
    bound = subscription.subscription.bind("ada")
    shared.runner().start(bound, run_id="ada")
    assert ["email", "charged"] == effects(capsys)
    for _ in range(12):
        shared.runner().sweep()
        assert [] == effects(capsys)
        shared.pass_time(subscription.MONTH)
        assert ["charged"] == effects(capsys)
    assert isinstance(shared.runner().resume("ada"), Suspended)

    subscription.cancel(shared.runner(), "ada", "too expensive")
    subscription.cancel(shared.runner(), "ada", "too expensive")

    end = shared.runner().resume("ada").result()
    assert subscription.Ended(status="cancelled", months=13) == end
    assert () == shared.runner().sweep().resumed
    assert ["email"] == effects(capsys)


def test_cancellation_before_a_late_sweep_counts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shared = SharedStore(subscription.subscription)
    bound = subscription.subscription.bind("ada")
    shared.runner().start(bound, run_id="ada")
    shared.clock.seconds = subscription.MONTH.total_seconds() + 3600

    subscription.cancel(shared.runner(), "ada", "too expensive")

    assert isinstance(shared.runner().resume("ada"), Finished)
    assert ["email", "charged", "charged", "email"] == effects(capsys)


def effects(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the first word of each line that was printed since the last call."""
    printed = capsys.readouterr().out
    return [line.split(maxsplit=1)[0] for line in printed.splitlines()]


def test_passenger_stays_with_an_agent_until_it_hands_back(tmp_path: Path) -> None:
    def say(text: str) -> list[str]:
        program = "ported/customer_service.py"
        return example_output(
            program, "runs", "ada", text, folder=tmp_path
        ).splitlines()

    wifi = "faq: The wifi is free. Its name is Airline-Wifi."
    called = ["triage hands over to faq", "faq called look_up"]
    assert [*called, wifi] == say("Is there wifi?")
    assert ["faq called look_up", wifi] == say("And how is its wifi named?")
    assert [
        "faq hands over to triage",
        "triage hands over to seats",
        "seats called update_seat",
        "seats: The seat of X1 is 12A now.",
    ] == say("Seat 12A, please. I am X1.")
    runner: Runner[Any] = Runner([], store=f"file:{tmp_path}/runs")
    [thread] = runner.runs()
    known = {"confirmation_number": "X1", "seat_number": "12A"}
    assert known == runner.look(thread.run_id).root.state
