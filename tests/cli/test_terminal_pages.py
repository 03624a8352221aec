"""show and watch in a terminal: the order of the wait page, folding, hostile text."""

from __future__ import annotations

import re
import shlex

import pytest

from continuations import Runner, Wait
from tests.cli.command_line import CommandLine
from tests.cli.inbox_agents import start_all
from tests.cli.sample_agents import make_nested_agent
from tests.cli.terminal_process import TerminalProcess

HOSTILE = "to \u202eevil\x1b[31m\nHow to decide \x9b2J [bold]x[/bold]"
ESCAPE = "\x1b"
COLOR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")
PARTS = (
    "Approval",
    "  Send 1240000 cents to Meridian Freight GmbH",
    "What will run: transfer (all 2 arguments)",
    "Why",
    "How to decide",
    "Where it comes from",
    "Details for developers",
)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
        monkeypatch.delenv(name, raising=False)


def in_terminal(
    cli: CommandLine, columns: int, *arguments: str, **environment: str
) -> TerminalProcess:
    """Run a command in a terminal of some width, to its end."""
    process = TerminalProcess(
        cli.folder, *arguments, COLUMNS=str(columns), **environment
    )
    with process:
        assert 0 == process.wait()
    return process


def wait_of(runner: Runner, kind: str) -> Wait:
    [wait_id] = [row.id for row in runner.waiting(kinds=[kind])]
    return runner.wait(wait_id)


def start_nested(cli: CommandLine, levels: int) -> str:
    """Start run `deep`, whose deepest agent waits; return the id of the wait."""
    runner = Runner(make_nested_agent(levels), store=cli.store)
    runner.start("go", run_id="deep")
    [wait] = runner.look("deep").waits
    return wait.id


def test_a_wait_has_the_order_of_its_page_and_ids_last(cli: CommandLine) -> None:
    wait = wait_of(start_all("file:runs"), "approval")

    lines = in_terminal(cli, 100, "show", wait.id).text.splitlines()

    assert [*PARTS] == [line for line in lines if line in PARTS]
    assert "  Runs once, exactly as shown, after 2 votes. " in f"{lines[2]} "
    assert {"  │ 1240000", "  │ Meridian Freight GmbH"} <= set(lines)
    assert "    Two of kim and jo must agree." in lines
    assert "then: expired, nothing runs" in "".join(lines)
    assert f"    {wait.digest}" == lines[-1]
    assert f"    {wait.id}" == lines[-3]


def test_a_shown_command_records_the_decision(cli: CommandLine) -> None:
    """The commands are whole at 40 columns, with the store that `show` was given."""
    wait = wait_of(start_all("file:other runs"), "question")

    shown = in_terminal(cli, 40, "show", wait.id, "--store", "file:other runs")

    [command] = [
        line.strip()
        for line in shown.text.splitlines()
        if line.startswith("    continuations answer ")
    ]
    words = shlex.split(command.replace("VALUE", "'a small one'"))[1:]
    done = cli(*words, "--by", "kim")
    assert (0, "answered by kim") == (done.exit_code, done.lines[0][:15])


@pytest.mark.parametrize("kind", ["approval", "question", "event"])
def test_each_kind_is_folded_at_40_columns(cli: CommandLine, kind: str) -> None:
    wait = wait_of(start_all("file:runs"), kind)

    lines = in_terminal(cli, 40, "show", wait.id).text.splitlines()

    wide = [line for line in lines if len(line) > 40]
    copied = ("    continuations ", f"    {wait.id}", f"    {wait.digest}")
    assert wide
    assert all(line.startswith(copied) for line in wide)


def test_colors_are_for_terminals_without_no_color(cli: CommandLine) -> None:
    wait = wait_of(start_all("file:runs"), "approval")
    for command in (("show", wait.id), ("show", "pay"), ("watch", "pay")):
        assert COLOR.search(in_terminal(cli, 60, *command).raw)
        assert not COLOR.search(in_terminal(cli, 60, *command, NO_COLOR="1").raw)
        assert ESCAPE not in cli.run_in_process(*command).out


@pytest.mark.parametrize("columns", [40, 100])
def test_hostile_text_is_visible_and_imitates_nothing(
    cli: CommandLine, columns: int
) -> None:
    wait = wait_of(start_all("file:runs", to=HOSTILE), "approval")
    for command in (("show", wait.id), ("show", "pay"), ("watch", "pay")):
        text = in_terminal(cli, columns, *command).text

        assert not any(sign in text for sign in ("\u202e", "\x9b", ESCAPE))
        headings = [line for line in text.splitlines() if "How to decide" == line]
        assert (1 if wait.id in command else 0) == len(headings)
    joined = "".join(in_terminal(cli, columns, "show", wait.id).text.split())
    assert r"\u202eevil\u001b[31m" in joined
    assert "[bold]x[/bold]" in joined


def test_lines_of_a_value_cannot_pass_for_commands(cli: CommandLine) -> None:
    """Each line of a text of the model stands behind a bar, and stays whole."""
    text = "Meridian\n    continuations approve x@y\n\nHow to decide"
    wait = wait_of(start_all("file:runs", to=text), "approval")

    lines = in_terminal(cli, 60, "show", wait.id).text.splitlines()

    begin = lines.index("  │ Meridian")
    assert "  │     continuations approve x@y" == lines[begin + 1]
    assert "  │ How to decide" == lines[begin + 3]
    assert 1 == lines.count("How to decide")
    commands = [line for line in lines if line.startswith("    continuations ")]
    assert all(wait.id in line for line in commands)


def test_a_deep_tree_is_folded_with_a_count_unless_all(cli: CommandLine) -> None:
    wait_id = start_nested(cli, 9)

    folded = in_terminal(cli, 90, "show", "deep").text
    whole = in_terminal(cli, 90, "show", "deep", "--all").text

    assert 3 == folded.count(' step {"input":')
    assert "… 6 calls below, 1 open wait (show them with --all)" in folded
    assert wait_id == folded.splitlines()[-1].strip()
    assert 8 == whole.count(' step {"input":')
    assert "below" not in whole
    # A pipe is never folded
    piped = cli("show", "deep")
    assert 8 == piped.out.count(' step {"input":')
    assert piped.out == cli("show", "deep", "--all").out


def test_the_second_line_of_a_call_keeps_its_branches(cli: CommandLine) -> None:
    start_all("file:runs", to="a long name " * 8)

    lines = in_terminal(cli, 40, "show", "pay").text.splitlines()

    [first] = [n for n, line in enumerate(lines) if line.startswith("└─ transfer")]
    assert lines[first + 1].startswith("     ")
    ids = [line for line in lines if "@" in line]
    assert 1 == len(ids)
    assert all(len(line) <= 40 for line in lines if line not in ids)


def test_watch_at_40_columns_puts_the_text_below_its_time(cli: CommandLine) -> None:
    runner = start_all("file:runs")

    lines = in_terminal(cli, 40, "watch", "pay").text.splitlines()

    assert all(len(line) <= 40 for line in lines)
    cursors = [line.split()[0] for line in lines if line[0] != " "]
    assert [each.cursor for each in runner.events("pay")] == cursors


def test_a_dumb_terminal_is_folded_at_its_own_width(cli: CommandLine) -> None:
    start_all("file:runs")

    for command in (("inbox", "--for", "all"), ("show", "pay")):
        lines = in_terminal(cli, 40, *command, TERM="dumb").text.splitlines()

        assert all(len(line) <= 40 for line in lines if "@" not in line), lines
