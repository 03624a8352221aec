"""The people who decide see the state of the agent whose call waits."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from subprocess import run

import pytest

from continuations import Agent, AsyncRunner, Runner, Suspended, ToolContext, tool
from continuations.ledger import layout
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import HttpApi, Request
from tests.present.schema_check import assert_matches_schema
from tests.serve.console.console_client import ConsoleClient
from tests.serve.pages.html_forms import main_of

HOSTILE = "Ines <b>\u202e"


@dataclass
class Claim:
    """The receipts of a claim."""

    total: int = 0
    owner: str = ""


@tool(writes_state=True)
def add_receipt(ctx: ToolContext[Claim], cents: int) -> str:
    """Add a receipt."""
    ctx.update(total=ctx.state.total + cents, owner=HOSTILE)
    return "added"


@tool(approval=True)
def pay() -> str:
    """Pay the claim."""
    return "paid"


def start(store: str) -> Suspended:
    """Return a run whose sub-agent has a state and waits for an approval."""
    turns = [ToolCall("add_receipt", {"cents": 4250}), ToolCall("pay", {})]
    task = ToolCall("clerk", {"input": "go"})
    model = ScriptedModel({"boss": [task], "clerk": turns})
    agent = Agent("clerk", tools=[add_receipt, pay], model=model, state=Claim)
    boss = Agent("boss", tools=[agent], model=model)
    outcome = Runner(boss, store=store).start("Pay my claim.", run_id="claim")
    assert isinstance(outcome, Suspended)
    return outcome


def page_of(store: str, path: str) -> str:
    """Return a page of a console that knows no agents."""
    client = ConsoleClient(AsyncRunner([], store=store))
    response = asyncio.run(client.get(path))
    assert 200 == response.status_code
    return main_of(response.text)


def test_page_of_a_wait_shows_the_state_of_its_agent(tmp_path: Path) -> None:
    store = f"file:{tmp_path / 'runs'}"
    [wait] = start(store).waits

    page = page_of(store, f"/waits/{wait.id}")

    assert "State of the agent that calls" in page
    assert "&#34;total&#34;: 4250" in page
    assert "<b>\u202e" not in page
    assert "\u202e" not in page
    assert "\\u202e" in page


def test_page_of_a_wait_is_shown_without_a_state_that_cannot_be_read(
    tmp_path: Path,
) -> None:
    store = f"file:{tmp_path / 'runs'}"
    outcome = start(store)
    newest = layout.version_key("claim", outcome.continuation.version)
    (tmp_path / "runs" / newest).write_bytes(b"damaged")

    page = page_of(store, f"/waits/{outcome.waits[0].id}")

    assert "State of the agent" not in page
    assert 'id="approve"' in page


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_command_line_shows_the_state(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The JSON has the state beside the wait, whose `state` is open or expired."""
    store = f"file:{tmp_path / 'runs'}"
    [wait] = start(store).waits
    command = ["show", wait.id, "--store", store, *options]

    done = run(
        [sys.executable, "-m", "continuations", *command],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "4250" in done.stdout
    if options:
        form = json.loads(done.stdout)
        assert_matches_schema("wait", form)
        assert {"total": 4250, "owner": HOSTILE} == form["agent_state"]
        assert "open" == form["state"]
    assert "\u202e" not in done.stdout


@pytest.mark.parametrize("is_damaged", [False, True])
def test_http_shows_the_state_if_it_can_be_read(
    tmp_path: Path, is_damaged: bool
) -> None:
    store = f"file:{tmp_path / 'runs'}"
    outcome = start(store)
    if is_damaged:
        newest = layout.version_key("claim", outcome.continuation.version)
        (tmp_path / "runs" / newest).write_bytes(b"damaged")
    api = HttpApi(AsyncRunner([], store=store), verify=lambda _request: "kim")
    request = Request(method="GET", path=f"/waits/{outcome.waits[0].id}")

    response = asyncio.run(api.handle(request))

    form = json.loads(response.body)
    assert_matches_schema("wait", form)
    expected = None if is_damaged else {"total": 4250, "owner": HOSTILE}
    assert (200, expected) == (response.status, form.get("agent_state"))
