"""watch: the events of a run, line by line, and Ctrl-C."""

from __future__ import annotations

import json
import signal

from continuations import Approve, Runner
from tests.cli.command_line import CommandLine
from tests.cli.test_interruption import INTERRUPTIBLE_PROGRAM
from tests.present.schema_check import assert_matches_schema


def finish_run(runner: Runner) -> None:
    """Run `j1` over its approval to its end."""
    runner.start("go", run_id="j1")
    [wait] = runner.waiting()
    runner.decide(wait.id, Approve(by="kim"))
    runner.resume("j1")


def test_watch_prints_one_line_for_each_event(cli: CommandLine) -> None:
    finish_run(cli.runner)
    events = list(cli.runner.events("j1"))

    plain = cli("watch", "j1")
    rest = cli("watch", "j1", "--after", events[2].cursor, "--follow")

    assert 0 == plain.exit_code
    assert [each.cursor for each in events] == [line.split()[0] for line in plain.lines]
    assert plain.lines[3:] == rest.lines
    assert "\x1b" not in plain.out
    assert any(line.endswith("approve by kim") for line in plain.lines)
    assert "run  finished: " in plain.lines[-1]


def test_watch_prints_json_lines(cli: CommandLine) -> None:
    finish_run(cli.runner)

    forms = [json.loads(line) for line in cli("watch", "j1", "--json").lines]

    assert [each.cursor for each in cli.runner.events("j1")] == [
        form["cursor"] for form in forms
    ]
    assert "RunEnded" == forms[-1]["type"]
    for form in forms:
        assert_matches_schema("event", form)


def test_texts_of_models_cannot_forge_lines(cli: CommandLine) -> None:
    cli.runner.start(
        "one\n9.9  2026-01-01  run  finished\u202e", run_id="j1", work=False
    )
    lines = cli("watch", "j1").lines
    assert len(list(cli.runner.events("j1"))) == len(lines)
    assert any("one\\n9.9" in line and "\\u202e" in line for line in lines)


def test_ctrl_c_ends_watch_and_not_the_run(cli: CommandLine) -> None:
    """Nothing is printed about it, and the exit code is 130."""
    cli.runner.start("go", run_id="j1")
    count = len(list(cli.runner.events("j1")))
    program = ("-c", INTERRUPTIBLE_PROGRAM)
    process = cli.start_process("watch", "j1", "--follow", "--json", program=program)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(count)]

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert "WaitOpened" in lines[-1]
    assert (130, "", "") == (process.returncode, out, err)
    assert "suspended" == cli.runner.look("j1").status


def test_watch_of_a_wait_or_a_wrong_cursor_says_what_to_do(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1")
    [wait] = cli.runner.waiting()
    assert 2 == cli("watch", wait.id).exit_code
    wrong = cli("watch", "j1", "--after", "x")
    assert 5 == wrong.exit_code
    assert "after must be the cursor of an event" in wrong.err
