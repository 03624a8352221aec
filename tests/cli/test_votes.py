"""Approval by several persons on the command line."""

from __future__ import annotations

import json

import pytest

from continuations import Agent, ApprovalPolicy, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.cli.command_line import CommandLine
from tests.outcomes import single_wait


@pytest.fixture
def wait(cli: CommandLine) -> str:
    """Return the id of a wait that two of three persons decide."""

    @tool(approval=ApprovalPolicy(approvers=["kim", "lee", "max"], votes=2))
    def pay(cents: int) -> str:
        """Pay an amount."""
        return f"paid {cents}"

    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "end"])
    runner = Runner(Agent("boss", tools=[pay], model=model), store=cli.store)
    wait = single_wait(runner.start("go", run_id="j1"))
    return wait.id


def test_approve_prints_how_many_votes_there_are(cli: CommandLine, wait: str) -> None:
    first = cli("approve", wait, "--by", "kim")
    second = cli("approve", wait, "--by", "lee")

    assert (0, "approved by kim: 1 of 2 votes") == (first.exit_code, first.lines[0])
    assert "next: 1 more must decide the same way" in first.lines
    assert 0 == second.exit_code
    assert second.lines[0].startswith("approved by kim, lee at ")


def test_vote_as_json(cli: CommandLine, wait: str) -> None:
    vote = json.loads(cli("approve", wait, "--by", "kim", "--json").out)

    assert ("kim", 2, 1) == (vote["by"], vote["votes_needed"], vote["still_needed"])


def test_person_who_is_no_approver_gets_an_error(cli: CommandLine, wait: str) -> None:
    refused = cli("deny", wait, "--by", "eve")

    assert 5 == refused.exit_code
    assert "eve is not one of its approvers (kim, lee, max)" in refused.err


def test_show_names_the_approvers(cli: CommandLine, wait: str) -> None:
    cli("approve", wait, "--by", "kim")

    shown = cli("show", "j1")

    assert "approvers kim, lee, max, votes kim: approve; 2 needed" in shown.out
    run = json.loads(cli("show", "j1", "--json").out)
    assert ["kim"] == [vote["by"] for vote in run["waits"][0]["votes"]]


def test_waiting_lists_what_a_person_may_decide(cli: CommandLine, wait: str) -> None:
    cli("approve", wait, "--by", "kim")

    mine = cli("waiting", "--approver", "lee", "--ids")
    voted = cli("waiting", "--approver", "kim")
    stranger = cli("waiting", "--approver", "eve", "--json")

    assert [wait] == mine.lines
    assert "groups of lee are not known" in mine.err
    assert (0, "") == (voted.exit_code, voted.out)
    assert "No open waits for kim in file:" in voted.err
    assert [] == json.loads(stranger.out)


def test_groups_of_an_approver_come_from_the_application(cli: CommandLine) -> None:
    """The store of the application is listed, with its groups function."""
    app = cli.folder / "teams.py"
    app.write_text(
        "from continuations import Agent, ApprovalPolicy, Runner, tool\n"
        "from continuations.models.scripted import ScriptedModel, ToolCall\n"
        "@tool(approval=ApprovalPolicy(approvers=['group:finance']))\n"
        "def pay() -> str:\n"
        "    'Pay.'\n"
        "    return 'paid'\n"
        "model = ScriptedModel([ToolCall('pay', {}), 'end'])\n"
        "def groups(name: str) -> list[str]:\n"
        "    return ['finance'] if name == 'lee' else []\n"
        f"runner = Runner(Agent('boss', tools=[pay], model=model), groups=groups,\n"
        f"    store='file:{cli.folder / 'runs'}')\n"
    )
    cli("start", "go", "--app", "teams:runner", "--run-id", "j1")

    lee = cli("waiting", "--approver", "lee", "--ids", "--app", "teams:runner")
    eve = cli("waiting", "--approver", "eve", "--ids", "--app", "teams:runner")

    assert (1, "") == (len(lee.lines), lee.err)
    assert [] == eve.lines


def test_approver_and_due_cannot_be_combined(cli: CommandLine, wait: str) -> None:
    assert wait
    assert "--approver" in cli("waiting", "--approver", "kim", "--due").err
    assert "approver must be" in cli("waiting", "--approver", "").err
