"""history and diff: the versions of a run, and what differs between two."""

from __future__ import annotations

import json

from continuations import Agent, Approve, Runner, ask_person
from tests.cli.command_line import CommandLine
from tests.cli.terminal_process import TerminalProcess
from tests.cli.test_watch_command import finish_run
from tests.present.schema_check import assert_matches_schema
from tests.sample_app import make_pay
from tests.scripts import call, scripted_model


def test_history_has_every_version_with_its_changes(cli: CommandLine) -> None:
    finish_run(cli.runner)
    versions = list(cli.runner.history("j1"))

    plain = cli("history", "j1")
    page = cli("history", "j1", "--limit", "2")
    rest = cli("history", "j1", "--after", "2")

    assert 0 == plain.exit_code
    heads = [line for line in plain.lines if line.startswith("version ")]
    assert len(versions) == len(heads)
    assert all(
        str(each.worker) in head for each, head in zip(versions, heads, strict=True)
    )
    assert any(line.endswith("approve by kim") for line in plain.lines)
    assert any("1 open wait" in line for line in plain.lines)
    assert plain.lines == page.lines + rest.lines
    assert "--after 2" in page.err
    assert "\x1b" not in plain.out


def test_history_prints_json_lines(cli: CommandLine) -> None:
    finish_run(cli.runner)

    forms = [json.loads(line) for line in cli("history", "j1", "--json").lines]

    assert [each.number for each in cli.runner.history("j1")] == [
        form["number"] for form in forms
    ]
    for form in forms:
        assert_matches_schema("run_version", form)


def test_diff_has_a_line_for_each_difference(cli: CommandLine) -> None:
    finish_run(cli.runner)
    versions = list(cli.runner.history("j1"))
    waiting = next(each.number for each in versions if each.waits)
    last = versions[-1].number

    plain = cli("diff", "j1", str(waiting), str(last))
    form = json.loads(cli("diff", "j1", str(waiting), str(last), "--json").out)

    assert 0 == plain.exit_code
    assert "~ run  suspended -> finished" in plain.lines
    assert any(line.startswith("- ") and "by kim" in line for line in plain.lines)
    assert any(line.startswith("+ ") and "message" in line for line in plain.lines)
    assert_matches_schema("run_difference", form)


def test_unknown_version_is_an_error_of_the_library(cli: CommandLine) -> None:
    finish_run(cli.runner)

    found = cli("diff", "j1", "1", "99")

    assert 5 == found.exit_code
    assert "no version 99" in found.err


def test_fork_waits_with_its_decision(cli: CommandLine) -> None:
    finish_run(cli.runner)
    versions = list(cli.runner.history("j1"))
    waiting = next(each for each in versions if each.waits)
    version, wait = str(waiting.number), waiting.waits[0].id
    fork = ("fork", "j1", "--version", version, "--run-id", "j2", "--by", "lee")

    made = cli(*fork, "--decide", f"{wait}=deny")
    again = cli(*fork, "--decide", f"{wait}=deny", "--json")

    assert 0 == made.exit_code, made.err
    assert "j2: a fork of j1" in made.out
    assert {"run_id": "j2"} == json.loads(again.out)
    (line,) = cli.runner.audit("j2", past=False)
    assert ("deny", "lee", "cli") == (line.verdict, line.by, line.door)


def test_fork_takes_results_and_answers(cli: CommandLine) -> None:
    finish_run(cli.runner)
    waiting = next(each for each in cli.runner.history("j1") if each.waits)
    call = waiting.waits[0].call_id

    made = cli(
        "fork", "j1", "--version", str(waiting.number), "--result", f'{call}="by hand"'
    )

    assert 0 == made.exit_code, made.err
    fork = made.out.partition(":")[0]
    assert () == cli.runner.look(fork).waits


def test_wrong_options_of_fork_are_refused(cli: CommandLine) -> None:
    finish_run(cli.runner)
    wait = next(each for each in cli.runner.history("j1") if each.waits).waits[0].id
    for options in (
        ("--decide", "approve"),
        ("--decide", f"{wait}=yes"),
        ("--decide", f"{wait}=answer:x"),
        ("--result", "c4=x"),
    ):
        assert 2 == cli("fork", "j1", *options).exit_code, options
    unknown = cli("fork", "j1", "--version", "2", "--message", "f9=Hello")
    assert 5 == unknown.exit_code
    assert "which is no frame" in unknown.err


def test_rewind_lists_what_is_not_undone(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1")
    cli.runner.send("j1", "hurry", by="ann")

    made = cli("rewind", "j1", "--version", "1")
    again = cli("rewind", "j1", "--version", "1", "--json")

    assert 0 == made.exit_code, made.err
    assert "it goes on from version 1" in made.lines[0]
    form = json.loads(again.out)
    assert_matches_schema("rewound", form)
    assert ("j1", 1) == (form["run_id"], form["rewound_to"])
    assert () == cli.runner.look("j1").waits
    finished = cli("rewind", "j9", "--version", "1")
    assert 5 == finished.exit_code


def start_waiting(runner: Runner) -> tuple[int, str]:
    """Start `j1`; return the number of the version that waits, and its wait."""
    runner.start("go", run_id="j1")
    look = runner.look("j1")
    (wait,) = look.waits
    return look.version, wait.id


def test_plan_of_a_rewind_tells_all_and_changes_nothing(cli: CommandLine) -> None:
    waiting, wait = start_waiting(cli.runner)
    cli.runner.send("j1", "hurry", by="ann")
    before = cli.runner.look("j1").version

    text = cli("rewind", "j1", "--version", "1", "--plan")
    form = json.loads(cli("rewind", "j1", "--version", "1", "--plan", "--json").out)

    assert 0 == text.exit_code, text.err
    assert f"closed: Run pay: 500 ({wait})" in text.out
    assert f"version 1 instead of version {before}" in text.lines[0]
    assert_matches_schema("rewind_plan", form)
    assert before == cli.runner.look("j1").version
    next_step = text.lines[-1].removeprefix("next: continuations ")
    assert form["digest"] in next_step
    assert 0 == cli(*next_step.split()).exit_code
    assert () == cli.runner.look("j1").waits
    # The digest of the old plan: the run moved on.
    stale = cli(*next_step.split())
    assert 4 == stale.exit_code
    assert "moved on since the plan" in stale.err
    assert waiting == before


def test_plan_names_the_calls_and_waits_that_come_back(cli: CommandLine) -> None:
    script = {
        "go": [[call("pay", what="5")], [call("ask_person", question="Which?")], "done"]
    }
    tools = [make_pay(lambda _effect: None), ask_person]
    agent = Agent("payer", tools=tools, model=scripted_model(script))
    runner = Runner(agent, store=cli.store)
    version, wait = start_waiting(runner)
    runner.decide(wait, Approve(by="kim"))
    runner.resume("j1")
    (question,) = runner.look("j1").waits

    plan = cli("rewind", "j1", "--version", str(version), "--plan")

    assert 0 == plan.exit_code
    assert f"  closed: Which? ({question.id})" in plan.lines
    assert f"  asked again: Run pay: 5 ({wait})" in plan.lines
    assert '  not undone: payer/pay {"then":"","what":"5"}' in plan.lines


def test_plan_for_an_ended_run_names_the_command_that_forks(cli: CommandLine) -> None:
    finish_run(cli.runner)

    ended = cli("rewind", "j1", "--version", "1", "--plan")

    assert 1 == ended.exit_code
    assert "j1 cannot go back to version 1: it is finished." in ended.out
    command = ended.lines[-1].removeprefix("next: continuations ")
    assert 0 == cli(*command.split()).exit_code
    assert 2 == cli("rewind", "j1", "--version", "1", "--plan", "--yes").exit_code


def test_rewind_in_a_terminal_shows_the_plan_and_asks(cli: CommandLine) -> None:
    version, wait = start_waiting(cli.runner)
    words = ("rewind", "j1", "--version", "1")

    with TerminalProcess(cli.folder, *words) as terminal:
        plan = terminal.answer("Let run j1 go back to version 1?", "n")
        assert 1 == terminal.wait()
    assert f"closed: Run pay: 500 ({wait})" in plan
    assert "Nothing was changed." in terminal.text
    assert version == cli.runner.look("j1").version
    with TerminalProcess(cli.folder, *words) as terminal:
        terminal.answer("Let run j1 go back to version 1?", "y")
        assert 0 == terminal.wait()
    assert () == cli.runner.look("j1").waits
    with TerminalProcess(cli.folder, *words) as terminal:
        terminal.expect("Let run j1 go back to version 1?")
        assert 130 == terminal.interrupt()
    assert "Nothing was changed." in terminal.text
    assert "Aborted" not in terminal.text
    with TerminalProcess(cli.folder, *words, "--yes") as terminal:
        assert 0 == terminal.wait()
    assert "go back" not in terminal.text
