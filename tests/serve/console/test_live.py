"""Live pages: one lister for all viewers, none without one, and nothing is lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from continuations import AsyncRunner, Identity
from continuations.ledger.index import waits
from continuations.ledger.objects import Objects
from continuations.serve.console import console
from continuations.serve.console import live as live_module
from continuations.serve.console.console_app import open_stream
from continuations.serve.console.live import Away, LiveWaits
from continuations.serve.console.live_runs import LiveRuns
from continuations.serve.http.api import HttpApi
from continuations.serve.http.problems import RequestRefused
from continuations.serve.http.request_response import Request
from continuations.serve.pages.environment import read_asset
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore, delayed, no_faults, on, refused
from tests.ledger.runs import make_wait
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.office import filled
from tests.serve.rights import only

SOON = 30


async def add_wait(store: FaultyStore, number: int) -> None:
    """Open a wait, as a worker does."""
    wait = make_wait(number, run_id=f"r{number}")
    await waits.create(Objects(store), [wait])


may_nothing = only()


async def following(changes: AsyncGenerator[Any]) -> Any:
    """Return the next news, as a rule a cursor."""
    return await asyncio.wait_for(anext(changes), SOON)


def listings(store: FaultyStore) -> int:
    """Return how many listings were made."""
    return [operation.verb for operation in store.operations].count("keys")


async def test_no_viewer_costs_no_request() -> None:
    store = FaultyStore(MemoryStore())
    live = LiveWaits(AsyncRunner([], store=store), interval=0)
    changes = live.changes("")
    await following(changes)
    assert listings(store) > 0
    await changes.aclose()
    assert 0 == live.viewers
    before = len(store.operations)
    for _ in range(50):
        await asyncio.sleep(0)
    assert before == len(store.operations)


async def test_hundred_viewers_share_one_lister() -> None:
    costs: list[int] = []
    for count in (1, 100):
        store = FaultyStore(MemoryStore())
        live = LiveWaits(AsyncRunner([], store=store), interval=3600)
        streams = [live.changes("") for _ in range(count)]
        cursors = await asyncio.gather(*(following(each) for each in streams))
        assert 1 == len(set(cursors))
        costs.append(len(store.operations))
        for each in streams:
            await each.aclose()
    assert costs[0] == costs[1]


async def test_stream_that_is_cut_and_resumed_tells_of_what_happened_meanwhile() -> (
    None
):
    """The cursor is a hash of the keys, so another process knows it too."""
    store = FaultyStore(MemoryStore())
    runner = AsyncRunner([], store=store)
    first = LiveWaits(runner, interval=0).changes("")
    seen = await following(first)
    await first.aclose()
    await add_wait(store, 1)
    resumed = LiveWaits(runner, interval=0).changes(seen)
    newer = await following(resumed)
    assert newer != seen
    await add_wait(store, 2)
    assert await following(resumed) not in (seen, newer)
    await resumed.aclose()


async def test_viewer_without_a_change_is_told_nothing() -> None:
    store = FaultyStore(MemoryStore())
    live = LiveWaits(AsyncRunner([], store=store), interval=0)
    first = live.changes("")
    seen = await following(first)
    second = live.changes(seen)
    waiting = asyncio.ensure_future(anext(second))
    for _ in range(500):
        await asyncio.sleep(0)
    assert not waiting.done()
    await add_wait(store, 1)
    assert seen != await asyncio.wait_for(waiting, SOON)
    await first.aclose()
    await second.aclose()


async def test_lister_goes_on_after_an_unexpected_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FaultyStore(MemoryStore())
    live = LiveWaits(AsyncRunner([], store=store), interval=0)
    look, calls = live.look, 0

    async def fails_once(**options: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            msg = "a fault of a store"
            raise ZeroDivisionError(msg)
        await look(**options)

    monkeypatch.setattr(live, "look", fails_once)
    monkeypatch.setattr(live_module, "PAUSE_SECONDS", 0)
    changes = live.changes("")
    assert await following(changes)
    await changes.aclose()
    assert "cannot list the open waits: it tries again" in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_person_has_a_bounded_number_of_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One more is refused (429); a stream that ends makes room for another."""
    monkeypatch.setattr(console, "MAX_STREAMS", 2)

    client = ConsoleClient()
    made = console.make_console(
        client.runner,
        HttpApi(client.runner),
        verify=lambda request: request.headers["x-person"],
        can=None,
        dispatcher=None,
        origin=None,
        secret=None,
        live="events",
        clock=None,
    )
    request = Request(method="GET", path="/events", headers={"x-person": "kim"})
    kim, lee = Identity("kim"), Identity("lee")
    streams = [await open_stream(made, request, kim) for _ in range(3)]
    tasks = [asyncio.ensure_future(anext(each, None)) for each in streams]
    assert [None] == [t.result() for t in (await asyncio.wait(tasks[2:]))[0]]
    with pytest.raises(RequestRefused) as refused:
        await open_stream(made, request, kim)
    assert 429 == refused.value.problem.type.status
    assert "at most 2 open streams" in str(refused.value.problem.detail)
    await (await open_stream(made, request, lee)).aclose()
    await asyncio.wait(tasks)
    await streams[0].aclose()
    await (await open_stream(made, request, kim)).aclose()
    await streams[1].aclose()
    assert {} == made.streams.by_person


async def test_viewer_of_some_runs_hears_of_their_changes_only() -> None:
    store = FaultyStore(MemoryStore())
    live = LiveWaits(AsyncRunner([], store=store), interval=0)
    asked: list[str] = []
    is_asked = asyncio.Event()

    async def sees(run_id: str) -> bool:
        asked.append(run_id)
        is_asked.set()
        return run_id == "r2"

    await add_wait(store, 7)
    changes = live.changes_of(live.changed_waits, "", sees)
    assert await following(changes)  # it may have missed something
    waiting = asyncio.ensure_future(anext(changes))
    await add_wait(store, 1)
    await asyncio.wait_for(is_asked.wait(), SOON)
    for _ in range(100):
        await asyncio.sleep(0)
    assert not waiting.done()
    await add_wait(store, 2)
    assert await asyncio.wait_for(waiting, SOON)
    assert {"r1", "r2"} == {*asked}  # never of a wait that has not changed
    await changes.aclose()
    assert 0 == live.viewers


async def test_page_of_limited_rights_tells_nothing_of_hidden_waits() -> None:
    """Its place is sealed, and each page has another one."""
    store = FaultyStore(MemoryStore())
    await add_wait(store, 1)
    client = ConsoleClient(AsyncRunner([], store=store), {"can": may_nothing})
    every = client.app.state.live.waits.changes("")
    await following(every)  # the lister has a cursor of all waits
    places: set[str] = set()
    for _ in range(2):
        page = await client.get("/inbox?for=all")
        assert 'data-cursor=""' in page.text
        found = re.search(r'data-events="/events\?after=(~[^"]+)"', page.text)
        assert found
        places.add(found[1])
    assert 2 == len(places)
    await every.aclose()


@pytest.mark.parametrize("has_changed", [False, True])
async def test_opened_page_of_limited_rights_is_told_only_what_it_missed(
    has_changed: bool,
) -> None:
    """A page that was just made loads no rows again."""
    store = FaultyStore(MemoryStore())
    await add_wait(store, 1)
    live = LiveWaits(AsyncRunner([], store=store), interval=0)

    async def sees(_: str) -> bool:
        return True

    live.keep_rows()
    await live.look()
    place = live.changed_waits.cursor
    if has_changed:
        await add_wait(store, 2)
    changes = live.changes_of(live.changed_waits, place, sees)
    waiting = asyncio.ensure_future(anext(changes))
    for _ in range(300):
        await asyncio.sleep(0)
    assert has_changed == waiting.done()
    waiting.cancel()
    await asyncio.wait({waiting})
    await changes.aclose()
    # The place of another process, or one that is too old, may have missed anything.
    name = place.partition(".")[0]
    for other in ("other.0", name, f"{name}.-1", f"{name}.9", f"{name}.x", "9" * 9999):
        assert live.changed_waits.since(other) is None
    for _ in range(600):
        live.changed_waits.add({"r9"})
    assert live.changed_waits.since(place) is None


# Lists of runs -----------------------------------------------------------------------


async def list_runs(live: LiveWaits) -> None:
    """List and read the runs, as a page does."""
    await live.runs.renew(None, with_ended=True, max_age=timedelta())
    await live.runs.read(SOON)


async def test_viewers_of_runs_cost_one_lister() -> None:
    office = await asyncio.to_thread(filled)
    runner = AsyncRunner([], store=office.store, clock=office.clock)
    costs: list[int] = []
    for viewers in (1, 50):
        live = LiveWaits(runner, interval=3600, clock=office.clock)
        office.store.operations.clear()
        log = live.changed_runs
        streams = [live.changes_of(log, "", None) for _ in range(viewers)]
        await asyncio.gather(*(following(each) for each in streams))
        async with asyncio.timeout(SOON):
            while len(live.runs.live_runs()) < 2:  # noqa: ASYNC110 - see below
                await asyncio.sleep(0.01)
        for each in streams:
            await each.aclose()
        assert 0 == live.viewers
        costs.append(len(office.store.operations))
    assert costs[0] == costs[1]


async def test_viewer_of_runs_hears_of_a_run_that_starts_and_ends() -> None:
    office = await asyncio.to_thread(filled)
    runner = AsyncRunner([], store=office.store, clock=office.clock)
    live = LiveWaits(runner, interval=0.01, clock=office.clock)
    await list_runs(live)
    place = live.publish_runs()
    log = live.changed_runs
    changes = live.changes_of(log, place, None)
    waiting = asyncio.ensure_future(following(changes))
    await asyncio.sleep(0.1)
    assert not waiting.done()  # the page has it all
    await asyncio.to_thread(office.start, "new", "done")
    told = await waiting
    assert ["new"] == [*(log.since(place) or ())]
    assert [] == [*(log.since(told) or ())]
    await changes.aclose()


async def test_viewer_of_some_runs_hears_nothing_of_hidden_ones() -> None:
    office = await asyncio.to_thread(filled)
    live = LiveWaits(
        AsyncRunner([], store=office.store, clock=office.clock),
        interval=0,
        clock=office.clock,
    )

    async def sees(run_id: str) -> bool:
        return run_id == "mine"

    await list_runs(live)
    changes = live.changes_of(live.changed_runs, "", sees)
    await following(changes)
    for _ in range(100):
        await asyncio.sleep(0)
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.to_thread(office.start, "theirs", "done")
    async with asyncio.timeout(SOON):
        while live.runs.get("theirs") is None:  # noqa: ASYNC110 - the lister tells viewers only
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    assert not waiting.done()
    await asyncio.to_thread(office.start, "mine", "done")
    assert await asyncio.wait_for(waiting, SOON)
    await changes.aclose()


# A store that is away ----------------------------------------------------------------


@pytest.mark.parametrize("way", ["waits", "runs", "run"])
async def test_viewer_is_told_since_when_the_store_is_away(way: str) -> None:
    office = await asyncio.to_thread(filled)
    runner = AsyncRunner([], store=office.store, clock=office.clock)
    live = LiveWaits(runner, interval=0, clock=office.clock)
    changes: AsyncGenerator[Any]
    if way == "run":
        changes = LiveRuns(runner, live, interval=0).changes("inv-12", "")
    elif way == "waits":
        changes = live.changes("")
    else:
        changes = live.changes_of(live.changed_runs, "", None)
    await following(changes)
    office.store.plan = on("keys", refused(), times=SOON * 10**6)
    away = await until_away(changes)
    assert office.clock.now() == away.since
    office.store.plan = no_faults
    assert Away(None) == await until_away(changes)
    await changes.aclose()


async def until_away(changes: AsyncGenerator[Any]) -> Away:
    """Return the next news of the store itself."""
    while not isinstance(news := await following(changes), Away):
        pass
    return news


@pytest.mark.parametrize("way", ["waits", "run"])
async def test_store_that_does_not_answer_is_away(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(live_module, "AWAY_SECONDS", 0.01)
    store = FaultyStore(MemoryStore())
    store.plan = on("keys", delayed(3600), times=SOON)
    runner = AsyncRunner([], store=store)
    live = LiveWaits(runner, interval=0)
    changes: AsyncGenerator[Any] = live.changes("")
    if way == "run":
        changes = LiveRuns(runner, live, interval=0).changes("r1", "")
    assert (await until_away(changes)).since is not None
    await changes.aclose()


async def test_server_that_stops_ends_the_streams() -> None:
    live = LiveWaits(AsyncRunner([], store="memory:"), interval=3600)
    changes = live.changes("")
    await following(changes)
    waiting = asyncio.ensure_future(anext(changes, None))
    await asyncio.sleep(0)
    live.close()
    assert await asyncio.wait_for(waiting, SOON) is None


def test_stream_needs_an_identity() -> None:
    client = ConsoleClient(person=None)
    assert 401 == asyncio.run(client.get("/events")).status_code


async def test_inbox_names_its_stream_and_its_rows() -> None:
    client = ConsoleClient()
    page = await client.get("/inbox?for=all&q=x")
    assert re.search('data-events="/events[?]after=[0-9a-f]{16}"', page.text)
    assert 'data-rows="/inbox/rows?for=all&amp;q=x"' in page.text
    rows = await client.get("/inbox/rows?for=all&q=x")
    assert (200, False) == (rows.status_code, "<html" in rows.text)


def test_script_is_smaller_than_four_kilobytes() -> None:
    assert len(read_asset("console.js")) < 4096
