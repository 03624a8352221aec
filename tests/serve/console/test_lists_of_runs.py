"""The lists of runs and waits: order, states in words, search, counts, and costs."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from html import unescape
from types import SimpleNamespace
from typing import Any

import pytest

from continuations import Approve, Deny, Identity, Runner
from continuations.errors import ModelError
from continuations.ledger import layout
from continuations.serve.console import known_runs
from continuations.serve.console.runs_page import list_note
from continuations_storage.faults import (
    Crash,
    Fault,
    Operation,
    crashed,
    delayed,
    no_faults,
    on,
    refused,
)
from tests.serve.console.office import (
    Office,
    call,
    filled,
    html_of,
    runs_in,
    states_in,
    text_of,
)
from tests.serve.rights import only

# States in words ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (call("pay", cents=1), "Waits for kim"),
        (call("transfer", cents=1), "Waits for finance (0 of 2)"),
        (call("delete", name="x"), "Waits for approval"),
        (call("choose", of="laptop"), "Waits for an answer"),
        ([call("pay", cents=1), call("pay", cents=2)], "Waits for kim, 1 more"),
        (call("nap", hours=2), "Sleeps until 14:00 UTC"),
        (call("nap", hours=48), "Sleeps until Sat 3 Jan 2026, 12:00 UTC"),
        (call("receipt", claim="c7"), "Waits for event receipt"),
        (call("render", film="M"), "Waits for film M"),
        (ModelError("status 429", retryable=True), "Asks its model again at"),
        ("done", "Finished"),
    ],
)
def test_state_of_a_run_says_what_it_waits_for(reply: Any, words: str) -> None:
    office = Office()
    office.start("r1", reply)
    client = office.client()

    [shown] = states_in(html_of(client, "/runs")).values()

    assert shown.startswith(words), shown
    if "429" in str(reply):
        assert shown.endswith(": status 429")
    assert shown in text_of(html_of(client, "/runs/r1"))


def test_state_counts_votes_and_names_a_pause_and_an_unknown_outcome() -> None:
    office = Office()
    runner = office.start("voted", call("transfer", cents=1))
    [wait] = runner.open_waits()
    runner.decide(wait.id, Approve(by=Identity("jo", ["finance"])))
    office.start("paused", call("pay", cents=1)).pause("paused", by="kim")
    client = office.client()
    states = states_in(html_of(client, "/runs"))
    assert "Waits for finance (1 of 2)" == states["voted"]
    assert "Paused" == states["paused"]

    # Decided, and no worker took it: after five minutes it needs a look.
    Runner([], store=office.store, clock=office.clock).unpause("paused", by="kim")
    [wait] = [each for each in runner.open_waits() if each.run_id == "paused"]
    runner.decide(wait.id, Deny(by="kim"))
    assert "Waits for a worker" == states_in(html_of(client, "/runs"))["paused"]
    office.clock.seconds += 600
    assert "Needs a look" == states_in(html_of(client, "/runs"))["paused"]
    html = html_of(client, "/runs?status=look")
    assert ["paused"] == runs_in(html)


def test_run_that_nobody_takes_or_whose_worker_died_is_found_among_many() -> None:
    # Nothing is stored at the moment at which these runs need a look.
    office = Office()
    for number in range(80):
        office.start(f"w{number}", call("pay", cents=number))
    runner = office.start("decided", call("pay", cents=1))
    [wait] = [each for each in runner.open_waits() if each.run_id == "decided"]
    runner.decide(wait.id, Deny(by="kim"))
    office.store.plan = on("create", crashed("before"), prefix="runs/died/v", skip=1)
    with suppress(Crash):
        office.start("died", "done")
    office.store.plan, office.store.has_crashed = no_faults, False
    client = office.client()
    states = states_in(html_of(client, "/runs"))
    assert ("Running", "Waits for a worker") == (states["died"], states["decided"])
    assert [] == runs_in(html_of(client, "/runs?status=look"))
    assert ["died"] == runs_in(html_of(client, "/runs?status=running"))

    office.clock.seconds += 600

    # A run whose worker is gone is stored as running, and does not run.
    assert [] == runs_in(html_of(client, "/runs?status=running"))
    found = html_of(client, "/runs?status=look")
    assert {"died": "Interrupted", "decided": "Needs a look"} == states_in(found)


# Order and search --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=meridian", ["inv-12"]),
        ("q=MERIDIAN+invoice", ["inv-12"]),
        ("q=inv-1", ["inv-1", "inv-12"]),  # the whole id first
        ("q=12", ["inv-12"]),
        ("q=2", ["ship-2"]),  # a whole word, and not a part of inv-12
        ("q=team%3Dfinance", ["inv-12"]),
        ("label=team%3Dfinance", ["inv-12"]),
        ("label=+team+%3D+finance", ["inv-12"]),
        ("label=team%3Dit", []),
        ("q=ines", ["inv-1", "inv-12"]),
        ("agent=shipping&q=box", [f"ship-{n}" for n in (4, 3, 2, 1, 0)]),
        ("agent=shipping&status=live", []),
        ("status=person", ["inv-12"]),
        ("status=timer", ["inv-1"]),
        ("status=suspended", ["inv-1", "inv-12"]),
        ("status=ended&q=4", ["ship-4"]),
        ("time=started-1h&q=box", [f"ship-{n}" for n in (4, 3, 2, 1, 0)]),
        ("time=ended-1h&q=inv", []),
        ("q=nothing-like-this", []),
    ],
)
def test_search_finds_runs_by_their_words_states_and_times(
    query: str, found: list[str]
) -> None:
    html = html_of(filled().client(), f"/runs?{query}")
    assert found == runs_in(html)
    assert ("No run fits the filters." in html) == (not found)
    assert (f"{len(found)} run" in html) == bool(found)


def test_runs_are_listed_by_their_last_change_or_by_their_start() -> None:
    office = filled()
    client = office.client()
    oldest = [f"ship-{n}" for n in (4, 3, 2, 1, 0)]
    assert ["inv-1", "inv-12", *oldest] == runs_in(html_of(client, "/runs"))
    office.clock.seconds += 7200
    runner = office.runner(call("pay", cents=5), "paid")
    [wait] = [each for each in runner.open_waits() if each.run_id == "inv-12"]
    runner.decide(wait.id, Approve(by="kim"))
    runner.resume("inv-12")
    assert ["inv-12", "inv-1", *oldest] == runs_in(html_of(client, "/runs"))
    by_start = html_of(client, "/runs?order=started")
    assert ["inv-1", "inv-12", *oldest] == runs_in(by_start)
    assert [] == runs_in(html_of(client, "/runs?time=started-1h"))
    assert ["inv-12"] == runs_in(html_of(client, "/runs?time=ended-1h"))
    assert "Every agent clerk shipping" in text_of(by_start)


def test_pages_have_each_run_once_also_while_runs_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("continuations.serve.console.runs_page.ROWS_PER_PAGE", 3)
    office = filled()
    client, path, found = office.client(), "/runs?q=ship", list[str]()
    while path:
        html = html_of(client, path)
        found += runs_in(html)
        office.start(f"new-ship-{len(found)}", "done")
        link = re.search(r'href="([^"]*)" rel="next"', html)
        path = unescape(link[1]) if link else ""
    assert [f"ship-{n}" for n in (4, 3, 2, 1, 0)] == found


# Changes by other processes -----------------------------------------------------------


def test_list_follows_runs_that_other_processes_start_end_and_erase() -> None:
    office = filled()
    client = office.client()
    assert 7 == len(runs_in(html_of(client, "/runs")))
    office.start("late", call("pay", cents=9), title="Late")
    assert ["late"] == runs_in(html_of(client, "/runs?q=late"))
    assert "Everybody 2" in html_of(client, "/inbox")

    runner = office.runner("paid")
    runner.cancel("late", by="ruth")
    assert "Cancelled" == states_in(html_of(client, "/runs"))["late"]
    assert "Everybody 1" in html_of(client, "/inbox")

    runner.erase("ship-3")
    assert [] == runs_in(html_of(client, "/runs?q=ship-3"))
    assert "7 runs" in html_of(client, "/runs")


def test_run_that_was_erased_on_a_page_is_forgotten_at_once() -> None:
    office = filled()
    client = office.client()
    html_of(client, "/runs")
    response = asyncio.run(client.post("/runs/ship-3/erase", {"typed": "ship-3"}))
    assert 400 > response.status_code, response.text
    html = html_of(client, "/runs?q=box")
    assert "4 runs" in html
    assert "Box 3" not in html


def test_run_that_another_process_erased_is_not_counted_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if no page shows it."""
    monkeypatch.setattr("continuations.serve.console.runs_page.ROWS_PER_PAGE", 1)
    office = filled()
    client = office.client()
    assert "1 to 1 of 7 runs" in html_of(client, "/runs")
    runner = office.runner("paid")
    runner.cancel("inv-12", by="ruth")
    runner.erase("inv-12")
    assert "1 to 1 of 6 runs" in html_of(client, "/runs")
    runner.erase("ship-0")
    office.clock.seconds += 601
    assert "1 to 1 of 5 runs" in html_of(client, "/runs")


def test_run_that_cannot_be_read_hides_no_other_run() -> None:
    office = filled()
    key = layout.version_key("ship-2", 1)
    asyncio.run(office.store.delete(key))
    asyncio.run(office.store.create(key, b"damaged"))
    client = office.client()
    states = states_in(html_of(client, "/runs"))
    assert (7, "Unreadable") == (len(states), states["ship-2"])
    assert ["ship-2"] == runs_in(html_of(client, "/runs?status=look"))


def test_store_that_fails_meanwhile_is_read_again_later() -> None:
    office = filled()
    client = office.client()

    def away(operation: Operation) -> Fault | None:
        is_version = operation.verb == "read" and "/v/" in operation.key
        return refused() if is_version else None

    office.store.plan = away
    assert 503 == asyncio.run(client.get("/runs")).status_code
    office.store.plan = no_faults
    assert 7 == len(runs_in(html_of(client, "/runs")))


def test_wait_that_cannot_be_read_is_a_row_and_hides_no_other() -> None:
    office = Office()
    for run_id in ("r1", "r2"):
        runner = office.start(run_id, call("pay", cents=5))
    [key] = [layout.wait_key(w.id) for w in runner.open_waits() if w.run_id == "r1"]
    asyncio.run(office.store.delete(key))
    asyncio.run(office.store.create(key, b"damaged"))
    client = office.client()
    for path in ("/inbox", "/inbox?for=all"):
        html = html_of(client, path)
        assert "2 decisions wait" in html
        assert ["This wait cannot be read", "Run pay: 5"] == sorted(
            re.findall(r'<h3><a href="[^"]*">(.*?)</a>', html), reverse=True
        )
    assert "1 wait fits this filter" in html_of(client, "/inbox?q=pay")


def test_list_follows_forks_rewinds_and_threads() -> None:
    office = Office()
    runner = office.start("first", call("pay", cents=5), title="First")
    client = office.client()
    assert ["first"] == runs_in(html_of(client, "/runs"))
    runner.fork("first", 1, run_id="second")
    runner.rewind("first", 1)
    states = states_in(html_of(client, "/runs"))
    assert {"first", "second"} == states.keys()
    assert {"Waits for a worker"} == set(states.values())

    talker = office.runner("Hello.", "Again.", agent="talker")
    for key in ("a", "b", "a"):
        office.clock.seconds += 60
        talker.thread("talker", key=key).send("Hi")
        text = text_of(html_of(client, "/threads"))
        assert f"Waits for a message {key} " in text.replace("Skip", "", 1)
    assert text.index(" 2 messages") < text.index(" 1 message ")
    assert "2 threads" in text
    assert "4 runs" in html_of(client, "/runs")


def test_reading_goes_on_when_the_reader_of_the_page_has_left() -> None:
    office = filled()

    def slow(operation: Operation) -> Fault | None:
        return delayed(0.05) if "/v/" in operation.key else None

    client = office.client()

    async def leave_and_come_back() -> str:
        office.store.plan = slow
        leaving = asyncio.create_task(client.get("/runs"))
        await asyncio.sleep(0.01)
        leaving.cancel()
        await asyncio.wait({leaving})
        return (await client.get("/runs")).text

    assert 7 == len(runs_in(asyncio.run(leave_and_come_back())))


# Costs --------------------------------------------------------------------------------


def test_page_costs_listings_and_the_rows_that_it_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("continuations.serve.console.runs_page.ROWS_PER_PAGE", 2)
    monkeypatch.setattr(known_runs, "_LOOKS_AGAIN", 0)
    office = filled()
    client = office.client()
    html_of(client, "/runs")
    assert 7 == len(set(re.findall(r"runs/([^/]+)/v/", str(office.store.operations))))
    office.requests()

    assert ["inv-12"] == runs_in(html_of(client, "/runs?q=meridian"))

    # Waits, markers, live and ended runs; the newest version and its number.
    assert {"keys": 4 + 1, "read": 1} == office.requests()
    assert 7 == len(runs_in(html_of(client, "/inbox/others"))) + 6
    office.requests()
    html_of(client, "/runs/inv-12")
    plain = office.requests()
    # The count in the navigation costs nothing.
    other = office.client()
    html_of(other, "/runs/inv-12")
    assert plain == office.requests()


def test_page_says_how_much_is_not_read_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SECONDS", "ROW_SECONDS"):
        monkeypatch.setattr(f"continuations.serve.console.wait_list.{name}", 0)
    office = filled()

    def slow(operation: Operation) -> Fault | None:
        seconds = 60 if "ship-" in operation.key else 0.01
        return delayed(seconds) if "/v/" in operation.key else None

    office.store.plan = slow
    client = office.client()

    async def look_twice() -> list[str]:
        first = await client.get("/runs")
        # The two live runs are read, and the five others are listed.
        await asyncio.sleep(0.3)
        return [first.text, (await client.get("/runs")).text]

    first, second = asyncio.run(look_twice())
    note = "This list is not complete yet."
    assert f"Reading the runs that ended. {note}" in first
    assert "data-reading" in first
    assert "None of the runs that were read so far fits." in first
    assert f"Reading the runs: 2 of 7. {note}" in second
    assert {"inv-1", "inv-12"} == set(runs_in(second))
    client = office.client(can=may_all)
    # The page does not say how many runs are hidden.
    _, limited = asyncio.run(look_twice())
    assert "Still reading the runs." in limited
    assert "of 7" not in limited


def test_note_of_live_runs_does_not_count_the_ended_ones() -> None:
    known = SimpleNamespace(
        listed_at=1, live_ids=("a", "b"), missing_live=1, total=7, missing=4
    )
    known.has_ended_runs, known.is_cut = True, False
    page: Any = SimpleNamespace(live=SimpleNamespace(known_runs=known), sees=None)
    assert "Reading the runs: 1 of 2." == list_note(page, with_ended=False)
    assert "Reading the runs: 3 of 7." == list_note(page, with_ended=True)


# A slow store -------------------------------------------------------------------------


@pytest.fixture
def hasty_pages(monkeypatch: pytest.MonkeyPatch, patient_pages: None) -> None:
    """Let pages wait for nothing."""
    assert patient_pages is None
    for name in ("SECONDS", "ROW_SECONDS"):
        monkeypatch.setattr(f"continuations.serve.console.wait_list.{name}", 0.05)


def hangs(_: Operation) -> Fault:
    """Let each request take an hour."""
    return delayed(3600)


AGE = re.compile(r"This list is \d+(\.\d)? s old\.")
SLOW_PAGES = (
    "/runs?q=meridian",
    "/runs?status=finished",
    "/inbox?for=all&q=meridian",
    "/inbox",
    "/inbox/others",
    "/threads",
)


@pytest.mark.usefixtures("hasty_pages")
async def test_search_is_answered_from_memory_while_the_store_is_slow() -> None:
    """The list says how old it is, and the script looks again."""
    office = await asyncio.to_thread(filled)
    client = office.client()
    for path in (*SLOW_PAGES, *SLOW_PAGES):
        await client.get(path)
        await asyncio.sleep(0.05)
    office.clock.seconds += 7
    office.store.plan = hangs
    async with asyncio.timeout(30):
        for path in SLOW_PAGES:
            html = (await client.get(path)).text
            assert ("Meridian" in html) == (path in SLOW_PAGES[:1] + SLOW_PAGES[2:4])
            age = AGE.search(text_of(html))
            assert age, text_of(html)
            assert 7 <= float(age[0].split()[3]), age
            assert "data-reading" in html


@pytest.mark.usefixtures("hasty_pages")
async def test_very_first_page_of_a_process_says_that_it_reads() -> None:
    office = await asyncio.to_thread(filled)
    office.store.plan = hangs
    async with asyncio.timeout(30):
        for path in SLOW_PAGES:
            html = (await office.client().get(path)).text
            assert re.search("Reading the (runs|waits)", html), path
            assert "data-reading" in html
            assert "There are none" not in html


@pytest.mark.usefixtures("hasty_pages")
async def test_decided_wait_is_gone_before_the_next_listing_ends() -> None:
    office = await asyncio.to_thread(filled)
    client = office.client()
    inbox = (await client.get("/inbox")).text
    [wait] = re.findall(r'data-wait="([^"]*)"', inbox)
    digest = re.search(
        r'name="shown" value="(\w+)"', (await client.get(f"/waits/{wait}")).text
    )
    assert digest
    reply = await client.post(
        f"/waits/{wait}", {"decision": "deny", "shown": digest[1]}
    )
    assert "Recorded: Denied" in reply.text
    office.store.plan = hangs
    async with asyncio.timeout(30):
        html = (await client.get("/inbox")).text
    assert "data-wait" not in html
    assert "For you 0" in html


async def test_open_list_that_is_followed_costs_no_request() -> None:
    office = await asyncio.to_thread(filled)
    client = office.client()
    page = (await client.get("/runs")).text
    stream = re.search(r'data-reads="/events\?list=runs&amp;after=([^"]+)"', page)
    assert stream
    live = client.app.state.live.waits
    changes = live.changes_of(live.changed_runs, "", None)
    await asyncio.wait_for(anext(changes), 30)
    office.store.operations.clear()
    for path in ("/runs", "/runs?q=box", "/threads"):
        await client.get(path, x_live_at=stream[1])
    assert [] == office.store.operations
    await changes.aclose()
    # Without the lister, the header changes nothing.
    await client.get("/runs", x_live_at=stream[1])
    assert office.store.operations


async def test_list_that_asks_gets_rows_only_after_a_change() -> None:
    office = await asyncio.to_thread(filled)
    client = office.client(live="poll")
    page = (await client.get("/runs")).text
    cursor = re.search(r'id="runs" .*data-cursor="([^"]+)"', page)
    assert cursor
    assert 204 == (await client.get("/runs", x_live_after=cursor[1])).status_code
    await asyncio.to_thread(office.start, "new", "done")
    reply = await client.get("/runs", x_live_after=cursor[1])
    assert (200, True) == (reply.status_code, "/runs/new" in reply.text)


def may_all(_person: Identity, _act: str, _run: str | None) -> bool:
    """Allow everything."""
    return True


# Rights -------------------------------------------------------------------------------


def test_hidden_runs_are_neither_shown_nor_counted_nor_found() -> None:
    office = filled()
    office.start("open", call("pay", cents=5), title="Open", agent="teller")
    office.start(
        "nap-2", call("nap", hours=2), title="Hidden nap", agent="secret-agent"
    )

    client = office.client(can=only("view", "decide", runs=["open", "ship-0"]))
    pages = {
        path: html_of(client, path)
        for path in (
            "/runs",
            "/inbox",
            "/inbox?for=all",
            "/inbox/others",
            "/inbox/decided",
            "/runs?q=meridian",
            "/inbox?for=all&q=meridian",
            "/threads",
        )
    }
    for path, html in pages.items():
        for word in ("Meridian", "inv-1", "nap", "secret-agent", "shipping</option>"):
            assert word not in html.replace("q=meridian", ""), (path, word)
    assert ["open", "ship-0"] == runs_in(pages["/runs"])
    assert "For you 1" in pages["/inbox"]
    assert "Everybody 1" in pages["/inbox"]
    assert 'aria-label="1 wait for you"' in html_of(client, "/runs")
    assert "timer" not in pages["/inbox"]
    assert "There are none." in pages["/inbox/others"]


def test_waits_that_a_person_may_see_and_not_decide_are_not_for_the_person() -> None:
    office = Office()
    for run_id in ("mine", "theirs"):
        office.start(run_id, call("pay", cents=5), title=f"This is {run_id}")

    def can(_person: Identity, act: str, run: str | None) -> bool:
        return act == "view" or (act == "decide" and run == "mine")

    client = office.client(can=can)
    html = html_of(client, "/inbox")
    assert "For you 1" in html
    assert "Everybody 2" in html
    assert ["This is mine"] == re.findall("This is [a-z]+", html)
    assert 'aria-label="1 wait for you"' in html
    assert "This is theirs" in html_of(client, "/inbox?for=all")


# The inbox ----------------------------------------------------------------------------


def test_search_of_the_inbox_finds_runs_labels_and_people() -> None:
    client = filled().client()
    for query in ("Remind", "meridian", "team%3Dfinance", "ines", "kim", "clerk"):
        html = html_of(client, f"/inbox?for=all&q={query}")
        expected = [] if query == "Remind" else ["1 wait fits this filter"]
        assert expected == re.findall(r"1 wait fits this filter(?=</h1>)", html), query
    html = html_of(client, "/inbox")
    assert "team=finance" in html
    assert "<span>Invoice INV-12 of Meridian</span>" in html


def test_timers_are_counted_and_each_has_a_row_with_its_time() -> None:
    office = filled()
    both = [call("nap", hours=30), call("receipt", claim="c1")]
    office.start("two", both, title="Two waits")
    html = html_of(office.client(), "/inbox")
    for words in ("2 timers", "1 event", "next: Remind Ines, ", "Show all 3"):
        assert words in html
    others = html_of(office.client(), "/inbox/others")
    assert ["inv-1", "two", "two"] == runs_in(others)
    assert 'data-time="left">in 5' in others
    assert "receipt, key c1" in others


def test_second_page_of_the_inbox_has_places_and_neighbours() -> None:
    office = Office()
    for number in range(55):
        office.start(f"r{number:02}", call("pay", cents=number))
    client = office.client()
    html = html_of(client, "/inbox")
    assert "1 to 50 of 55 waits" in html
    link = re.search(r'href="([^"]*)" rel="next"', html)
    assert link
    second = html_of(client, unescape(link[1]))
    assert "51 to 55 of 55 waits" in second
    waits = re.findall(r'data-wait="([^"]*)"', second)
    page = html_of(client, f"/waits/{waits[1]}")
    assert "52 of 55" in page
    assert re.search(rf'href="/waits/{waits[0]}" rel="prev"', page)
    assert re.search(rf'href="/waits/{waits[2]}" rel="next"', page)


def test_neighbours_of_a_wait_leave_out_those_whose_deadline_has_passed() -> None:
    office = Office()
    for run_id, seconds in {"late": 100, "soon": 5000, "later": 9000}.items():
        office.start(run_id, call("ask_within", seconds=seconds))
    office.clock.seconds += 600
    client = office.client()
    waits = re.findall(r'data-wait="([^"]*)"', html_of(client, "/inbox?for=all"))
    assert ["late", "soon", "later"] == [each.partition("@")[2] for each in waits]
    page = html_of(client, f"/waits/{waits[1]}?for=all")
    assert "1 of 2" in page
    assert waits[0] not in page
    assert f'href="/waits/{waits[2]}?for=all" rel="next"' in page
