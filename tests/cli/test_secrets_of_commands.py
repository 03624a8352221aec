"""A secret argument in the output of each command: only `--transcript` prints it."""

from __future__ import annotations

import asyncio
import json
import shutil

import pytest

from continuations.cli import program
from tests.cli.command_line import CommandLine
from tests.sampling import sample
from tests.secret_scene import KEY, PIN, RUN, WORDS, open_scene

APP = ("--app", "app_written:runner")
APPLICATION = """
from continuations import Runner
from tests.secret_scene import make_agents

runner = Runner(make_agents(echo=False), store="file:runs")
"""
# The arguments of each command; `{wait}` is an open wait. These commands print nothing
# of a run: `None`.
COMMANDS: dict[str, list[list[str]] | None] = {
    "start": [["start", "go", "--agent", "chat", "--run-id", "new", *APP]],
    "chat": [["chat", "chat", "--key", KEY, "--message", "hi", *APP]],
    "inbox": [["inbox"]],
    "waiting": [["waiting"], ["waiting", "--due"]],
    "runs": [["runs"]],
    "show": [
        ["show", RUN],
        ["show", "{wait}"],
        ["show", "{question}"],
        ["show", "chat", "--key", KEY],
        ["show", RUN, "--version", "4"],
    ],
    "watch": [["watch", RUN], ["watch", "{thread}"]],
    "history": [["history", RUN], ["history", "{thread}"]],
    "diff": [["diff", RUN, "1", "{newest}"], ["diff", RUN, "2", "4"]],
    "audit": [["audit", RUN]],
    "approve": [
        ["approve", "{wait}"],
        [
            "approve",
            "{wait}",
            "--arguments",
            json.dumps({"to": "Lee", "cents": "x", "pin": "[secret]"}),
        ],
    ],
    "deny": [["deny", "{wait}", "--reason", "no"]],
    "answer": [["answer", "{question}", '"12A"']],
    "fail": [["fail", "{question}", "broken"]],
    "decide": [["decide", "@decisions.json"]],
    "grants": [["grants", RUN]],
    "revoke": [["revoke", RUN, "01kbn5v3p0c8e2rgd0mwq1t4ay"]],
    "resume": [["resume", RUN, *APP], ["resume", RUN, "--stream", *APP]],
    "send": [["send", RUN, "hello"]],
    "post": [["post", "support", "hello", "--key", "42"]],
    "signal": [["signal", RUN, "paid"]],
    "signals": [["signals", RUN]],
    "drop-signals": [["drop-signals", RUN]],
    "publish": [["publish", "paid"]],
    "heartbeat": [["heartbeat", "{wait}", "--extend", "60"]],
    "wake": [["wake", RUN]],
    "pause": [["pause", RUN]],
    "unpause": [["unpause", RUN]],
    "cancel": [["cancel", RUN]],
    "fork": [["fork", RUN, "--run-id", "forked"]],
    "rewind": [["rewind", RUN, "--version", "2", "--plan"]],
    "adopt": None,
    "drift": [["drift", *APP]],
    "sweep": [["sweep", *APP]],
    "serve": None,
    "mcp": None,
    "ui": None,
    "migrate": [["migrate"], ["migrate", "--print"]],
    "erase": [["erase", RUN, "--yes"]],
    "prune": None,
    "copy": [["copy", "file:runs", "file:copied"]],
    "doctor": [["doctor", RUN]],
    "completion": None,
}
TRANSCRIPTS = (
    ["show", RUN, "--json"],
    ["watch", RUN, "--json"],
    ["history", RUN, "--json"],
    ["diff", RUN, "1", "{newest}", "--json"],
)


async def _open() -> dict[str, str]:
    runner, wait = await open_scene("file:runs", echo=False)
    run = await runner.look(RUN)
    [question] = [each.id for each in run.waits if each.kind == "question"]
    thread = await runner.thread("chat", key=KEY).look()
    assert thread is not None
    return {
        "wait": wait.id,
        "question": question,
        "newest": str(run.version),
        "thread": thread.run_id,
    }


def _filled(arguments: list[str], ids: dict[str, str]) -> list[str]:
    return [
        ids.get(each[1:-1], each) if each.startswith("{") else each
        for each in arguments
    ]


def test_each_command_has_an_example() -> None:
    """Add a new command to `COMMANDS`, so that it is known to print no secret."""
    assert program.COMMANDS.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_command_prints_no_secret(cli: CommandLine, name: str) -> None:
    turn = sorted(COMMANDS).index(name)
    for number, arguments in enumerate(COMMANDS[name] or ()):
        for option in sample(([], ["--json"]), 2, number + turn):
            shutil.rmtree(cli.folder / "runs", ignore_errors=True)
            ids = asyncio.run(_open())
            decision = {"wait_id": ids["wait"], "decision": "deny"}
            cli.write_file("decisions.json", json.dumps([decision]))
            cli.write_file("app_written.py", APPLICATION)
            found = cli(*_filled(arguments, ids), *option)
            what = f"{arguments} {option} {found.exit_code}"
            assert PIN not in found.out + found.err, what
            assert "Traceback" not in found.err, what


def test_option_transcript_prints_messages_whole(cli: CommandLine) -> None:
    ids = asyncio.run(_open())
    for arguments in TRANSCRIPTS:
        short = cli(*_filled(arguments, ids))
        whole = cli(*_filled(arguments, ids), "--transcript")
        assert PIN not in short.out
        assert "diff" in arguments or "Pay Kim and Lee" in short.out
        assert PIN in whole.out
    # Texts that are no arguments are printed by default.
    assert WORDS in cli("watch", ids["thread"]).out
