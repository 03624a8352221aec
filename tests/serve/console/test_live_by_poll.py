"""Pages that ask with their cursor, for servers without open connections."""

from __future__ import annotations

import re
from typing import Any

import pytest

from continuations import Agent, Approve, AsyncRunner, Identity, tool
from continuations.errors import InvalidInput
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve import console
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.serve.console.console_client import ConsoleClient
from tests.serve.rights import only


@tool(approval=True)
def pay(what: str) -> str:
    """Pay."""
    return what


class Polled:
    """A run with a wait, a thread, and a console whose pages ask."""

    def __init__(self) -> None:
        self.memory = MemoryStore()
        self.store = FaultyStore(self.memory)
        reader = AsyncRunner([], store=self.store)
        self.client = ConsoleClient(reader, {"live": "poll"})

    def runner(self, *replies: Any) -> AsyncRunner:
        """Return a worker, as another process has it."""
        agent = Agent("boss", tools=[pay], model=ScriptedModel(list(replies)))
        return AsyncRunner(agent, store=self.memory)

    async def ask(self, path: str, cursor: str) -> tuple[int, str, int]:
        """Ask as the script does: status, text, requests to the store."""
        before = len(self.store.operations)
        page = await self.client.get(path, x_live_after=cursor)
        return page.status_code, page.text, len(self.store.operations) - before


def cursor_of(page: str) -> str:
    found = re.search(r'data-cursor="([^"]*)"', page)
    assert found is not None
    return found[1]


async def test_page_of_a_run_asks_until_something_has_changed() -> None:
    """An unchanged page costs two listings."""
    polled = Polled()
    runner = polled.runner(ToolCall("pay", {"what": "rent"}), "done")
    await runner.start("go", run_id="r1")
    page = (await polled.client.get("/runs/r1")).text
    assert 'data-poll="10"' in page
    cursor = cursor_of(page)
    assert (204, "", 2) == await polled.ask("/runs/r1", cursor)

    [wait] = (await runner.look("r1")).waits
    await runner.decide(wait.id, Approve(by="kim"), shown=wait.digest)

    status, page, _ = await polled.ask("/runs/r1", cursor)
    assert (200, True) == (status, "recorded" in page or "Decided" in page)
    assert (204, "", 2) == await polled.ask("/runs/r1", cursor_of(page))
    await runner.resume("r1")
    status, page, _ = await polled.ask("/runs/r1", cursor_of(page))
    # The page of an ended run asks no more.
    assert (200, False) == (status, "data-cursor" in page)


async def test_inbox_of_limited_rights_hears_nothing_of_hidden_waits() -> None:
    polled = Polled()

    def can(_person: Identity, _act: str, run: str | None) -> bool:
        return run != "hidden"

    options: dict[str, Any] = {"live": "poll", "can": can}
    limited = ConsoleClient(polled.client.runner, options)
    cursor = cursor_of((await limited.get("/inbox")).text)
    for run_id, status in (("hidden", 204), ("r1", 200)):
        runner = polled.runner(ToolCall("pay", {"what": "rent"}))
        await runner.start("go", run_id=run_id)
        rows = await limited.get("/inbox/rows", x_live_after=cursor)
        assert status == rows.status_code


async def test_chat_asks_until_a_message_has_come() -> None:
    polled = Polled()
    thread = polled.runner("one", "two").thread("boss", key="k")
    path = f"/threads/{(await thread.send('hello')).run_id}"
    cursor = cursor_of((await polled.client.get(path)).text)
    assert (204, "", 2) == await polled.ask(path, cursor)
    ticket = await thread.post("are you there?")
    _, page, _ = await polled.ask(path, cursor)
    assert (1, 1) == (page.count("are you there?"), page.count("not read yet"))
    await ticket.reply()
    _, page, _ = await polled.ask(path, cursor_of(page))
    assert (1, 0) == (page.count("are you there?"), page.count("not read yet"))
    assert "two" in page


async def test_inbox_asks_for_its_rows() -> None:
    polled = Polled()
    cursor = cursor_of((await polled.client.get("/inbox?for=all")).text)
    path = "/inbox/rows?for=all"
    assert (204, "") == (await polled.ask(path, cursor))[:2]
    runner = polled.runner(ToolCall("pay", {"what": "rent"}))
    await runner.start("go", run_id="r1")
    rows = await polled.client.get(path, x_live_after=cursor)
    assert "pay" in rows.text
    newer = rows.headers["x-live-cursor"]
    assert newer != cursor
    assert (204, "") == (await polled.ask(path, newer))[:2]


async def test_poll_has_no_stream_and_needs_the_right_to_view() -> None:
    polled = Polled()
    assert 405 == (await polled.client.get("/events")).status_code
    await polled.runner("one").start("go", run_id="r1")

    options: dict[str, Any] = {"live": "poll", "can": only()}
    closed = ConsoleClient(polled.client.runner, options)
    page = await closed.get("/runs/r1", x_live_after="1.0")
    assert 403 == page.status_code


def test_other_ways_are_refused() -> None:
    way: Any = "websocket"
    with pytest.raises(InvalidInput, match='live must be "events" or "poll"'):
        console.app(AsyncRunner([], store="memory:"), live=way)
