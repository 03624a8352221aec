"""approve, deny, answer, cancel: a person decides exactly one wait."""

from __future__ import annotations

import os
import pwd
import re
import shlex
from dataclasses import replace

import pytest

from continuations import Failed, Finished, Runner, Suspended
from continuations.cli.formatting import outcome_lines
from continuations.errors import AlreadyDecided
from continuations.results import Decision
from tests.cli.command_line import CommandLine
from tests.cli.sample_agents import make_boss, pay


def start_waiting_run(runner: Runner, run_id: str = "j1") -> str:
    runner.start("go", run_id=run_id)
    [wait] = [each.id for each in runner.waiting() if each.run_id == run_id]
    return wait


def test_same_decision_twice_is_recorded_once(cli: CommandLine) -> None:
    wait = start_waiting_run(cli.runner)

    first = cli("approve", wait, "--reason", "fine")
    second = cli("approve", wait, "--reason", "fine")

    assert (0, first.out) == (second.exit_code, second.out)
    assert "reason: fine" in first.lines
    assert "next: continuations resume j1" in first.lines


def test_second_decision_error_names_the_first_decider(cli: CommandLine) -> None:
    # Given a wait that kim has denied
    wait = start_waiting_run(cli.runner)
    assert 0 == cli("deny", wait).exit_code

    # When bob approves it
    late = cli("approve", wait, "--by", "bob")

    # Then the error names kim's decision
    assert (5, "") == (late.exit_code, late.out)
    assert late.err.startswith("AlreadyDecided: ")
    assert "denied by kim" in late.err
    assert 1 == len(late.err.splitlines())


def test_application_tells_the_groups_of_a_person(cli: CommandLine) -> None:
    """A decision imports the application only for the groups of its approvers."""
    app = ("--app", "tests.cli.sample_runners:voting")
    cli("start", "go", "--run-id", "v1", *app)
    [wait] = [each.id for each in Runner([], store=cli.store).waiting()]

    def approve(person: str, *options: str) -> tuple[int, str]:
        done = cli("approve", wait, "--by", person, *options)
        return done.exit_code, done.out + done.err

    assert "the groups of kim are not known" in approve("kim")[1]
    silent = approve("kim", "--app", "tests.cli.sample_runners:silent")
    assert 2 == silent[0]
    assert "does not tell the groups of kim. Make it a Runner(groups=...)." in silent[1]
    assert "bob is not one of its approvers" in approve("bob", *app)[1]
    assert "approved by kim: 1 of 2 votes" in approve("kim", *app)[1]
    assert "approved by kim, lee" in approve("lee", *app)[1]


@pytest.mark.parametrize("command", ["approve", "deny", "answer", "fail"])
def test_shown_digest_of_another_wait_decides_nothing(
    command: str, cli: CommandLine
) -> None:
    wait = start_waiting_run(cli.runner)
    value = ["7"] if command in ("answer", "fail") else []

    other = cli(command, wait, *value, "--shown", "0" * 64)

    assert 5 == other.exit_code
    assert "you saw something else" in other.err
    assert 0 == cli("approve", wait, "--shown", cli.runner.wait(wait).digest).exit_code


def test_a_denial_reaches_the_model(cli: CommandLine) -> None:
    wait = start_waiting_run(cli.runner)

    cli("deny", wait, "--reason", "too much")

    assert isinstance(cli.runner.resume("j1"), Finished)
    assert "too much" not in cli("show", "j1").out


def test_edited_arguments_are_checked(cli: CommandLine) -> None:
    wait = start_waiting_run(cli.runner)

    # When the arguments are not JSON, not an object, or do not match the schema
    broken = cli("approve", wait, "--arguments", "{cents: 1}")
    number = cli("approve", wait, "--arguments", "1")
    invalid = cli("approve", wait, "--arguments", '{"what": 7}')
    rounded = cli("approve", wait, "--arguments", '{"what": 90071992547409.93123}')
    repeated = cli("approve", wait, "--arguments", '{"what": "7", "what": "8"}')

    # Then no decision is recorded, and valid arguments are accepted from a file
    assert [2, 5, 5] == [broken.exit_code, number.exit_code, invalid.exit_code]
    assert "--arguments is not JSON, got '{cents: 1}'" in broken.err
    assert [2, 2] == [rounded.exit_code, repeated.exit_code]
    assert "write it as a string" in rounded.err
    assert "the same key twice" in repeated.err
    assert invalid.err.startswith("DecisionRefused: ")
    cli.write_file("edit.json", '{"what": "7"}')
    done = cli("approve", wait, "--arguments", "@edit.json")
    assert 0 == done.exit_code
    assert 'edited arguments: {"what":"7"}' in done.lines
    assert isinstance(cli.runner.resume("j1"), Finished)


def test_missing_arguments_file_is_a_usage_error(cli: CommandLine) -> None:
    done = cli("approve", start_waiting_run(cli.runner), "--arguments", "@none.json")

    assert 2 == done.exit_code
    assert "none.json" in done.err
    assert 1 == len(list(cli.runner.waiting()))


def test_answer_value_is_json_unless_text_option_is_given(cli: CommandLine) -> None:
    # Given two waits
    one, two = start_waiting_run(cli.runner), start_waiting_run(cli.runner, "j2")

    # When values are passed with and without --text
    word = cli("answer", one, "yes")
    text = cli("answer", one, "yes", "--text")
    number = cli("answer", two, "-5")

    # Then a bare word is rejected with a hint, and the other values are recorded
    assert (2, True) == (word.exit_code, "--text" in word.err)
    assert [0, 0] == [text.exit_code, number.exit_code]


@pytest.mark.parametrize("value", ["true", "null", '""', '"approve"'])
def test_answer_to_an_approval_is_recorded_with_its_value(
    cli: CommandLine, value: str
) -> None:
    wait = start_waiting_run(cli.runner)

    assert 0 == cli("answer", wait, value).exit_code

    with pytest.raises(AlreadyDecided) as caught:
        cli.runner.wait(wait)
    assert isinstance(caught.value.decision, Decision)
    assert ("answer", value) == (
        caught.value.decision.kind,
        caught.value.decision.value,
    )
    assert isinstance(cli.runner.resume("j1"), Finished)
    assert [] == list(cli.runner.waiting())


def test_show_of_a_decided_wait_names_its_decision_and_no_other(
    cli: CommandLine,
) -> None:
    """No process decided twice, so the text does not say that a decision was lost."""
    wait = start_waiting_run(cli.runner)
    cli("approve", wait)

    shown = cli("show", wait)

    assert (5, "") == (shown.exit_code, shown.out)
    assert f"wait {wait} is not open: it was approved by kim at " in shown.err
    assert "recorded. " not in shown.err


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("approval-01m7xzj8asw1ramfcps55vy294@j1", "WaitNotFound"),
        ("approval-1@j1", "WaitNotFound"),
        ("no-such-run", "RunNotFound"),
        ("../etc", "InvalidId"),
        ("", "InvalidId"),
    ],
)
def test_unknown_wait_id_is_an_error(cli: CommandLine, name: str, error: str) -> None:
    start_waiting_run(cli.runner)

    done = cli("approve", name)

    assert (5, "") == (done.exit_code, done.out)
    assert done.err.startswith(f"{error}: ")
    assert 1 == len(list(cli.runner.waiting()))


def test_run_id_in_place_of_a_wait_id_is_rejected(cli: CommandLine) -> None:
    """A repeated command would otherwise approve a call that the person never saw."""
    # Given a run with two open waits
    agent = make_boss(pay("first"), pay("second"))
    runner = Runner(agent, store=cli.store)
    runner.start("go", run_id="j1")
    first, second = (wait.id for wait in runner.look("j1").waits)

    # When it is approved by the run's id
    refused = cli("approve", "j1")

    # Then the error lists both and decides none, also when only one is open
    assert 2 == refused.exit_code
    assert first in refused.err
    assert second in refused.err
    assert 2 == len(list(runner.waiting()))
    assert 0 == cli("deny", first).exit_code
    assert [second] == cli("waiting", "--ids").lines
    assert 2 == cli("approve", "j1").exit_code
    assert [second] == [wait.id for wait in runner.waiting()]


@pytest.mark.parametrize("command", ["resume", "cancel", "doctor"])
def test_wait_id_in_place_of_a_run_id_names_the_run(
    cli: CommandLine, command: str
) -> None:
    wait = start_waiting_run(cli.runner)

    refused = cli(command, wait)

    assert (2, "") == (refused.exit_code, refused.out)
    expected = (
        f"Error: {wait} is the id of a wait, and `{command}` needs the id of a run. "
        "The run of this wait is j1.\n"
    )
    assert expected == refused.err
    assert 1 == len(list(cli.runner.waiting()))


def test_run_again_does_not_apply_to_an_approval(cli: CommandLine) -> None:
    wait = start_waiting_run(cli.runner)

    refused = cli("approve", wait, "--run-again")

    assert (2, "") == (refused.exit_code, refused.out)
    assert "--run-again is for a call with an unknown outcome" in refused.err
    assert 1 == len(list(cli.runner.waiting()))


def test_start_names_the_command_that_decides(cli: CommandLine) -> None:
    """With several waits the line names none, so that no wait is preferred."""
    cli.write_file(
        "boss_written.py",
        "from tests.cli.sample_agents import make_boss, pay\n"
        "one, two = make_boss(), make_boss(pay('x'), pay('y'))\n",
    )

    one = cli("start", "go", "--app", "boss_written:one")
    [wait] = cli("waiting", "--ids").lines
    two = cli("start", "go", "--app", "boss_written:two")

    assert f"next: continuations approve {wait} (or deny, or answer)" == one.lines[-1]
    assert "next: continuations approve WAIT (or deny, or answer)" == two.lines[-1]


def test_approve_with_the_id_of_a_finished_run_is_rejected(cli: CommandLine) -> None:
    cli("approve", start_waiting_run(cli.runner))
    cli.runner.resume("j1")

    done = cli("approve", "j1")

    assert (2, True) == (done.exit_code, "Open waits of this run: none" in done.err)


def test_output_names_the_decider(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given no --by, and a $USER that is not the user of the process
    wait = start_waiting_run(cli.runner)
    monkeypatch.delenv("CONTINUATIONS_BY")
    monkeypatch.setenv("USER", "ceo")
    monkeypatch.setenv("LOGNAME", "ceo")
    user = pwd.getpwuid(os.getuid()).pw_name

    # When a wait is decided
    done = cli("approve", wait)

    # Then the decision names the user of the process, and a note says so
    assert done.lines[0].startswith(f"approved by {user} at ")
    assert f"recorded for {user}, the user of this process" in done.err


def test_unnamed_user_must_pass_by_option(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = start_waiting_run(cli.runner)
    monkeypatch.delenv("CONTINUATIONS_BY")
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)

    done = cli("approve", wait)

    assert (2, True) == (done.exit_code, "--by" in done.err)
    assert 1 == len(list(cli.runner.waiting()))


def test_cancel_ends_a_run_and_its_waits(cli: CommandLine) -> None:
    # Given a waiting run
    wait = start_waiting_run(cli.runner)

    # When it is cancelled, twice
    done = cli("cancel", "j1", "--reason", "no more")
    again = cli("cancel", "j1")

    # Then the run and its wait have ended, and a decision is rejected
    assert (0, "j1: cancelled\n") == (done.exit_code, done.out)
    assert (0, done.out) == (again.exit_code, again.out)
    assert isinstance(cli.runner.resume("j1"), Failed)
    late = cli("approve", wait)
    assert (5, True) == (late.exit_code, late.err.startswith("Cancelled: "))
    assert "no more" in cli("show", "j1").out


def test_a_finished_run_is_not_cancelled(cli: CommandLine) -> None:
    cli("approve", start_waiting_run(cli.runner))
    cli.runner.resume("j1")

    done = cli("cancel", "j1")

    assert (1, True) == (done.exit_code, "already finished" in done.out)


def test_a_paused_run_with_waits_is_resumed_next(cli: CommandLine) -> None:
    outcome = cli.runner.start("go", run_id="j1")
    assert isinstance(outcome, Suspended)

    lines = list(outcome_lines(replace(outcome, paused=True)))

    assert "next: continuations resume j1" == lines[-1]


def advised_command(error: str) -> list[str]:
    """Return the words of the command that an error names."""
    [command] = re.findall(r"`continuations ([^`]*)`", error)
    return shlex.split(command)


@pytest.mark.parametrize("store", ["file:other runs", "file:runs"])
def test_advice_of_errors_is_a_command_that_works(cli: CommandLine, store: str) -> None:
    """The command has the store that was given, also with a space in its name."""
    runner = Runner(make_boss(), store=f"file:{cli.folder / store[5:]}")
    wait = start_waiting_run(runner)
    options = ("--store", store)
    cli("approve", wait, *options)

    decided = cli("deny", wait, *options)
    missing = cli("show", "j9", *options)
    no_version = cli("show", "j1", "--version", "99", *options)

    for failed, words in (
        (decided, '"approve"'),
        (missing, "j1"),
        (no_version, "version 1:"),
    ):
        assert 5 == failed.exit_code
        shown = cli(*advised_command(failed.err))
        assert (0, True) == (shown.exit_code, words in shown.out), failed.err
