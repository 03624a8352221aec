"""The form of an approval on the command line."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Finished,
    Runner,
    ToolContext,
    tool,
)
from continuations.cli.formatting import outcome_lines
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.cli.command_line import CommandLine
from tests.outcomes import single_wait


@dataclass
class Ticket:
    """A form."""

    number: int


@tool(approval=ApprovalPolicy(form=Ticket))
def pay(cents: int, ctx: ToolContext) -> str:
    """Pay an amount."""
    return f"paid {cents} for ticket {ctx.form.number}"


@pytest.fixture
def runner(cli: CommandLine) -> Runner:
    """Return the runner of an agent that pays."""
    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "end"])
    agent = Agent("boss", tools=[pay], model=model)
    return Runner(agent, store=cli.store)


@pytest.fixture
def wait(runner: Runner) -> str:
    """Return the id of a wait that needs a form."""
    wait = single_wait(runner.start("go", run_id="j1"))
    return wait.id


def test_approve_with_a_form(cli: CommandLine, runner: Runner, wait: str) -> None:
    shown = cli("show", wait).out
    assert "number: integer, required" in shown
    assert "schema of the form" in shown
    assert json.loads(cli("show", wait, "--json").out)["form_schema"]["required"]
    missing = cli("approve", wait, "--by", "kim")
    assert 5 == missing.exit_code
    assert "needs a form with the fields number" in missing.err
    wrong = cli("approve", wait, "--form", '{"number": "x"}')
    assert 5 == wrong.exit_code
    assert "number" in wrong.err

    done = cli("approve", wait, "--by", "kim", "--form", '{"number": 7}')

    assert 0 == done.exit_code
    assert 'form: {"number":7}' in done.out
    end = runner.resume("j1")
    assert isinstance(end, Finished)
    assert "paid 5 for ticket 7" in str(end.continuation.root.messages)


def test_next_step_has_a_place_for_the_form(runner: Runner) -> None:
    outcome = runner.start("go", run_id="j1")
    *_, last = outcome_lines(outcome)
    assert "@j1 --form JSON (or deny, or answer)" in last


def test_form_from_a_file_and_as_json(cli: CommandLine, wait: str) -> None:
    (cli.folder / "form.json").write_text('{"number": 8}', encoding="utf-8")
    path = f"@{cli.folder / 'form.json'}"

    decision = json.loads(cli("approve", wait, "--form", path, "--json").out)

    assert {"number": 8} == decision["form"]


def test_form_that_is_no_json_is_a_usage_error(cli: CommandLine, wait: str) -> None:
    wrong = cli("approve", wait, "--form", "7 eur")

    assert 2 == wrong.exit_code
    assert "--form is not JSON" in wrong.err


def test_batch_has_forms(cli: CommandLine, wait: str) -> None:
    items = [{"wait_id": wait, "decision": "approve", "form": {"number": 1}}]

    [line] = cli("decide", json.dumps(items), "--json").out.splitlines()

    assert {"number": 1} == json.loads(line)["decision"]["form"]
