"""runs, erase, prune: list the runs of a store, and delete them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from continuations.engine.ports import SystemClock
from continuations.errors import RunErased
from continuations_storage import FileStore
from tests.cli.command_line import CommandLine
from tests.present.schema_check import assert_matches_schema


def test_runs_are_listed_with_title_and_labels(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1", labels={"team": "hr"}, title="Pay Jane")
    cli.runner.start("go", run_id="j2", labels={"team": "sales"})

    table, found = cli("runs"), cli("runs", "--label", "team=hr", "--json")

    assert table.lines[0].split() == [
        *("RUN", "STATUS", "AGENT", "STARTED", "UPDATED", "TITLE", "LABELS")
    ]
    assert table.lines[1].startswith("j1   suspended  boss")
    assert "team=hr" in table.lines[1]
    [row] = json.loads(found.out)
    assert_matches_schema("run_summary", row)
    assert ("j1", {"team": "hr"}) == (row["run_id"], row["labels"])
    assert ["j1", "j2"] == cli("runs", "--status", "live", "--ids").lines


def test_runs_are_listed_page_by_page(cli: CommandLine) -> None:
    for name in ("j1", "j2", "j3"):
        cli.runner.start("go", run_id=name, work=False)

    first = cli("runs", "--ids", "--limit", "2")
    cursor = first.err.split()[-1]
    second = cli("runs", "--ids", "--after", cursor)

    assert (["j1", "j2"], ["j3"]) == (first.lines, second.lines)
    assert "" == second.err


def test_an_empty_store_lists_no_runs(cli: CommandLine) -> None:
    (cli.folder / "runs").mkdir()
    listed = cli("runs")
    assert (0, "") == (listed.exit_code, listed.out)
    assert listed.err.startswith("No such runs in file:")


@pytest.mark.parametrize("json_option", [(), ("--json",)])
def test_erase_deletes_a_run(cli: CommandLine, json_option: tuple[str, ...]) -> None:
    cli.runner.start("go", run_id="j1")

    refused = cli("erase", "j1")
    erased = cli("erase", "j1", "--yes", *json_option)

    assert 2 == refused.exit_code
    assert "Erase run j1 in file:" in refused.err
    if json_option:
        form = json.loads(erased.out)
        assert_matches_schema("erased_run", form)
        assert ("j1", 3) == (form["run_id"], form["versions"])
    else:
        assert erased.lines[0].startswith("j1 is erased: 3 versions, 0 arrivals and ")
    with pytest.raises(RunErased):
        cli.runner.look("j1")
    assert 5 == cli("show", "j1").exit_code


def test_prune_erases_old_runs(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1")
    cli.runner.cancel("j1")

    young = cli("prune", "--older-than", "1d", "--yes")
    assert ["0 runs are erased"] == young.lines
    assert 0 == cli("prune", "--older-than", "1d").exit_code  # nothing to confirm
    assert "" == cli("prune", "--older-than", "1d", "--dry-run").out
    form = json.loads(cli("prune", "--older-than", "1d", "--yes", "--json").out)
    assert_matches_schema("prune_result", form)


def _in_two_days(now: datetime) -> Callable[[SystemClock], datetime]:
    return lambda _: now + timedelta(days=2)


def _let_two_days_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clocks of the machine and of its disk be two days later."""
    now = _in_two_days(datetime.now(UTC))

    async def create(store: FileStore, key: str, body: bytes) -> datetime:
        await create_now(store, key, body)
        return now(SystemClock())

    create_now = FileStore.create
    monkeypatch.setattr(SystemClock, "now", now)
    monkeypatch.setattr(FileStore, "create", create)


def test_prune_erases_runs_that_ended_two_days_ago(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clocks of the machine and of its disk are two days later than the end."""
    prune = ("prune", "--older-than", "24h")
    cli.runner.start("go", run_id="j1")
    cli.runner.cancel("j1")
    monkeypatch.setattr(SystemClock, "now", _in_two_days(datetime.now(UTC)))
    young = cli(*prune, "--dry-run")
    _let_two_days_pass(monkeypatch)

    assert [] == young.lines
    refused = cli(*prune)
    assert 2 == refused.exit_code
    assert "Erase 1 run that ended 24h ago" in refused.err
    assert ["j1"] == cli(*prune, "--dry-run").lines
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    answered_no = cli(*prune)
    assert (1, "") == (answered_no.exit_code, answered_no.out.strip())
    assert "Nothing was erased." in answered_no.err
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert "1 run is erased" in cli(*prune).out
    with pytest.raises(RunErased):
        cli.runner.look("j1")


RETENTION = """
from datetime import timedelta

from continuations import Runner
from continuations.retention import Retention
from tests.cli.sample_agents import make_boss

retention = Retention(cancelled=timedelta(days=1), failed=timedelta(days=9))
runner = Runner(make_boss(), store="file:runs", retention=retention)
"""


def test_retention_of_the_application_is_planned_and_applied(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """prune --dry-run shows what a sweep erases, and the sweep prints it."""
    (cli.folder / "kept.py").write_text(RETENTION)
    app = ("--app", "kept:runner")
    cli.runner.start("go", run_id="j1")
    cli.runner.cancel("j1")
    cli.runner.start("go", run_id="j2")
    assert "" == cli("prune", "--dry-run", *app).out
    _let_two_days_pass(monkeypatch)

    assert ["j1"] == cli("prune", "--dry-run", *app).lines
    assert ["j1"] == cli("prune", "--cancelled", "24h", "--dry-run").lines
    assert "" == cli("prune", "--finished", "1h", "--failed", "1h", "--dry-run").out
    assert ["j1"] == cli("prune", "--older-than", "24h", "--dry-run").lines

    kept = ("--cancelled", "24h", "--audit", "9d", "--dry-run")
    assert ["j1"] == cli("prune", *kept).lines

    swept = cli("sweep", *app)
    assert ["runs checked: 0", "erased: j1"] == swept.lines
    form = json.loads(cli("sweep", "--json", *app).out)
    assert_matches_schema("sweep_result", form)
    assert ["j2"] == cli("runs", "--ids").lines


def test_prune_asks_for_a_time(cli: CommandLine) -> None:
    cli.runner.start("go", run_id="j1")
    for words, text in (
        ((), "prune needs a time. Pass for example --older-than 90d"),
        (("--older-than", "1d", "--failed", "1d"), "--older-than needs no other time"),
        (("--finished", "soon"), "--finished 'soon' is not valid"),
        (("--cancelled", ""), "--cancelled '' is not valid"),
    ):
        refused = cli("prune", *words, "--yes")
        assert 2 == refused.exit_code
        assert text in refused.err


def test_waits_are_listed_with_tool_and_deadline(cli: CommandLine) -> None:
    (cli.folder / "runs").mkdir()
    nothing = cli("waiting", "--due")
    cli.runner.start("go", run_id="j1")
    table, rows = cli("waiting", "--due"), cli("waiting", "--due", "--json")

    assert ("", True) == (nothing.out, "No open waits in file:" in nothing.err)
    assert ["WAIT", "KIND", "TOOL", "DEADLINE", "STATE"] == table.lines[0].split()
    [row] = json.loads(rows.out)
    assert_matches_schema("wait", row)
    assert [row["id"], "approval", row["tool"], "open"] == table.lines[1].split()
