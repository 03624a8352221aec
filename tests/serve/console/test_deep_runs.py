"""The pages of a run of many nested agents do little work for each version."""

from __future__ import annotations

import html
import re
import sys
from types import FrameType

import pytest

from continuations import Agent, AsyncRunner, Runner, tool
from continuations.core.changes import invariants
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.serve.console.console_client import ConsoleClient

LEVELS = 300
# A page reads 200 versions, and this one all 300. The first one is checked whole.
MOST_CALLS = 30_000
CHECKS = invariants.find_violation.__code__.co_filename


@tool(approval=True)
def publish(text: str) -> str:
    """Publish a text."""
    return text


def deep_store() -> MemoryStore:
    """Return a store with a run of nested agents; the lowest one waits."""
    lowest = ScriptedModel([ToolCall("publish", {"text": "short"})])
    agent = Agent("low", tools=[publish], model=lowest)
    for number in range(1, LEVELS):
        model = ScriptedModel([ToolCall(agent.name, {"input": "go"})])
        agent = Agent(f"level-{number}", tools=[agent], model=model)
    store = MemoryStore()
    Runner(agent, store=store, max_depth=None).start("go", run_id="deep")
    return store


async def count_checks(client: ConsoleClient, path: str) -> int:
    """Return how many functions are called that check rows, to make a page."""
    found = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal found
        found += event == "call" and frame.f_code.co_filename == CHECKS

    sys.setprofile(count)
    try:
        reply = await client.get(path)
    finally:
        sys.setprofile(None)
    assert 200 == reply.status_code
    return found


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    """Return a store with a deep run."""
    return deep_store()


@pytest.mark.parametrize("page", ["", "/rewind?version=1", "/versions"])
async def test_page_of_a_deep_run_checks_only_the_rows_that_changed(
    store: MemoryStore, page: str
) -> None:
    client = ConsoleClient(AsyncRunner([], store=store))
    assert 100 < await count_checks(client, f"/runs/deep{page}") < MOST_CALLS


async def test_differences_of_a_deep_run_have_pages(store: MemoryStore) -> None:
    runner = AsyncRunner([], store=store)
    client, newest = ConsoleClient(runner), (await runner.look("deep")).version
    address = f"/runs/deep/versions?from=1&to={newest}"
    counts: list[int] = []
    shown: set[str] = set()
    text, pages = "", 0
    while address:
        text = (await client.get(address)).text
        lines = re.findall(r"<li>.*</li>", text)
        assert not shown & {*lines}
        shown |= {*lines}
        counts.append(len(lines))
        link = re.search(r'href="([^"]*)" rel="next"', text)
        address = html.unescape(link[1]) if link else ""
        pages += 1
    assert 5 < pages < 10
    assert {200} == {*counts[:-1]}
    assert f"of {sum(counts):,} differences" in text
    late = await client.get(f"/runs/deep/versions?from=1&to={newest}&skip=99999")
    assert "No more differences." in late.text
    wrong = await client.get(f"/runs/deep/versions?from=1&to={newest}&skip=-1")
    assert 400 == wrong.status_code
