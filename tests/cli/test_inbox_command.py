"""inbox: the waits of a person, due first, in a terminal and in a pipe."""

from __future__ import annotations

import json
import re

import pytest

from continuations import Approve
from continuations.wire.fields import readable_time
from tests.cli.command_line import CommandLine
from tests.cli.inbox_agents import start_all, start_limited
from tests.cli.terminal_process import TerminalProcess

HOSTILE = "to \u202eevil\x1b[31m\n4 decisions wait for kim \x9b2J [bold]x[/bold]"
ESCAPE = "\x1b"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)


def in_terminal(cli: CommandLine, columns: int, **environment: str) -> TerminalProcess:
    """Run `inbox` in a terminal of some width, to its end."""
    process = TerminalProcess(
        cli.folder, "inbox", "--by", "kim", COLUMNS=str(columns), **environment
    )
    with process:
        assert 0 == process.wait()
    return process


def test_inbox_in_a_pipe_is_plain_and_due_first(cli: CommandLine) -> None:
    """The words are those of the console; a deadline is a time, and no clock counts."""
    runner = start_all("file:runs")
    first, second = (row.wait for row in runner.worklist().waits)
    assert first.deadline
    assert second.deadline

    result = cli("inbox", "--by", "kim")

    assert 0 == result.exit_code
    assert [
        "2 decisions wait for kim",
        "Question: Which laptop for Jane?",
        f"  by {readable_time(first.deadline)}, then declined",
        "  asked by ines",
        "  payables \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} choose",
        f"  {first.id}",
        "Approval: Send 1240000 cents to Meridian Freight GmbH",
        f"  by {readable_time(second.deadline)}, then expires",
        "  2 votes needed",
        "  asked by ines",
        "  payables \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} transfer",
        f"  {second.id}",
        "Waits that need no person: 1 event",
    ] == result.lines
    own = cli.run_in_process("inbox", "--by", "kim")
    assert (result.out, 0) == (own.out, own.exit_code)
    assert ESCAPE not in own.out


def test_filters_leave_the_waits_of_a_person_a_kind_and_words(cli: CommandLine) -> None:
    runner = start_all("file:runs")
    [approval] = [
        row.wait for row in runner.worklist().waits if row.wait.kind == "approval"
    ]

    def kinds(*options: str) -> list[str]:
        rows = json.loads(cli("inbox", "--json", *options).out)
        return [row["kind"] for row in rows]

    assert ["question", "approval"] == kinds("--by", "kim")
    assert ["question"] == kinds("--by", "tom")
    assert ["question", "approval"] == kinds("--for", "all")
    assert ["question"] == kinds("--for", "all", "--kind", "question")
    assert ["approval"] == kinds("--for", "all", "--filter", "FREIGHT transfer")
    assert [] == kinds("--for", "all", "--filter", "freight laptop")
    assert ["question"] == kinds("--for", "all", "--limit", "1")
    assert "More waits follow" in cli("inbox", "--for", "all", "--limit", "1").err

    # After a vote the wait no longer waits for this person
    runner.decide(approval.id, Approve(by="kim"))
    assert ["question"] == kinds("--by", "kim")
    assert "1 of 2 votes" in cli("inbox", "--by", "jo").out
    assert 2 == cli("inbox", "--for", "kim").exit_code


def test_empty_inbox_says_so(cli: CommandLine) -> None:
    start_all("file:runs")
    lines = cli("inbox", "--by", "kim", "--filter", "unicorn").lines
    assert ["Nothing waits for kim", "Waits that need no person: 1 event"] == lines


def test_inbox_says_how_many_runs_wait_for_their_models(cli: CommandLine) -> None:
    start_limited("file:runs", "m1")
    line = "1 run waits for its model. `continuations show m1` shows why."

    assert ["Nothing waits for kim", line] == cli("inbox", "--by", "kim").lines
    in_json = cli("inbox", "--by", "kim", "--json")
    assert ([], True) == (json.loads(in_json.out), line in in_json.err)
    shown = in_terminal(cli, 100).text.splitlines()
    assert line in shown
    start_all("file:runs")
    assert line == cli("inbox", "--by", "kim").lines[-1]


@pytest.mark.parametrize("columns", [40, 100])
def test_inbox_in_a_terminal_folds_texts_and_never_an_id(
    cli: CommandLine, columns: int
) -> None:
    runner = start_all("file:runs")

    shown = in_terminal(cli, columns)

    lines = shown.text.splitlines()
    ids = {f"  {row.wait.id}" for row in runner.worklist().waits}
    assert ids <= set(lines)
    assert all(len(line) <= columns for line in lines if line not in ids)
    assert "Question" in lines
    assert "in 1 d 23 h, then declined" in " ".join(shown.text.split())
    assert f"{ESCAPE}[33mApproval" in shown.raw


def test_no_color_leaves_the_colors_out(cli: CommandLine) -> None:
    start_all("file:runs")

    shown = in_terminal(cli, 60, NO_COLOR="1")

    assert "2 decisions wait for kim" in shown.text
    assert [] == re.findall(r"\x1b\[[0-9;]*3[0-7]m", shown.raw)


@pytest.mark.parametrize("columns", [0, 40])
def test_hostile_text_cannot_imitate_a_row_or_a_control_sequence(
    cli: CommandLine, columns: int
) -> None:
    """In a pipe (0) and in a terminal."""
    start_all("file:runs", to=HOSTILE)

    text = in_terminal(cli, columns).text if columns else cli("inbox").out

    lines = text.splitlines()
    assert 1 == lines.count("2 decisions wait for kim")
    assert not [line for line in lines if line.startswith("4 decisions")]
    assert not any(sign in text for sign in ("\u202e", "\x9b", ESCAPE))
    assert "[bold]x[/bold]" in text
