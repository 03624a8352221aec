"""The page about waiting runs and the code of this console."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from typing import Any

from continuations import Agent, Approve, AsyncRunner, Identity, Runner, tool
from continuations.ledger.objects import Objects
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import HttpApi, Request
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import FaultyStore
from tests.serve.console.console_client import ConsoleClient, verify_header
from tests.serve.http.api_fixture import json_body
from tests.serve.rights import only


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool(approval=True)
def ship(order: str) -> str:
    """Ship."""
    return order


def agent(name: str, tools: list[Any], call: ToolCall) -> Agent:
    return Agent(name, tools=tools, model=ScriptedModel([call, "done"]))


def old_runs(store: Store) -> None:
    """Start a run that new code accepts, one it asks about, and one it refuses."""
    pays = agent("payroll", [pay], ToolCall("pay", {"cents": 5}))
    ships = agent("stock", [ship], ToolCall("ship", {"order": "o1"}))
    gone = agent("clerk", [ship], ToolCall("ship", {"order": "o2"}))
    Runner(ships, store=store).start("go", run_id="a-accepted")
    Runner(pays, store=store).start("go", run_id="b-reopened")
    Runner(gone, store=store).start("go", run_id="c-refused")


def keys_of(store: Store) -> list[str]:
    async def read() -> list[str]:
        return sorted([key async for key in Objects(store).all_keys("")])

    return asyncio.run(read())


def new_agents() -> list[Agent]:
    """Return the agents of the new code."""

    @tool(approval=True, name="pay")
    def pay_in(cents: int, currency: str = "EUR") -> str:
        """Pay."""
        return f"paid {cents} {currency}"

    pays = agent("payroll", [pay_in], ToolCall("pay", {"cents": 5}))
    return [pays, agent("stock", [ship], ToolCall("ship", {"order": "o1"}))]


def text_of(client: ConsoleClient, path: str = "/drift") -> tuple[str, str]:
    """Return the text of a page and its markup."""
    page = asyncio.run(client.get(path))
    assert 200 == page.status_code
    body = page.text[page.text.index("<main") :]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split()), body


def test_refused_and_reopened_runs_stand_first_with_their_reasons() -> None:
    store = MemoryStore()
    old_runs(store)
    client = ConsoleClient(AsyncRunner(new_agents(), store=store))
    before = keys_of(store)

    text, markup = text_of(client)

    parts = [
        "1 refused, 1 asked about again, 1 accepted.",
        "Refuses c-refused agent clerk Suspended An agent or a tool is missing",
        "Asks again b-reopened agent payroll Suspended The tool has other parameters",
        "payroll > pay",
        "parameter currency was added",
        "Goes on a-accepted agent stock",
    ]
    places = [text.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert sorted(places) == places
    assert 'href="/runs/c-refused"' in markup
    assert re.search(r'href="/waits/approval-[^"]+@b-reopened"', markup)
    assert before == keys_of(store)
    assert 'href="/drift"' in asyncio.run(client.get("/runs")).text


def test_allowed_differences_are_named() -> None:
    store = MemoryStore()
    old_runs(store)
    stock = Agent(
        "stock", instructions="Be quick.", tools=[ship, pay], model=ScriptedModel([])
    )
    client = ConsoleClient(AsyncRunner([stock], store=store))

    text, _ = text_of(client)

    accepted = text[text.index("a-accepted") :]
    assert "The run allows these differences of the code" in accepted
    assert "stock: the instructions changed" in accepted
    assert "stock/pay: the tool was added" in accepted


def test_person_sees_the_runs_that_they_may_view() -> None:
    store = MemoryStore()
    old_runs(store)

    client = ConsoleClient(
        AsyncRunner(new_agents(), store=store),
        {"can": only("view", runs=["b-reopened"])},
    )
    text, _ = text_of(client)
    assert "1 asked about again." in text
    assert "refused" not in text
    assert "accepted" not in text


def test_page_without_rows_says_why() -> None:
    store = MemoryStore()
    client = ConsoleClient(AsyncRunner(new_agents(), store=store))
    assert "No run waits, so every code may be deployed." in text_of(client)[0]
    old_runs(store)
    bare = ConsoleClient(AsyncRunner([], store=store))
    assert "This console has no agents" in text_of(bare)[0]
    assert 400 == asyncio.run(client.get("/drift?agent=x")).status_code


def test_each_page_reads_a_bounded_number_of_runs() -> None:
    """The pages follow each other, and each run is on one of them."""
    store = MemoryStore()
    ships = agent("stock", [ship], ToolCall("ship", {"order": "o1"}))
    runner = Runner(ships, store=store)
    ids = [f"run-{number:03}" for number in range(70)]
    for run_id in ids:
        runner.start("go", run_id=run_id)
    counting = FaultyStore(store)
    client = ConsoleClient(AsyncRunner(new_agents(), store=counting))
    found: list[str] = []
    following: str | None = "/drift"
    while following:
        before = len(counting.operations)
        _, markup = text_of(client, following)
        found += re.findall(r'href="/runs/([^"/]+)">run', markup)
        # Two batches of 20 runs: listings, and a listing and the reads of each.
        assert len(counting.operations) - before <= 2 + 40 * 3
        link = re.search(r'href="([^"]+)" rel="next"', markup)
        following = unescape(link[1]) if link else None
    assert ids == found


def test_lists_end_after_a_number_of_read_runs(monkeypatch: Any) -> None:
    """A person finds the few runs that they may view, page after page."""
    monkeypatch.setattr("continuations.serve.http.cursors.MAX_READ", 10)
    store = MemoryStore()
    ships = agent("stock", [ship], ToolCall("ship", {"order": "o1"}))
    runner = Runner(ships, store=store)
    for number in range(35):
        runner.start("go", run_id=f"run-{number:03}")
    asked: list[str | None] = []

    def can(_: Identity, __: str, run: str | None) -> bool:
        asked.append(run)
        return run in ("run-000", "run-034")

    async def read(api: HttpApi, path: str, after: str) -> Any:
        query = {"limit": "2", **({"after": after} if after else {})}
        headers = {"x-person": "kim"}
        request = Request(method="GET", path=path, query=query, headers=headers)
        return json_body(await api.handle(request))

    api = HttpApi(AsyncRunner(new_agents(), store=store), verify=verify_header, can=can)
    for path, rows in (("/runs", "runs"), ("/waits", "waits"), ("/drift", "runs")):
        found: list[str] = []
        after, pages = "", 0
        while True:
            asked.clear()
            form = asyncio.run(read(api, path, after))
            assert len(asked) <= 10
            found += [row["run_id"] for row in form[rows]]
            after, pages = form["next"] or "", pages + 1
            if not after:
                break
        assert {"run-000", "run-034"} == set(found)
        assert 4 == pages


def test_thread_is_named_by_its_key() -> None:
    store = MemoryStore()
    chat = agent("chat", [ship], ToolCall("ship", {"order": "o1"}))
    thread = Runner(chat, store=store).thread("chat", key="customer 42")
    run_id = thread.send("hello").run_id
    client = ConsoleClient(AsyncRunner(chat, store=store))

    text = asyncio.run(client.get("/drift")).text

    assert f'<h2><a href="/runs/{run_id}">customer 42</a></h2>' in text
    assert f'<span class="mono">{run_id}</span>' in text


def test_page_of_a_run_says_which_tool_the_code_of_the_console_lacks() -> None:
    """A worker with that code leaves the run to others, and stores nothing about it."""
    store = MemoryStore()
    old_runs(store)
    decider = Runner([], store=store)
    decider.decide(decider.look("c-refused").waits[0].id, Approve(by="kim"))
    decider.decide(decider.look("a-accepted").waits[0].id, Approve(by="kim"))
    before = keys_of(store)
    client = ConsoleClient(AsyncRunner(new_agents(), store=store))

    refused, _ = text_of(client, "/runs/c-refused")
    accepted, _ = text_of(client, "/runs/a-accepted")

    words = "The code of this process does not continue it: "
    assert f"{words}run c-refused: " in refused
    assert words not in accepted
    assert before == keys_of(store)
