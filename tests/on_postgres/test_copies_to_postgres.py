"""Runs move from a folder to Postgres and on to SQLite, while they wait."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest

from continuations import Approve, Runner, open_store
from continuations.cli import main
from tests import effect_log
from tests.ledger.copied_store import contents
from tests.postgres_server import PASSWORD, PostgresServer
from tests.run_environment import RunEnvironment
from tests.scripts import Script, call

SCRIPT: Script = {
    "go": [[call("left", input="A")], "end"],
    "A": [[call("clerk", input="B")], "A done"],
    "B": [[call("pay", what="x")], [call("pay", what="y")], "B done"],
}


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """Return the URL of an empty store."""
    return postgres.new_url()


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunEnvironment:
    """Processes that get their store from the test."""
    monkeypatch.setenv(effect_log.EFFECTS_VARIABLE, str(tmp_path / "effects"))
    monkeypatch.setenv(effect_log.TURNS_VARIABLE, str(tmp_path / "turns"))
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    return RunEnvironment(tmp_path)


@pytest.mark.fresh_interpreters
def test_run_moves_to_postgres_and_on(environment: RunEnvironment, url: str) -> None:
    """Each of its two waits is decided in another store than the one it began in."""
    environment.start(SCRIPT)
    folder, table = open_store(environment.store), open_store(url)

    result = Runner([], store=folder).copy_to(table)
    assert (("r1",), {}, ()) == (result.copied, result.errors, result.moved_on)
    assert asyncio.run(contents(folder)) == asyncio.run(contents(open_store(url)))
    runner = Runner([], store=url)
    [wait] = runner.waiting()
    runner.decide(wait.id, Approve(by="kim"))
    environment.resume(SCRIPT, store=url)

    database = f"sqlite:{environment.folder / 'runs.db'}"
    assert ("r1",) == Runner([], store=url).copy_to(database).copied
    runner = Runner([], store=database)
    [wait] = runner.waiting()
    runner.decide(wait.id, Approve(by="kim"))
    ended = environment.resume(SCRIPT, store=database)

    assert ("Finished", "end") == (ended["kind"], ended["output"])
    assert ["pay x", "pay y"] == environment.effect_names()


def test_command_prints_no_password(
    environment: RunEnvironment, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    environment.start(SCRIPT)
    quoted = quote(PASSWORD, safe="")
    assert quoted in url
    lines: list[str] = []
    for words in ([environment.store, url], [url, environment.store], [url, url]):
        main(["copy", *words])
        lines += capsys.readouterr()
    shown = "".join(lines)
    assert "postgresql://127.0.0.1" in shown
    assert PASSWORD not in shown
    assert quoted not in shown
