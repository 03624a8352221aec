"""The command `drift` and the route `GET /drift`: rows, exit codes, no change."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from continuations import Agent, AsyncRunner, Runner, tool
from continuations.serve.http.api import HttpApi, Request
from tests.cli.command_line import CommandLine
from tests.scripts import call, scripted_model

OLD = """
from continuations import Agent, Runner, tool
from tests.cli.test_drift_command import make_boss

@tool(approval=True)
def pay(cents: int) -> str:
    "Pay."
    return str(cents)

runner = Runner(make_boss(pay), store="file:runs")
"""
NEW = OLD.replace("cents: int", 'cents: int, currency: str = "EUR"')


def make_boss(pay: Any) -> Agent:
    script = {"go": [[call("pay", cents=5)], "paid"]}
    return Agent(
        "boss", tools=[pay], model=scripted_model(script, lambda _task, _turn: None)
    )


def waiting_runs(cli: CommandLine, name: str) -> None:
    """Start two runs with old code, and write new code: modules of their own names."""
    cli.write_file(f"old_{name}.py", OLD)
    cli.write_file(f"new_{name}.py", NEW)
    for run_id in ("a", "b"):
        cli("start", "go", "--run-id", run_id, "--app", f"old_{name}:runner")


def files(folder: Path) -> dict[str, bytes]:
    """Return every file of the store."""
    found = (path for path in (folder / "runs").rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found}


def test_command_says_what_new_code_would_do_and_changes_nothing(
    cli: CommandLine,
) -> None:
    """Exit code 0 only if every run is accepted; the same in its own process."""
    waiting_runs(cli, "text")
    before = files(cli.folder)

    same = cli("drift", "--app", "old_text:runner")
    new = cli("drift", "--app", "new_text:runner", "--store", "file:runs")

    assert (0, ["accept  a", "accept  b"]) == (same.exit_code, same.lines)
    assert "2 runs that have not ended: 2 accept." in same.err
    assert 1 == new.exit_code
    assert ["reopen  a", "  reopen: boss > pay (schema)"] == new.lines[:2]
    assert "parameter currency was added" in new.lines[2]
    assert "2 runs that have not ended: 2 reopen." in new.err
    assert before == files(cli.folder)
    own = cli.run_in_process("drift", "--app", "new_text:runner")
    assert (new.exit_code, new.out, new.err) == (own.exit_code, own.out, own.err)


THREAD = """
from continuations import Agent, Runner
from continuations.models.scripted import ScriptedModel

desk = Agent("desk", instructions="Old.", model=ScriptedModel(["Hello."] * 2))
runner = Runner(desk, store="file:runs")
"""


def test_conversation_is_named_by_its_key_with_the_allowed_changes(
    cli: CommandLine,
) -> None:
    cli.write_file("thread_old.py", THREAD)
    cli.write_file("thread_new.py", THREAD.replace("Old.", "New."))
    sent = cli(
        *("chat", "--key", "Zoë \u202e 42", "--message", "Hi"),
        *("--app", "thread_old:runner"),
    )
    assert 0 == sent.exit_code, sent.err

    same = cli("drift", "--app", "thread_old:runner")
    new = cli("drift", "--app", "thread_new:runner")

    assert (0, 1) == (same.exit_code, len(same.lines))
    key = r"Zoë \u202e 42"
    assert same.lines[0].startswith("accept  t-desk-")
    assert same.lines[0].endswith(f"  (conversation {key} with desk)")
    assert same.lines[0] == new.lines[0]
    assert 0 == new.exit_code
    assert any(
        line.startswith("  allowed: ") and "instructions" in line for line in new.lines
    )
    assert "1 run that has not ended: 1 accept." in new.err


def test_json_is_one_row_for_each_line_and_an_empty_store_is_accepted(
    cli: CommandLine,
) -> None:
    cli.write_file("early.py", OLD)
    (cli.folder / "runs").mkdir()
    empty = cli("drift", "--app", "early:runner")
    assert (0, "") == (empty.exit_code, empty.out)
    assert "0 runs that have not ended" in empty.err
    waiting_runs(cli, "json")

    rows = [
        json.loads(line)
        for line in cli("drift", "--json", "--app", "new_json:runner").lines
    ]

    assert ["a", "b"] == [row["run_id"] for row in rows]
    assert ["reopen", "schema", ["boss", "pay"]] == [
        rows[0]["why"][0][name] for name in ("verdict", "change", "path")
    ]
    assert {"kind", "where", "what"} == rows[0]["code_changes"][0].keys()


def test_command_needs_code(cli: CommandLine) -> None:
    refused = cli("drift")
    assert 2 == refused.exit_code
    assert "--app" in refused.err


def test_route_pages_through_the_runs(tmp_path: Path) -> None:
    """The server answers for its own code."""

    @tool(approval=True)
    def pay(cents: int) -> int:
        """Pay."""
        return cents

    @tool(approval=True, version="2", name="pay")
    def newer_pay(cents: int) -> int:
        """Pay."""
        return cents

    store = f"file:{tmp_path}"
    old = Runner(make_boss(pay), store=store)
    for run_id in ("a", "b", "c"):
        old.start("go", run_id=run_id)
    api = HttpApi(
        AsyncRunner(make_boss(newer_pay), store=store), verify=lambda _: "kim"
    )

    def get(**query: str) -> dict[str, Any]:
        request = Request(method="GET", path="/drift", query=query)
        response = asyncio.run(api.handle(request))
        found: dict[str, Any] = json.loads(response.body)
        return found

    first = get(limit="2")
    second = get(limit="2", after=first["next"])

    rows = [*first["runs"], *second["runs"]]
    assert [("a", "reopen"), ("b", "reopen"), ("c", "reopen")] == [
        (row["run_id"], row["verdict"]) for row in rows
    ]
    assert ("b", None) == (first["next"], second["next"])
    assert 400 == get(limit="0")["status"]
    assert 400 == get(agent="boss")["status"]


def test_old_code_keeps_an_approval_and_an_operator_asks_again(
    cli: CommandLine,
) -> None:
    """The error names the tool and the agent; `--reopen` asks about the call again."""
    waiting_runs(cli, "reopen")
    cli.write_file(
        "without_pay.py",
        OLD.replace("def pay", "def other").replace("boss(pay)", "boss(other)"),
    )
    wait = Runner([], store=cli.store).look("a").waits[0].id
    cli("approve", wait, "--store", "file:runs")
    unknown = cli("show", "a", "--store", "file:runs").out
    assert "if no worker goes on: continuations drift --app APP says" in unknown
    before = files(cli.folder)

    refused = cli("resume", "a", "--app", "without_pay:runner")

    assert (
        "AgentChanged: run a was not resumed: agent boss has no tool pay" in refused.err
    )
    shown = cli("show", "a", "--app", "without_pay:runner").out
    assert "without_pay:runner does not continue it: run a was not resumed: " in shown
    assert "agent boss has no tool pay" in shown
    lacked = "agent boss has no tool pay"
    known = cli("show", "a", "--store", "file:runs").out
    assert "a worker left it to others at 20" in known
    assert lacked in known
    drift = cli("drift", "--app", "old_reopen:runner").out
    assert "accept  a" in drift
    assert "  a worker left it: run a was not resumed: " in drift
    [stored] = [name for name in files(cli.folder) if name not in before]
    assert "/y/" in stored
    asked = cli("resume", "a", "--reopen", "--app", "without_pay:runner")
    assert "Suspended" == asked.lines[0]
    [again] = Runner([], store=cli.store).look("a").waits
    assert again.id != wait
    assert "agent boss has no tool pay (its tools: other)" in str(again.note)
