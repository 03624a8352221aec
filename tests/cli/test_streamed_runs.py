"""`start --stream` and `resume --stream`: texts while they are written, each once."""

from __future__ import annotations

import json
import signal
import subprocess
from datetime import UTC, datetime

import pytest

from continuations.cli.event_lines import EventPrinter
from continuations.events import MessageAdded
from tests.cli.command_line import CommandLine
from tests.cli.terminal_process import CTRL_C, TerminalProcess
from tests.cli.test_interruption import INTERRUPTIBLE_PROGRAM
from tests.present.schema_check import assert_matches_schema

APP = "tests.cli.chat_agents:nested"
OPTIONS = ("--run-id", "j1", "--app", APP, "--stream")
HALF = "\nboss/support: You said:\n  slo"
LIVE = ("TextDelta", "ReasoningDelta", "CallProgress")


def start_in_pipe(cli: CommandLine, *options: str) -> subprocess.Popen[str]:
    """Start run `j1`, whose sub-agent stands still in the middle of a text."""
    program = ("-c", INTERRUPTIBLE_PROGRAM)
    words = ("start", "slowly", *OPTIONS, *options)
    return cli.start_process(*words, program=program)


def read_until(process: subprocess.Popen[str], text: str) -> str:
    """Read from the output of a process until a text."""
    assert process.stdout is not None
    read = ""
    while text not in read:
        new = process.stdout.read(1)
        assert new, read
        read += new
    return read


def test_terminal_shows_a_text_while_it_is_written(cli: CommandLine) -> None:
    with TerminalProcess(cli.folder, "start", "slowly", *OPTIONS) as terminal:
        # The second part is not written yet
        terminal.expect(HALF)
        (cli.folder / "found").touch()
        assert 0 == terminal.wait()
        text = terminal.text

    streamed, outcome = text.split("\nFinished\n")
    assert "boss/support: You said:\n  slowly\n" in streamed
    # The first attempt was given up, and the text begins anew
    assert "\nboss thinks: hm, well\nboss: Supp\nboss: Support has" in streamed
    # The stored steps do not repeat the texts
    assert 1 == streamed.count("You said:")
    assert 1 == streamed.count("The end.")
    assert streamed.endswith("run  finished")
    assert outcome.startswith("run: j1\noutput:\n  Support has replied.\n  The end.\n")


def test_pipe_gets_each_part_at_once_and_the_steps_of_watch(cli: CommandLine) -> None:
    with start_in_pipe(cli) as process:
        before = read_until(process, HALF)
        (cli.folder / "found").touch()
        rest, err = process.communicate(timeout=60)

    assert (0, "") == (process.returncode, err)
    lines = (before + rest).splitlines()
    steps = [line for line in lines if line[0].isdigit()]
    watched = cli("watch", "j1").lines
    assert "\x1b" not in before + rest
    assert {step.split()[0] for step in steps} < {line.split()[0] for line in watched}
    # A step that differs from that of watch leaves out a text that stands above
    shortened = [step for step in steps if step not in watched]
    assert all(any(line.startswith(step) for line in watched) for step in shortened)
    assert "Finished" in lines


def test_json_lines_are_live_and_stored_events_and_then_the_outcome(
    cli: CommandLine,
) -> None:
    with start_in_pipe(cli, "--json") as process:
        before = read_until(process, '"text": "You said:\\nslo"}\n')
        (cli.folder / "found").touch()
        rest, err = process.communicate(timeout=60)

    assert (0, "") == (process.returncode, err)
    *events, outcome = [json.loads(line) for line in (before + rest).splitlines()]
    for event in events:
        assert_matches_schema("live_event" if event["type"] in LIVE else "event", event)
    assert_matches_schema("outcome", outcome)
    stored = [event for event in events if event["type"] not in LIVE]
    watched = [json.loads(line) for line in cli("watch", "j1", "--json").lines]
    assert watched == stored
    assert {"TextDelta", "ReasoningDelta"} < {event["type"] for event in events}


def test_run_that_suspends_is_resumed_with_its_new_events(cli: CommandLine) -> None:
    started = cli.run_in_process("start", "refund 5", *OPTIONS)
    assert 0 == started.exit_code
    steps, outcome = started.out.split("\nSuspended\n")
    wait_id = cli.single_wait_id()
    assert f"waits for {wait_id}" in steps.splitlines()[-1]
    assert "boss > support > refund" in outcome

    cli("approve", wait_id, "--by", "kim")
    resumed = cli.run_in_process("resume", "j1", "--app", APP, "--stream")

    assert 0 == resumed.exit_code
    steps, _ = resumed.out.split("\nFinished\n")
    assert "approve by kim" in steps
    assert "\nboss/support: The tool said: refunded 5\n" in steps
    assert "agent begins" not in steps
    assert 1 == steps.count("The tool said")


def test_progress_of_a_tool_is_printed(cli: CommandLine) -> None:
    plain = cli.run_in_process("start", "count_money", *OPTIONS)
    assert '  · support > count_money: {"counted":5}' in plain.lines

    lines = cli.run_in_process(
        *("start", "count_money", "--run-id", "j2", "--app", APP, "--stream", "--json")
    ).lines
    [progress] = [each for each in map(json.loads, lines) if "counted" in str(each)]
    assert ("CallProgress", {"counted": 5}) == (progress["type"], progress["value"])
    assert_matches_schema("live_event", progress)


def test_ctrl_c_in_the_middle_of_a_text_suspends_the_run(cli: CommandLine) -> None:
    with start_in_pipe(cli) as process:
        read_until(process, HALF)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        notes = [process.stderr.readline(), process.stderr.readline()]
        # The model's thread ends
        (cli.folder / "found").touch()
        rest, _ = process.communicate(timeout=60)

    # The open line is ended, so that the prompt of the shell has a line of its own
    assert (130, "\n") == (process.returncode, rest)
    assert notes[0].startswith("stopping: ")
    assert notes[1].startswith("stopped: run j1 is not claimed")
    resumed = cli.run_in_process("resume", "j1", "--app", APP, "--stream")
    assert 1 == resumed.out.count("boss/support: You said:\n  slowly\n")


def test_second_ctrl_c_at_a_terminal_stops_at_once(cli: CommandLine) -> None:
    with TerminalProcess(cli.folder, "start", "slowly", *OPTIONS) as terminal:
        terminal.expect(HALF)
        terminal.type(CTRL_C)
        terminal.expect("stopping: ")
        terminal.type(CTRL_C)
        terminal.expect("stopped: run j1")
        (cli.folder / "found").touch()
        assert 130 == terminal.wait()


def test_reader_that_leaves_does_not_stop_the_run(cli: CommandLine) -> None:
    with start_in_pipe(cli) as process:
        read_until(process, HALF)
        assert process.stdout is not None
        process.stdout.close()
        (cli.folder / "found").touch()
        assert process.stderr is not None
        err = process.stderr.read()

    assert "on_event raised" not in err
    assert "finished" == json.loads(cli("show", "j1", "--json").out)["status"]


def test_text_cannot_forge_a_step(cli: CommandLine) -> None:
    text = "1.1\n9.9 2026-01-01 run finished\u202e"
    lines = cli.run_in_process("start", text, *OPTIONS).out.split("\n")
    assert not any(line.startswith("9.9") for line in lines)
    assert "  9.9 2026-01-01 run finished\\u202e" in lines


def test_message_of_several_parts_is_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    parts = [{"type": "text", "text": "a receipt"}]
    for role in ("user", "tool"):
        message = {"role": role, "content": parts, "tool_call_id": "t1"}
        EventPrinter(as_json=False)(
            MessageAdded(
                cursor="3.1",
                run_id="j1",
                frame="f1",
                path=("boss",),
                at=datetime(2026, 1, 2, tzinfo=UTC),
                message_json=json.dumps(message),
            )
        )
    lines = capsys.readouterr().out.splitlines()
    assert ["3.1", "3.1"] == [line.split()[0] for line in lines]


def test_wrong_options(cli: CommandLine) -> None:
    """Nothing is stored."""
    both = cli.run_in_process("start", "go", *OPTIONS, "--no-work")
    assert 2 == both.exit_code
    assert "--stream prints the work on the run, and --no-work" in both.err
    assert 2 == cli("start", "go", *OPTIONS, "--streams").exit_code
    assert 2 == cli("sweep", "--stream").exit_code
    assert not (cli.folder / "runs").exists()
