"""1,000 conversations that rest appear at no door that lists what waits for people."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from continuations import AsyncRunner, Wait
from continuations.cli import main
from continuations.core.rows.wait_rules import WAIT_KINDS
from continuations.serve.http.api import HttpApi, Request
from continuations.serve.http.links import Links
from continuations.serve.operation_calls import sweep_response
from tests import effect_log
from tests.engine.thread_agents import support
from tests.serve.http.api_fixture import SECRET, verify_bearer

THREADS = 1_000
AGENT = f"{__name__}:runner"
links = Links(SECRET, base_url="https://api.example")
noticed: list[Wait] = []
runner = AsyncRunner(support(), store="memory:", notify=noticed.append)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Wait:
    """Make conversations that rest, and one that waits for an approval."""
    folder = tmp_path_factory.mktemp("effects")

    async def scenario() -> None:
        for number in range(THREADS):
            await runner.thread(key=str(number)).send("hello")
        await runner.thread(key="held").send("pay rent")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(effect_log.EFFECTS_VARIABLE, str(folder / "effects"))
        patch.setenv(effect_log.TURNS_VARIABLE, str(folder / "turns"))
        asyncio.run(scenario())
    [wait] = noticed
    return wait


def rows(*words: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return what a command of this process prints as JSON."""
    capsys.readouterr()
    assert 0 == main([*words, "--json", "--app", AGENT])
    listed: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return listed


@pytest.fixture(autouse=True)
def no_other_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the command line use the runner of this module, and no other store."""
    monkeypatch.delenv("CONTINUATIONS_STORE", raising=False)
    monkeypatch.chdir(tmp_path)


async def test_python_lists_only_the_conversation_that_waits(held: Wait) -> None:
    for kinds in (None, WAIT_KINDS):
        listed = [wait.id async for wait in runner.waiting(kinds=kinds)]
        assert [held.id] == listed
    page = await runner.worklist()
    assert [held.id] == [row.wait.id for row in page.waits]
    suspended = [row.run_id async for row in runner.runs(status="suspended")]
    assert [held.run_id] == suspended


def test_command_line_lists_only_the_conversation_that_waits(
    held: Wait, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds = [word for kind in sorted(WAIT_KINDS) for word in ("--kind", kind)]
    for words in ([], ["--due"], kinds):
        assert [held.id] == [
            row["id"] for row in rows("waiting", *words, capsys=capsys)
        ]
    resting = rows("runs", "--status", "resting", "--limit", "2000", capsys=capsys)
    assert THREADS == len(resting)


def test_http_lists_only_the_conversation_that_waits(held: Wait) -> None:
    api = HttpApi(runner, verify=verify_bearer, links=links)

    async def scenario(query: dict[str, str]) -> list[str]:
        headers = {"authorization": "Bearer kim"}
        request = Request(
            method="GET",
            path="/waits",
            raw_path="/waits",
            query=query,
            headers=headers,
            body=b"",
        )
        response = await api.handle(request)
        assert 200 == response.status
        return [wait["id"] for wait in json.loads(response.body)["waits"]]

    assert [held.id] == asyncio.run(scenario({}))


def test_links_are_made_only_for_the_conversation_that_waits(held: Wait) -> None:
    """A page has a link only if `notify` got its wait."""
    assert [held.id] == [wait.id for wait in noticed]
    assert links.link(noticed[0]).startswith("https://api.example/d/")


def test_sweep_reports_no_conversation_that_rests(held: Wait) -> None:
    result = asyncio.run(runner.sweep())

    form = sweep_response(result)
    assert 0 == form["runs_checked"]
    assert ([], {}, []) == (form["resumed"], form["failed"], form["skipped"])
    assert [held.id] == [wait.id for wait in noticed]
