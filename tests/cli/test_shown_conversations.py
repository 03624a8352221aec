"""`show`, `runs` and `waiting` about conversations."""

from __future__ import annotations

import json

from continuations import Agent, Runner
from continuations.models.scripted import ScriptedModel
from tests.cli.chat_agents import agent
from tests.cli.command_line import CommandLine


def runner_of(cli: CommandLine, root: Agent = agent) -> Runner:
    """Return a runner on the store of the command line."""
    return Runner(root, store=cli.store)


def test_show_names_a_conversation_by_agent_and_key_or_by_its_run(
    cli: CommandLine,
) -> None:
    thread = runner_of(cli).thread(key="customer 42")
    thread.send("hello")
    run_id = thread.send("hello again").run_id

    by_key = cli("show", "support", "--key", "customer 42")
    by_run = cli("show", run_id)

    assert (0, by_run.out) == (by_key.exit_code, by_key.out)
    assert f"{run_id}: resting, version " in by_key.lines[0]
    conversation = "conversation customer 42 with support: 2 messages, 2 answered"
    assert conversation in by_key.lines
    assert ["last reply:", "  You said: hello again"] == by_key.lines[-3:-1]
    form = json.loads(cli("show", "support", "--key", "customer 42", "--json").out)
    assert ("customer 42", "resting") == (form["thread"], form["status"])
    assert "You said: hello again" == form["output"]
    assert [] == form["waits"]


def test_show_names_the_approval_of_a_conversation_and_its_failed_reply(
    cli: CommandLine,
) -> None:
    thread = runner_of(cli).thread(key="customer 42")
    thread.send("refund 500")
    wait_id = cli.single_wait_id()

    shown = cli("show", "support", "--key", "customer 42")
    thread.stop_turn(reason="no")
    stopped = cli("show", "support", "--key", "customer 42")

    assert any(wait_id in line for line in shown.lines)
    assert "last reply failed: stopped" in stopped.lines
    assert [] == cli("waiting", "--ids").lines


def test_unknown_conversation_is_named(cli: CommandLine) -> None:
    (cli.folder / "runs").mkdir()
    done = cli("show", "support", "--key", "nobody")

    assert (2, "") == (done.exit_code, done.out)
    assert "--key 'nobody' names no conversation of agent 'support'" in done.err


def test_runs_lists_conversations_with_key_and_messages(cli: CommandLine) -> None:
    runner = runner_of(cli, Agent("support", model=ScriptedModel(["hi", "done"])))
    runner.thread(key="customer 42").send("hello")
    runner.start("go", run_id="j1")

    table = cli("runs", "--status", "resting")
    rows = {row["run_id"]: row for row in json.loads(cli("runs", "--json").out)}

    assert ["THREAD", "MESSAGES"] == table.lines[0].split()[3:5]
    assert ["support", "customer", "42", "1"] == table.lines[1].split()[2:6]
    assert (None, 0) == (rows["j1"]["thread"], rows["j1"]["messages"])
    [thread] = [row for row in rows.values() if row["thread"] is not None]
    assert ("customer 42", 1) == (thread["thread"], thread["messages"])
    # Without conversations, the table has no columns for them
    assert "THREAD" not in cli("runs", "--status", "finished").out
