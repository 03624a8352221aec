"""waiting, show: every open wait, with no text hidden, cut or forged."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from continuations import Agent, Approve, Finished, Runner, ask, external, tool
from continuations.models.scripted import LaterReply, ScriptedModel, ToolCall
from continuations.tools import ToolWait
from tests.cli.command_line import RUNNERS, CommandLine
from tests.cli.inbox_agents import start_limited
from tests.cli.sample_agents import make_boss, pay
from tests.present.schema_check import assert_matches_schema
from tests.scripts import ScriptedCall, call, scripted_model

HOSTILE_TEXT = (
    "to \u202eevil\u200b \x1b[31m\r\n\x9b2J \U000e0041 [bold]x[/bold] \\u0041"
)


def make_runner(cli: CommandLine, *calls: ScriptedCall) -> Runner:
    return Runner(make_boss(*calls), store=cli.store)


def test_an_empty_store_lists_nothing(cli: CommandLine) -> None:
    folder = cli.folder / "runs"
    folder.mkdir()
    assert [] == json.loads(cli("waiting", "--json").out)
    nothing = cli("waiting").err
    assert nothing.startswith(f"No open waits in file:{folder}. ")
    assert "--kind event" in nothing
    events = cli("waiting", "--kind", "event", "--store", "memory:").err
    assert "No open waits in memory:.\n" == events


def test_waits_are_listed(cli: CommandLine) -> None:
    # Given two waiting runs, one with a long id, on a narrow terminal
    for run_id in ("j1", "j" * 200):
        cli.runner.start("go", run_id=run_id)

    # When they are listed
    state = cli("waiting")
    rows = json.loads(cli("waiting", "--json").out)

    # Then each wait is on one line with its complete id
    for row in rows:
        assert_matches_schema("wait_summary", row)
    assert ["WAIT", "RUN", "KIND", "OPENED", "STATE"] == state.lines[0].split()
    assert 3 == len(state.lines)
    for row, line in zip(rows, state.lines[1:], strict=True):
        assert [row["id"], row["run_id"], "approval"] == line.split()[:3]
        assert "open" == row["state"] == line.split()[-1]
        opened = "T".join(line.split()[3:5])
        assert row["created_at"].startswith(opened)


def test_a_run_is_drawn_as_a_tree(cli: CommandLine) -> None:
    # Given a run in which one call has returned and two wait
    read = call("read", what="abc")
    runner = make_runner(cli, read, pay("x"), pay("y"))
    runner.start("go", run_id="j1")
    first, second = runner.look("j1").waits

    # When it is shown
    lines = cli("show", "j1").lines

    # Then agents and calls are a tree, and every wait shows its id and time
    assert "j1: suspended, version" in lines[0]
    assert "2 requests, 0 tokens in, 0 out" in lines[1]
    since, then = (f"{w.created_at:%Y-%m-%d %H:%M:%S} UTC" for w in (first, second))
    assert [
        "boss",
        '└─ left (worker) {"input":"pay Jane"}',
        '   ├─ read {"then":"","what":"abc"}: returned',
        '   ├─ pay {"then":"","what":"x"}: waiting',
        f"   │    waits for approval since {since}",
        f"   │    {first.id}",
        '   └─ pay {"then":"","what":"y"}: waiting',
        f"        waits for approval since {then}",
        f"        {second.id}",
    ] == lines[2:]


def test_a_run_that_can_continue_shows_the_next_command(cli: CommandLine) -> None:
    # Given a run whose model call failed
    failed = cli.start(f"{RUNNERS}:silent")
    assert 5 == failed.exit_code

    # When it is shown, also as an earlier version
    lines = cli("show", "j1").lines
    earlier = cli("show", "j1", "--version", "1").lines

    # Then only the newest version names the next command
    assert "j1: suspended" in lines[0]
    assert "; 0 requests" in lines[1]
    error = lines.pop(2)
    assert error.startswith("the model of agent silent gave no usable reply: ")
    assert [
        "no open waits; the run can continue",
        "next: continuations resume j1",
        "silent",
    ] == lines[2:]
    assert "next: continuations resume j1" not in earlier


def test_a_waiting_run_shows_no_next_command(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1")

    assert "next:" not in cli("show", "j1").out


def test_a_single_request_is_singular(cli: CommandLine) -> None:
    cli.write_file(
        "once_written.py",
        "from continuations import Agent\n"
        "from continuations.models.scripted import ScriptedModel\n"
        'clerk = Agent("clerk", model=ScriptedModel(["Done."]))\n',
    )

    done = cli.start("once_written:clerk")

    assert done.lines[-1].startswith("usage: 1 request, ")


def test_a_decided_wait_is_not_shown_as_open(cli: CommandLine) -> None:
    # Given two waits, one of them decided, and a run that was not resumed
    runner = make_runner(cli, pay("x"), pay("y"))
    runner.start("go", run_id="j1")
    first, second = runner.look("j1").waits
    runner.decide(first.id, Approve(by="kim"))

    # When the run is shown
    shown = cli("show", "j1")
    report = json.loads(cli("show", "j1", "--json").out)

    # Then text and JSON show the decision
    assert 1 == shown.out.count("waits for approval")
    assert 1 == shown.out.count("approved by kim")
    assert_matches_schema("run", report)
    assert [first.id] == report["decided"]
    assert [second.id] == [wait["id"] for wait in report["waits"]]


def test_an_earlier_version_is_shown(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1")

    first = cli("show", "j1", "--version", "1")
    beyond = cli("show", "j1", "--version", "99")

    assert (0, True) == (first.exit_code, "version 1" in first.lines[0])
    assert (5, "") == (beyond.exit_code, beyond.out)
    assert 2 == cli("show", "j1", "--version", "0").exit_code


def test_a_finished_run_shows_its_output(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1")
    cli("approve", cli.single_wait_id())
    cli.runner.resume("j1")

    lines = cli("show", "j1").lines

    assert "j1: finished" in lines[0]
    assert ["output:", "  all done"] == lines[2:4]
    assert "finished" == json.loads(cli("show", "j1", "--json").out)["status"]


def test_show_prints_every_field_of_a_wait(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1")
    [wait] = cli.runner.look("j1").waits

    shown = cli("show", wait.id)
    report = json.loads(cli("show", wait.id, "--json").out)

    assert_matches_schema("wait", report)
    assert wait.id == shown.lines[0]
    assert "kind: approval" in shown.lines
    assert f"digest: {wait.digest}" in shown.lines
    assert "path: boss > left > pay" in shown.lines
    assert (wait.arguments, wait.schema) == (report["arguments"], report["schema"])
    assert list(wait.path) == report["path"]
    assert 2 == cli("show", wait.id, "--version", "1").exit_code


def test_arguments_are_never_cut(cli: CommandLine) -> None:
    # Given a call with a text that is longer than any terminal is wide
    words = " ".join(f"word{number}" for number in range(3000))
    runner = make_runner(cli, pay(words))
    runner.start("go", run_id="j1")
    [wait] = runner.look("j1").waits

    # When the run or the wait is shown, then the text is complete and on one line
    for done in (cli("show", "j1"), cli("show", wait.id)):
        assert any(words in line for line in done.lines)


def test_hostile_text_is_escaped(cli: CommandLine) -> None:
    # Given an argument with invisible, reordering and control characters
    runner = make_runner(cli, pay(HOSTILE_TEXT))
    runner.start("go", run_id="j1")
    [wait] = runner.look("j1").waits

    # When the run or the wait is shown, as text or as JSON
    outputs = [
        cli("show", "j1").out,
        cli("show", "j1", "--json").out,
        cli("show", wait.id).out,
        cli("show", wait.id, "--json").out,
    ]

    # Then every such character is an escape
    for out in outputs:
        text = out.replace("\n", "")
        assert not [
            char for char in HOSTILE_TEXT if not char.isprintable() and char in text
        ]
        assert r"\u202e" in out
        assert r"\u200b" in out
        assert r"\u001b[31m" in out
        assert r"\u009b2J" in out
        assert r"\udb40\udc41" in out
        assert "[bold]x[/bold]" in out
        assert r"\\u0041" in out
    reports: list[dict[str, Any]] = [json.loads(outputs[1]), json.loads(outputs[3])]
    assert HOSTILE_TEXT == reports[1]["arguments"]["what"]
    assert HOSTILE_TEXT == reports[0]["waits"][0]["arguments"]["what"]


def test_multi_line_text_stays_on_one_line(cli: CommandLine) -> None:
    # Given a decision whose text imitates lines of the output
    runner = make_runner(cli)
    runner.start("go", run_id="j1")
    forged = "x\nFinished\nrun: j1"
    forged_name = "kim\nnext: continuations approve all"
    [wait] = runner.look("j1").waits

    # When commands print it
    refused = cli("approve", wait.id, "--by", forged_name)
    decided = cli("approve", wait.id, "--by", "kim", "--reason", forged)
    late = cli("deny", wait.id)
    shown = cli("show", "j1")

    # Then a name with a line break is refused, and a reason stays on one line
    assert "by is not a name: it has the invisible character U+000A" in refused.err
    assert r"reason: x\nFinished\nrun: j1" in decided.lines
    assert 1 == len(late.err.splitlines())
    for done in (decided, late, shown):
        assert "\nFinished\n" not in done.out + done.err


def test_an_unknown_tool_with_a_forged_name_is_quoted(cli: CommandLine) -> None:
    # Given a model that calls a tool that does not exist, beside one that waits
    name = 'pay {"what":1}: returned'
    runner = make_runner(cli, call(name), pay("x"))
    runner.start("go", run_id="j1")

    lines = cli("show", "j1").lines

    assert r'   ├─ "pay {\"what\":1}: returned" "[secret]": errored' in lines


@pytest.mark.parametrize("name", ["nope", "approval-01m7xzj8asw1ramfcps55vy294@nope"])
def test_unknown_id_is_an_error(cli: CommandLine, name: str) -> None:
    cli.runner.start("go", run_id="j1")

    done = cli("show", name)

    assert (5, "") == (done.exit_code, done.out)
    assert "NotFound: " in done.err


def test_expired_wait_is_marked_in_the_tree(cli: CommandLine) -> None:
    cli.write_file(
        "expiring_written.py",
        """
from datetime import timedelta
from continuations import Agent, ApprovalPolicy, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall

@tool(approval=ApprovalPolicy(expires_after=timedelta(seconds=0.001)))
def pay() -> str:
    '''Pay.'''
    return "paid"

agent = Agent("boss", tools=[pay], model=ScriptedModel([ToolCall("pay")]))
""",
    )
    cli.start("expiring_written:agent")
    time.sleep(0.01)

    shown = cli("show", "j1")

    assert "(expired; the next sweep or resume records it)" in shown.out


def test_waits_of_tools_are_listed_shown_and_ended(cli: CommandLine) -> None:
    """`waiting` lists people's waits; `--kind` lists others."""

    @tool
    def count(room: str) -> ToolWait[int]:
        """Count people."""
        return ask(f"How many people are in {room}?", int)

    @tool
    def scan(document: str) -> ToolWait[Any]:
        """Scan a document."""
        return external(f"scan of {document}")

    calls = (call("count", room="A1"), call("scan", document="passport"))
    model = scripted_model({"go": [list(calls), "end"]})
    agent = Agent("boss", tools=[count, scan], model=model)
    runner = Runner(agent, store=cli.store)
    runner.start("go", run_id="j1")

    [question] = cli("waiting", "--ids").lines
    [job] = cli("waiting", "--ids", "--kind", "external").lines
    shown, run = cli("show", question).out, cli("show", "j1").out
    assert "question: How many people are in A1?" in shown
    assert 'schema of the answer: {"type":"integer"}' in shown
    assert "job: scan of passport" in cli("show", job).out
    assert "waits for the result of another system" in run
    assert 5 == cli("answer", question, '"many"').exit_code
    assert 0 == cli("answer", question, "7").exit_code
    assert "failed by" in cli("fail", job, "paper jam", "--by", "scanner").out

    ended = runner.resume("j1")
    texts = [each.get("content") for each in ended.continuation.root.messages]
    assert {"7", "ERROR: paper jam"} <= set(texts)


def test_wait_for_a_model_is_listed_shown_and_woken(cli: CommandLine) -> None:
    model = ScriptedModel(
        {"boss": [ToolCall("hr", {"input": "A"}), "end"], "hr": [LaterReply("done")]}
    )
    boss = Agent("boss", tools=[Agent("hr", model=model)], model=model)
    runner = Runner(boss, store=cli.store)
    runner.start("go", run_id="j1")

    assert [] == json.loads(cli("waiting", "--json").out)
    [row] = json.loads(cli("waiting", "--kind", "model", "--json").out)
    assert_matches_schema("wait_summary", row)
    tree = cli("show", "j1").out
    assert "waits for its model since" in tree
    assert ", next attempt " in tree
    assert "The provider computes the reply reply-0-0." in tree
    shown = json.loads(cli("show", row["id"], "--json").out)
    assert_matches_schema("wait", shown)
    assert (None, ["boss", "hr"]) == (shown["call_id"], shown["path"])
    lines = cli("show", row["id"]).out
    assert "agent: hr\n" in lines
    assert "next attempt: " in lines
    assert "arguments" not in lines

    woken = cli("wake", "j1", "--by", "provider")
    assert woken.out.startswith("j1: ended 1 wait for a model\n")
    assert "woken by provider at " in cli("show", "j1").out
    again = json.loads(cli("wake", "j1", "--by", "provider", "--json").out)
    assert {"run_id": "j1", "waits": 1} == again

    assert isinstance(runner.resume("j1"), Finished)
    assert 0 == json.loads(cli("wake", "j1", "--by", "x", "--json").out)["waits"]


def test_run_that_waits_for_its_model_names_the_act(cli: CommandLine) -> None:
    """`resume` never asks early, so the next command is `wake`."""
    start_limited("file:runs", "j1")

    shown = cli("show", "j1")

    [wait] = Runner([], store="file:runs").look("j1").waits
    assert wait.deadline
    due = f"{wait.deadline:%Y-%m-%d %H:%M:%S} UTC"
    assert (
        "next: continuations wake j1 (asks the model at once; the next sweep asks it "
        f"after {due})"
    ) in shown.lines
    assert "  Attempt 1 failed: x.example returned status 429." in shown.lines
    assert "resume" not in shown.out
    # The act that the line names
    woken = cli("wake", "j1")
    assert 0 == woken.exit_code


def test_waiting_says_how_many_runs_wait_for_their_models(cli: CommandLine) -> None:
    start_limited("file:runs", "j1")

    one = cli("waiting")
    start_limited("file:runs", "j2")
    two = cli("waiting", "--json")

    assert "No open waits in file:" in one.err
    line = "1 run waits for its model. `continuations show j1` shows why."
    assert line in one.err.splitlines()
    assert [] == json.loads(two.out)
    assert "2 runs wait for their models. `continuations show j" in two.err
    assert "2 runs wait for their models." in cli("waiting", "--due").err
    assert "" == cli("waiting", "--ids").err
    assert "for their models" not in cli("waiting", "--kind", "model").err


def test_line_about_models_has_the_places_of_its_command(cli: CommandLine) -> None:
    start_limited("file:elsewhere", "j1")

    shown = cli("waiting", "--store", "file:elsewhere")

    assert "`continuations show j1 --store file:elsewhere` shows why." in shown.err
