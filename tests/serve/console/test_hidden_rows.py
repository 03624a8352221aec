"""Links to the next page of a list name no run that the person may not see."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from urllib.parse import unquote

import pytest

from continuations import Agent, AsyncRunner, Deny, Identity, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.console import (
    decided_page,
    inbox_page,
    runs_page,
    wait_list,
)
from continuations_storage import MemoryStore
from tests.serve.console.console_client import ConsoleClient

RUNS = 14


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


def can(_person: Identity, _act: str, run: str | None) -> bool:
    """Hide every run that has an odd number."""
    return run is None or int(run[-2:]) % 2 == 0


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> ConsoleClient:
    """Return a console of small pages, whose store has runs that wait."""
    for module, name, size in (
        (inbox_page, "PAGE_ROWS", 3),
        (wait_list, "MAX_CHECKED", 3),
        (decided_page, "PAGE_LINES", 2),
        (decided_page, "_MAX_RUNS_READ", 3),
        (decided_page, "_PARALLEL_READS", 1),
        (runs_page, "_RUNS_PER_PAGE", 3),
        (runs_page, "ROWS_PER_PAGE", 3),
        (runs_page, "_MAX_READ", 3),
    ):
        monkeypatch.setattr(module, name, size)
    store = MemoryStore()
    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "no"])
    runner = Runner(Agent("clerk", tools=[pay], model=model), store=store)
    for number in range(RUNS):
        runner.start("go", run_id=f"hidden-{number:02}")
    return ConsoleClient(AsyncRunner([], store=store), {"can": can})


def test_decided_page_tells_no_time_of_a_hidden_run(client: ConsoleClient) -> None:
    runner = Runner([], store=client.runner.store)
    for wait in runner.open_waits():
        runner.decide(wait.id, Deny(by="lee"))
    text = asyncio.run(client.get("/inbox/decided?by=nobody-at-all")).text
    [sentence] = re.findall(r"<p>No such decision.*?<a", text)
    assert "No such decision was found yet" in sentence
    assert "<time" not in sentence


@pytest.mark.parametrize(
    "path", ["/inbox?for=all", "/inbox/decided", "/grants", "/runs"]
)
def test_links_to_the_next_page_name_no_hidden_run(
    client: ConsoleClient, path: str
) -> None:
    if path == "/inbox/decided":
        runner = Runner([], store=client.runner.store)
        for wait in runner.open_waits():
            runner.decide(wait.id, Deny(by=f"person-{wait.run_id[-2:]}"))
    pages = 0
    named: set[str] = set()
    following: str | None = path
    while following is not None:
        response = asyncio.run(client.get(following))
        assert 200 == response.status_code
        text = unquote(unescape(response.text + following))
        named |= set(re.findall(r"(?:hidden|person)-(\d\d)", text))
        links = re.findall(r'href="([^"]*after=[^"]*)"', response.text)
        following = unescape(links[-1]) if links else None
        pages += 1
        assert pages < RUNS

    assert pages > 2
    assert not [number for number in named if int(number) % 2]
    if path != "/grants":
        assert RUNS // 2 == len(named)
