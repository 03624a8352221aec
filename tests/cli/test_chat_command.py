"""`continuations chat` without a terminal: pipes, one message, JSON lines, signals."""

from __future__ import annotations

import io
import json
import signal
from typing import Any

import pytest

from continuations import Runner
from tests.cli.chat_agents import EFFECTS, agent
from tests.cli.command_line import CommandLine, CommandResult
from tests.cli.test_interruption import INTERRUPTIBLE_PROGRAM

APP = "tests.cli.chat_agents:agent"
WORDS = ("chat", "support", "--key", "customer 42", "--app", APP)


def say(cli: CommandLine, text: str, *arguments: str) -> CommandResult:
    """Send one message with --message."""
    return cli(*WORDS, "--message", text, *arguments)


def test_post_needs_no_agent_code_and_begins_the_conversation(cli: CommandLine) -> None:
    """`chat` with the agent answers what was posted, and posts once for one id."""
    posted = cli("post", "support", "one", "--key", "customer 42", "--id", "m1")
    again = cli(
        "post", "support", "one", "--key", "customer 42", "--id", "m1", "--json"
    )

    assert 0 == posted.exit_code, posted.err
    value = json.loads(again.out)
    assert 1 == value["number"]
    assert posted.lines == [
        f"{value['run_id']}: message 1 is recorded",
        f"next: continuations resume {value['run_id']}",
    ]
    assert ["support: You said: one"] == say(cli, "one", "--id", "m1").lines


def test_each_line_of_a_pipe_is_one_message(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\n\ntwo\n"))

    done = cli(*WORDS)

    assert (0, "") == (done.exit_code, done.err)
    assert ["support: You said: one", "support: You said: two"] == done.lines


def test_json_prints_one_reply_on_each_line(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("one\nrefund 500\nthree\n"))

    done = cli(*WORDS, "--json")

    replies: list[dict[str, Any]] = [json.loads(line) for line in done.lines]
    assert [1, 2, 3] == [each["number"] for each in replies]
    assert ["replied", "suspended", "queued"] == [each["status"] for each in replies]
    assert "You said: one" == replies[0]["output"]
    [wait] = replies[1]["waits"]
    assert ("refund", {"cents": 500}) == (wait["tool"], wait["arguments"])
    assert wait["id"] == cli.single_wait_id()


def test_message_that_waits_names_the_wait_and_the_next_command(
    cli: CommandLine,
) -> None:
    asked = say(cli, "refund 500")
    [wait] = cli("waiting", "--ids").lines

    assert 0 == asked.exit_code
    assert f"  {wait}" in asked.lines
    assert asked.lines[-1].startswith(f"next: continuations approve {wait}")

    # After the approval, the next message prints the earlier reply first
    assert 0 == cli("approve", wait).exit_code
    later = say(cli, "thank you")
    assert [
        "  · refund: approved by kim",
        "  · refund: runs",
        "  · refund: refunded 500",
        "support: The tool said: refunded 500",
        "support: You said: thank you",
    ] == later.lines


def test_repeated_command_with_an_id_sends_one_message(cli: CommandLine) -> None:
    first = say(cli, "refund 1", "--id", "m-1", "--json")
    again = say(cli, "refund 1", "--id", "m-1", "--json")
    other = say(cli, "another text", "--id", "m-1")

    assert json.loads(first.out) == json.loads(again.out)
    assert (5, True) == (other.exit_code, other.err.startswith("InvalidInput: "))


def test_failed_reply_has_the_exit_code_1(cli: CommandLine) -> None:
    say(cli, "nap 3", "--id", "m-1")
    [run] = json.loads(cli("runs", "--json").out)
    agent_runner = Runner(agent, store=cli.store)
    agent_runner.thread(key="customer 42").stop_turn(reason="too long")

    failed = say(cli, "nap 3", "--id", "m-1")

    assert (1, "no reply: stopped: too long") == (failed.exit_code, failed.lines[0])
    assert run["run_id"] == json.loads(cli("runs", "--json").out)[0]["run_id"]


def test_message_takes_files(cli: CommandLine) -> None:
    (cli.folder / "photo.png").write_bytes(b"PNG")
    photo = str(cli.folder / "photo.png")

    sent = say(cli, "look", "--file", photo)
    alone = cli(*WORDS, "--file", photo)

    assert (0, 2) == (sent.exit_code, alone.exit_code)
    assert "user: look" not in sent.out
    assert "--file belongs to the --message" in alone.err
    agent_runner = Runner(agent, store=cli.store)
    messages: list[Any] = agent_runner.thread(key="customer 42").messages()
    content = messages[0]["content"]
    assert ["photo.png"] == [part["name"] for part in content[1:]]


def test_id_needs_a_message(cli: CommandLine) -> None:
    done = cli(*WORDS, "--id", "m-1")

    assert 2 == done.exit_code
    assert "--id is the id of the --message. Add --message TEXT" in done.err


def test_sender_and_context_are_handed_on(cli: CommandLine) -> None:
    asked = say(cli, "refund 500", "--by", "ann", "--json")

    assert "ann" == json.loads(asked.out)["waits"][0]["requester"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_completes_the_call_and_the_next_command_prints_the_reply(
    cli: CommandLine, number: signal.Signals
) -> None:
    process = cli.start_process(
        *WORDS, "--message", "search", program=("-c", INTERRUPTIBLE_PROGRAM)
    )
    assert process.stdout is not None
    assert "searching\n" == process.stdout.readline()
    process.send_signal(number)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("stopping: ")
    (cli.folder / "found").touch()
    _, err = process.communicate(timeout=60)

    assert 128 + number == process.returncode
    assert err.startswith("stopped: message 1 of run t-support-")
    done = say(cli, "hello")
    assert "support: The tool said: found it" in done.lines
    assert "search\n" == (cli.folder / EFFECTS).read_text()
