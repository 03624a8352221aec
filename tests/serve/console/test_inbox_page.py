"""The inbox: what waits, in which order, for whom, and at which cost."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from continuations import Agent, Approve, AsyncRunner, Deny, Runner
from continuations.core.rows.wait_rules import WAIT_KINDS, WAIT_RULES
from continuations.errors import ModelError
from continuations.ledger.index import waits
from continuations.ledger.objects import Objects
from continuations.models.scripted import ScriptedModel
from continuations.present.times import left_text
from continuations.serve.console.decided_page import PAGE_LINES
from continuations.serve.console.wait_list import PAGE_ROWS
from continuations.value_class import replace
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.browser.link_scenes import DELETE, LinkScenes
from tests.ledger.fake_clock import make_ulid
from tests.ledger.runs import make_wait
from tests.serve.console.console_client import ConsoleClient
from tests.serve.rights import only


def make_scenes() -> LinkScenes:
    """Return a store with five waits for people and two for other systems."""
    scenes = LinkScenes("http://agents.example")
    scenes.calling("delete", "delete_account", **DELETE)
    scenes.calling("receipt", "receipt", claim="claim-7")
    scenes.calling("render", "render", film="Metropolis")
    scenes.transfer_wait("transfer")
    scenes.calling("laptop", "choose_laptop", person="Jane")
    scenes.calling("name", "ask_name", of="the cat")
    scenes.calling("charge", "charge", cents=4200)
    return scenes


def client_of(scenes: LinkScenes, person: str = "kim", **options: Any) -> ConsoleClient:
    """Return a client of a console on the store of the scenes."""
    runner = AsyncRunner([], store=scenes.store, clock=scenes.clock)
    own = {"clock": scenes.clock, **options}
    return ConsoleClient(runner, options=own, person=person)


def titles(html: str) -> list[str]:
    """Return the titles of the rows."""
    found = re.findall(r'<h3><a href="[^"]*">(.*?)</a></h3>', html)
    return [unescape(each) for each in found]


def page_of(client: ConsoleClient, path: str = "/inbox") -> str:
    """Return the HTML of a page."""
    response = asyncio.run(client.get(path))
    assert 200 == response.status_code, response.text
    return response.text


def test_inbox_shows_what_is_due_today_then_unknown_outcomes_then_the_others() -> None:
    html = page_of(client_of(make_scenes()))

    assert [
        "Run delete_account: bob, and 1 more argument",
        "Run charge with 4200: did it happen?",
        "Send €12,400.00 to Meridian Freight GmbH",
        "Which laptop does Jane get?",
        "What is the name of the cat?",
    ] == titles(html)
    assert '<h1 id="inbox-title">5 decisions wait for you</h1>' in html
    for fact in (
        "in 23 h",
        "then expires",
        "2 votes needed",
        "asked by ines",
    ):
        assert fact in html
    for fact in (
        "then asks cfo",
        "no deadline",
        "the run waits",
    ):
        assert fact in html
    for rest in ("1 event", "1 outside job", "Waits that need no person"):
        assert rest in html


def test_each_kind_of_wait_has_an_icon_and_a_word() -> None:
    assert WAIT_KINDS == WAIT_RULES.keys()
    assert all(each.words.icon and each.words.word for each in WAIT_RULES.values())


def test_list_has_no_button_that_decides() -> None:
    html = page_of(client_of(make_scenes()))
    assert 'method="post"' not in html
    assert ["Filter"] == re.findall(r"<button[^>]*>(.*?)</button>", html)


def test_inbox_for_me_leaves_out_what_the_person_may_not_decide() -> None:
    scenes = make_scenes()
    transfer = "Send €12,400.00 to Meridian Freight GmbH"
    for person, may in {"kim": True, "ines": False, "cfo": False}.items():
        client = client_of(scenes, person)
        assert may == (transfer in titles(page_of(client)))
        assert transfer in titles(page_of(client, "/inbox?for=all"))

    decider = Runner([], store=scenes.store, clock=scenes.clock)
    [wait] = [w for w in decider.open_waits() if w.run_id == "transfer"]
    decider.decide(wait.id, Approve(by="lee"))
    assert transfer not in titles(page_of(client_of(scenes, "lee")))
    html = page_of(client_of(scenes))
    assert transfer in titles(html)
    assert "1 of 2 votes" in html
    assert "1 of 2 votes" in page_of(client_of(scenes), "/inbox?for=all")


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("kind=question", 2),
        ("kind=unknown", 1),
        ("q=meridian", 1),
        ("q=MERIDIAN+send", 1),
        ("q=nothing-like-this", 0),
        ("q=clerk&kind=approval", 2),
    ],
)
def test_filter_leaves_the_rows_that_fit(query: str, count: int) -> None:
    html = page_of(client_of(make_scenes()), f"/inbox?{query}")
    assert count == len(titles(html))
    assert ("No wait fits this filter." in html) == (count == 0)


@pytest.mark.parametrize("query", ["for=kim", "kind=timer", "after=x"])
def test_unknown_filter_is_refused(query: str) -> None:
    response = asyncio.run(client_of(make_scenes()).get(f"/inbox?{query}"))
    assert 400 == response.status_code


def test_rows_of_runs_without_the_right_are_left_out() -> None:
    html = page_of(
        client_of(make_scenes(), can=only("view", "decide", runs=["laptop", "render"]))
    )
    assert ["Which laptop does Jane get?"] == titles(html)
    assert "1 event" not in html
    assert "1 outside job" in html


def test_empty_inbox_says_what_to_do() -> None:
    scenes = LinkScenes("http://agents.example")
    html = page_of(client_of(scenes))
    assert "Nothing waits for you" in html
    assert "Start a first run" in html
    scenes.calling("receipt", "receipt", claim="claim-7")
    html = page_of(client_of(scenes))
    assert "Nothing waits for you" in html
    assert "Some waits need no person" in html
    assert "Start a first run" not in html


def test_inbox_counts_and_lists_the_waits_for_models() -> None:
    scenes = LinkScenes("http://agents.example")
    limited = ModelError("status 429", retryable=True)
    agent = Agent("boss", model=ScriptedModel([limited]))
    runner = Runner(agent, store=scenes.store, clock=scenes.clock, model_retry_time=0)
    runner.start("go", run_id="m1")

    html = page_of(client_of(scenes))
    assert "Nothing waits for you" in html
    assert "Some waits need no person" in html
    assert "1 wait for a model" in html

    runner.start("go", run_id="m2")
    html = page_of(client_of(scenes))
    assert "2 waits for models" in html
    others = page_of(client_of(scenes), "/inbox/others")
    assert "Attempt 1 failed: status 429." in others
    assert 2 == len(re.findall(r'<h3><a href="/runs/m[12]">', others))

    can = only("view", runs=["m2"])
    html = page_of(client_of(scenes, can=can))
    assert "1 wait for a model" in html
    others = page_of(client_of(scenes, can=can), "/inbox/others")
    assert ["m2"] == titles(others)


def test_waits_that_need_no_person_are_listed_on_demand() -> None:
    html = page_of(client_of(make_scenes()), "/inbox/others")
    assert ["receipt", "render"] == sorted(titles(html))
    for words in ("Event", "Outside job", "2 waits"):
        assert words in html
    assert "delete" not in html


def test_hostile_texts_stay_texts() -> None:
    scenes = LinkScenes("http://agents.example")
    scenes.calling("x", "ask_name", of="<script>alert(1)</script>\u202e\x1b[2J")
    html = page_of(client_of(scenes))
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert "\\u202e" in html


def fill(count: int) -> MemoryStore:
    """Return a store with waits, as workers leave them."""
    store = MemoryStore()

    async def create() -> None:
        for number in range(1, count + 1):
            wait = make_wait(number, run_id=f"r{number}")
            await waits.create(Objects(store), [replace(wait)])

    asyncio.run(create())
    return store


def requests_of(watched: FaultyStore) -> dict[str, int]:
    """Return how many requests a store got, by verb, and forget them."""
    verbs = [operation.verb for operation in watched.operations]
    watched.operations.clear()
    return {verb: verbs.count(verb) for verb in set(verbs)}


def test_each_wait_is_read_once_in_a_process() -> None:
    """Later pages list keys alone: one page of keys for each 1,000 waits."""
    listings: dict[int, int] = {}
    for count in (100, 3_000):
        watched = FaultyStore(fill(count))
        client = ConsoleClient(AsyncRunner([], store=watched))
        assert PAGE_ROWS == len(titles(page_of(client)))
        assert count == requests_of(watched)["read"]

        assert PAGE_ROWS == len(titles(page_of(client)))
        # Also r770 to r779.
        found = titles(page_of(client, "/inbox?for=all&q=r77"))
        assert (1 if count == 100 else 11) == len(found)
        requests = requests_of(watched)
        assert {"keys"} == requests.keys()
        listings[count] = requests["keys"]
    assert listings[3_000] <= listings[100] + 2 * 3


def test_page_of_a_wait_reads_no_other_wait_for_its_neighbours() -> None:
    """Also if its filter leaves nearly every wait out."""
    watched = FaultyStore(fill(200))
    client = ConsoleClient(AsyncRunner([], store=watched))
    page_of(client)
    requests_of(watched)
    wait_id = f"approval-{make_ulid(7)}@r7"
    page = page_of(client, f"/waits/{wait_id}?for=all&q=r7")
    assert requests_of(watched)["read"] <= 10
    # A word of two characters is a whole word: r70 is left out.
    assert "1 of 1" in page


def test_pages_follow_each_other_and_have_each_wait_once() -> None:
    client = ConsoleClient(AsyncRunner([], store=fill(120)))
    found: list[str] = []
    html, path = "", "/inbox?for=all"
    while path:
        html = page_of(client, path)
        found += re.findall(r'data-wait="([^"]*)"', html)
        more = re.search(r'<a href="([^"]*)" rel="next">', html)
        path = "" if more is None else unescape(more[1])

    assert [f"approval-{make_ulid(n)}@r{n}" for n in range(1, 121)] == sorted(found)
    assert "101 to 120 of 120 waits" in html


def test_decided_page_tells_who_decided_what_and_how() -> None:
    scenes = make_scenes()
    decider = Runner([], store=scenes.store, clock=scenes.clock)
    by_run = {wait.run_id: wait for wait in decider.open_waits()}
    decider.decide(by_run["delete"].id, Deny(by="lee", reason="Bob is on holiday."))
    decider.decide(by_run["transfer"].id, Approve(by="kim"))
    decider.cancel("laptop", by="ruth")

    html = page_of(client_of(scenes), "/inbox/decided")

    texts = ("Denied", "lee", "Bob is on holiday.", "Voted to approve", "Cancelled")
    for text in (*texts, "ruth", "by the application"):
        assert text in html
    for effect in (
        "Run delete_account: bob, and 1 more argument",
        "Send €12,400.00 to Meridian Freight GmbH",
    ):
        assert f">{effect}</a>" in html
    assert "python" not in html
    assert f'href="/waits/{by_run["delete"].id}"' in html


def test_decided_page_has_the_newest_first_and_turns_pages() -> None:
    scenes = LinkScenes("http://agents.example")
    for number in range(PAGE_LINES + 3):
        wait = scenes.calling(f"r{number:02}", "ask_name", of="x")
        runner = Runner([], store=scenes.store, clock=scenes.clock)
        scenes.clock.offset_seconds += 60
        runner.decide(wait.id, Deny(by=f"person-{number:02}"))
    client, found, path = client_of(scenes), list[str](), "/inbox/decided"
    for expected in (PAGE_LINES, 3):
        html = page_of(client, path)
        shown = re.findall(r"<td>(person-\d+)", html)
        assert expected == len(shown)
        found += shown
        more = re.search(r'<a href="([^"]*)" rel="next">', html)
        path = unescape(more[1]) if more else ""
    assert path == ""
    assert found == [f"person-{n:02}" for n in reversed(range(PAGE_LINES + 3))]


def test_decided_page_filters_by_person_and_by_day() -> None:
    scenes = LinkScenes("http://agents.example")
    runner = Runner([], store=scenes.store, clock=scenes.clock)
    for name in ("kim", "lee", "kim"):
        wait = scenes.calling(f"r-{scenes.clock.offset_seconds}", "ask_name", of="x")
        runner.decide(wait.id, Deny(by=name))
        scenes.clock.offset_seconds += 86_400
    client = client_of(scenes)
    second = (scenes.clock.now() - timedelta(days=2)).date().isoformat()

    for query, names in {
        "by=kim": ["kim", "kim"],
        "by=KI": ["kim", "kim"],
        f"day={second}": ["lee"],
        f"day={second}&by=kim": [],
        "day=2001-01-01": [],
    }.items():
        html = page_of(client, f"/inbox/decided?{query}")
        assert names == re.findall(r"<td>(kim|lee)", html), query
        assert ("No decision fits the filter." in html) == (not names)
    for query in ("day=yesterday", "day=2026-13-01", "after=x", "verdict=deny"):
        response = asyncio.run(client.get(f"/inbox/decided?{query}"))
        assert 400 == response.status_code


def test_decided_page_without_a_line_says_how_far_it_looked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_MAX_RUNS_READ", "_PARALLEL_READS"):
        monkeypatch.setattr(f"continuations.serve.console.decided_page.{name}", 2)
    scenes = LinkScenes("http://agents.example")
    runner = Runner([], store=scenes.store, clock=scenes.clock)
    for name in ("ines", *["lee"] * 7):
        wait = scenes.calling(f"r-{scenes.clock.offset_seconds}", "ask_name", of="x")
        runner.decide(wait.id, Deny(by=name))
        scenes.clock.offset_seconds += 60
    client, path, pages = client_of(scenes), "/inbox/decided?by=ines", 0
    lines: list[str] = []
    while path:
        html = page_of(client, path)
        lines = re.findall(r"<td>(ines|lee)", html)
        more = re.search(r'href="([^"]*)" data-continue>Look further back', html)
        assert bool(lines) != bool(more)
        assert bool(more) == ("No such decision since" in html)
        assert 'rel="next"' not in html
        path = unescape(more[1]) if more else ""
        pages += 1
    assert (["ines"], True) == (lines, pages > 1)
    # A page that was read costs nothing, so the first one has it now.
    again = page_of(client, "/inbox/decided?by=ines")
    assert ["ines"] == re.findall(r"<td>(ines|lee)", again)


@pytest.mark.parametrize(
    ("left", "words"),
    [
        (timedelta(days=2, hours=11, minutes=5), "in 2 d 11 h"),
        (timedelta(days=4), "in 4 d"),
        (timedelta(hours=2, minutes=40), "in 2 h 40 min"),
        (timedelta(minutes=7), "in 7 min"),
        (timedelta(seconds=59), "in less than a minute"),
        (timedelta(seconds=-1), "the deadline has passed"),
    ],
)
def test_time_that_is_left_is_said_in_two_units(left: timedelta, words: str) -> None:
    assert words == left_text(left)


def test_store_whose_folder_has_gone_is_no_empty_inbox(tmp_path: Path) -> None:
    """A page that was seen is shown as it was; another one is an error."""
    client = folder_client(tmp_path)
    runner = client.runner
    asyncio.run(runner.store.create("waits/x", b""))
    assert 200 == asyncio.run(client.get("/inbox?for=all")).status_code
    (tmp_path / "runs").rename(tmp_path / "away")

    for _ in ("has gone", "is replaced by an empty folder"):
        seen = asyncio.run(client.get("/inbox?for=all"))
        assert "The store does not answer. This page is as it was" in seen.text
        for path in ("/inbox?for=all&kind=question", "/inbox", "/runs"):
            check_away(client, path)
        (tmp_path / "runs").mkdir(exist_ok=True)


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_new_process_shows_no_empty_inbox_for_a_missing_folder(
    scheme: str, tmp_path: Path
) -> None:
    client = folder_client(tmp_path, scheme)
    for path in ("/inbox", "/inbox?for=all", "/runs", "/runs/r1", "/drift"):
        check_away(client, path)
    assert not (tmp_path / "runs").exists()

    asyncio.run(client.runner.store.create("waits/x", b""))

    assert 200 == asyncio.run(client.get("/inbox?for=all")).status_code


def folder_client(folder: Path, scheme: str = "file") -> ConsoleClient:
    return ConsoleClient(AsyncRunner([], store=f"{scheme}:{folder}/runs"))


def check_away(client: ConsoleClient, path: str) -> None:
    response = asyncio.run(client.get(path))
    assert 503 == response.status_code, response.text
    assert "The log has the details under error id" in response.text
    assert "This page is as it was" not in response.text


def test_everybody_sees_the_votes_that_one_person_sees() -> None:
    """Both lists say the same of a wait with two votes."""
    scenes = LinkScenes("http://agents.example")
    wait = scenes.transfer_wait("voted")
    decider = Runner([], store=scenes.store, clock=scenes.clock)
    decider.decide(wait.id, Approve(by="ruth"))
    client = client_of(scenes)

    pages = [page_of(client, path) for path in ("/inbox", "/inbox?for=all")]

    assert [True, True] == ["1 of 2 votes" in page for page in pages]
    decider.decide(wait.id, Approve(by="lee"))
    assert wait.id not in page_of(client, "/inbox?for=all")
