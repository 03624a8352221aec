"""history and diff: the versions of a run, and what differs between two."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.test_watch_command import finish_run
from tests.present.schema_check import assert_matches_schema

if TYPE_CHECKING:
    from continuations import Runner
    from tests.cli.command_line import CommandLine


def test_history_has_every_version_with_its_changes(
    cli: CommandLine, runner: Runner
) -> None:
    finish_run(runner)
    versions = list(runner.history("j1"))

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


def test_history_prints_json_lines(cli: CommandLine, runner: Runner) -> None:
    finish_run(runner)

    forms = [json.loads(line) for line in cli("history", "j1", "--json").lines]

    assert [each.number for each in runner.history("j1")] == [
        form["number"] for form in forms
    ]
    for form in forms:
        assert_matches_schema("run_version", form)


def test_diff_has_a_line_for_each_difference(cli: CommandLine, runner: Runner) -> None:
    finish_run(runner)
    versions = list(runner.history("j1"))
    waiting = next(each.number for each in versions if each.waits)
    last = versions[-1].number

    plain = cli("diff", "j1", str(waiting), str(last))
    form = json.loads(cli("diff", "j1", str(waiting), str(last), "--json").out)

    assert 0 == plain.exit_code
    assert "~ run  suspended -> finished" in plain.lines
    assert any(line.startswith("- ") and "by kim" in line for line in plain.lines)
    assert any(line.startswith("+ ") and "message" in line for line in plain.lines)
    assert_matches_schema("run_difference", form)


def test_unknown_version_is_an_error_of_the_library(
    cli: CommandLine, runner: Runner
) -> None:
    finish_run(runner)

    found = cli("diff", "j1", "1", "99")

    assert 5 == found.exit_code
    assert "no version 99" in found.err


def test_fork_waits_with_its_decision(cli: CommandLine, runner: Runner) -> None:
    finish_run(runner)
    versions = list(runner.history("j1"))
    waiting = next(each for each in versions if each.waits)
    version, wait = str(waiting.number), waiting.waits[0].id
    fork = ("fork", "j1", "--version", version, "--run-id", "j2", "--by", "lee")

    made = cli(*fork, "--decide", f"{wait}=deny")
    again = cli(*fork, "--decide", f"{wait}=deny", "--json")

    assert 0 == made.exit_code, made.err
    assert "j2: a fork of j1" in made.out
    assert {"run_id": "j2"} == json.loads(again.out)
    (line,) = runner.audit("j2", past=False)
    assert ("deny", "lee", "cli") == (line.verdict, line.by, line.door)


def test_fork_takes_results_and_answers(cli: CommandLine, runner: Runner) -> None:
    finish_run(runner)
    waiting = next(each for each in runner.history("j1") if each.waits)
    call = waiting.waits[0].call_id

    made = cli(
        "fork", "j1", "--version", str(waiting.number), "--result", f'{call}="by hand"'
    )

    assert 0 == made.exit_code, made.err
    fork = made.out.partition(":")[0]
    assert () == runner.look(fork).waits


def test_wrong_options_of_fork_are_refused(cli: CommandLine, runner: Runner) -> None:
    finish_run(runner)
    wait = next(each for each in runner.history("j1") if each.waits).waits[0].id
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


def test_rewind_lists_what_is_not_undone(cli: CommandLine, runner: Runner) -> None:
    runner.start("go", run_id="j1")
    runner.send("j1", "hurry", by="ann")

    made = cli("rewind", "j1", "--version", "1")
    again = cli("rewind", "j1", "--version", "1", "--json")

    assert 0 == made.exit_code, made.err
    assert "it goes on from version 1" in made.lines[0]
    form = json.loads(again.out)
    assert_matches_schema("rewound", form)
    assert ("j1", 1) == (form["run_id"], form["rewound_to"])
    assert () == runner.look("j1").waits
    finished = cli("rewind", "j9", "--version", "1")
    assert 5 == finished.exit_code
