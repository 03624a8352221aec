"""The pages about runs: what they show, and what their forms do."""

from __future__ import annotations

import asyncio
import re
from html import unescape
from typing import Any

import httpx
import pytest

from continuations import Agent, Approve, AsyncRunner, Grant, Runner, tool
from continuations.attachments import File
from continuations.errors import ModelError
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests.clocks import ManualClock
from tests.ledger.damage import all_objects
from tests.serve.console.console_client import ConsoleClient, console_of
from tests.serve.pages.invoice_run import RUN, TITLE, InvoiceRun
from tests.serve.rights import all_but, only

HOSTILE = "<script>alert(1)</script>\u202e\x1b[2J"


@tool(approval=True, summary="Send {cents:money/100 EUR} to {to}")
def transfer(to: str, cents: int) -> str:
    """Send money."""
    return f"sent {cents} to {to}"


def text_of(page: httpx.Response) -> str:
    """Return the text of a page, with single spaces."""
    body = page.text[page.text.index("<main") :]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def invoices() -> tuple[InvoiceRun, ConsoleClient]:
    """Return the run that waits for two votes, and a console of another process."""
    run = InvoiceRun.interrupted()
    return run, console_of(run)


def show(client: ConsoleClient, *paths: str) -> list[str]:
    """Return the texts of some pages."""

    async def read() -> list[str]:
        pages = [await client.get(path) for path in paths]
        assert [200] * len(pages) == [each.status_code for each in pages]
        return [text_of(each) for each in pages]

    return asyncio.run(read())


def post(client: ConsoleClient, path: str, **form: str) -> httpx.Response:
    """Send a form, and return the response."""
    return asyncio.run(client.post(path, form))


# Looking ---------------------------------------------------------------------------


def test_run_page_has_the_order_of_its_parts() -> None:
    """Title, state, facts, what it waits for, tree, log, selected call."""
    _, client = invoices()

    [page] = show(client, f"/runs/{RUN}?call=c16")

    parts = [
        f"Runs {RUN} {TITLE} Unknown outcome",
        "asked for by Ines Albrecht, today 09:02",
        "Waits for approval, 1 of 2 votes: Send €12,400.00 to Meridian Freight",
        "Did transfer take effect? Send €3,182.40 to Kettenwerk",
        "Nothing runs; nothing is paid for.",
        "Agents and calls State",
        "level 1: back-office",
        "level 3: transfer Send €12,400.00 to Meridian Freight 1 of 2 votes",
        "transfer Open the wait State 1 of 2 votes",
        "Effect Send €12,400.00 to Meridian Freight",
        "to Meridian Freight cents €12,400.00 1240000",
        "Path back-office",
        "What happened newest first",
        "The worker was gone: its claim was over.",
        "Worker 2 claimed the run, version",
    ]
    places = [page.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert sorted(places) == places


def test_evidence_of_a_waiting_call_links_to_its_calls() -> None:
    _, client = invoices()
    page = asyncio.run(client.get(f"/runs/{RUN}?call=c16")).text

    [found] = re.findall(r"<dt>Evidence</dt><dd>(.*?)</dd>", page, re.DOTALL)

    assert "Meridian Freight matches purchase order 4471" in found
    [(address, name)] = re.findall(r'<a href="([^"]+)#call">(\w+)</a>', found)
    assert "match_order" == name
    [call] = show(client, unescape(address))
    assert "Result Meridian Freight matches purchase order 4471" in call


def test_pages_name_their_icon() -> None:
    """The address of the icon has its hash; the browser asks for no other one."""
    client = ConsoleClient()
    page = asyncio.run(client.get("/inbox")).text
    [address] = re.findall(
        r'<link rel="icon" type="image/svg\+xml" href="([^"]+)"', page
    )
    icon = asyncio.run(client.get(address, x_person=None))
    assert (200, "image/svg+xml") == (icon.status_code, icon.headers["content-type"])
    assert "immutable" in icon.headers["cache-control"]
    assert icon.text.startswith("<svg ")


def test_older_version_is_read_only_and_says_so() -> None:
    run, client = invoices()
    newest = run.new_runner().look(RUN).version

    [page] = show(client, f"/runs/{RUN}?version=8")

    assert f"Version 8 of {newest}, read only." in page
    assert "Pause" not in page
    assert "Kettenwerk unknown" not in page
    missing = asyncio.run(client.get(f"/runs/{RUN}?version=12"))
    assert 404 == missing.status_code


def test_pages_about_a_run_show_its_messages_and_versions() -> None:
    _, client = invoices()

    transcript, versions, difference = show(
        client,
        f"/runs/{RUN}/messages",
        f"/runs/{RUN}/versions",
        f"/runs/{RUN}/versions?from=8&to=11",
    )

    assert f"Input message 1 {TITLE}" in transcript
    assert "Result of read_mailbox message 3 3 invoices in invoices" in transcript
    assert "calls payables , payables" in transcript
    assert versions.index("Version 11") < versions.index("Version 1 today")
    assert "From version 8 to version 11" in difference
    assert "Ines Albrecht answered ask_ines" in difference


def test_listing_filters_and_turns_pages() -> None:
    store, clock = MemoryStore(), ManualClock()
    agent = Agent("boss", model=ScriptedModel(["ok"]))
    runner = Runner(agent, store=store, clock=clock)
    for number in range(30):
        clock.seconds += 1
        team = "a" if number % 2 else "b"
        runner.start("go", run_id=f"r{number:02}", labels={"team": team})
    client = ConsoleClient(AsyncRunner([], store=store))

    first, labelled, none = show(
        client, "/runs", "/runs?label=team%3Da", "/runs?agent=nobody"
    )

    assert 25 == first.count(" boss team=")
    assert "1 to 25 of 30 runs" in first
    # The newest first.
    assert first.index("r29") < first.index("r28") < first.index("r05")
    assert "Next page" in first
    assert 15 == labelled.count(" boss team=")
    assert "Next page" not in labelled
    assert "No run fits the filters." in none
    page = asyncio.run(client.get("/runs"))
    found = re.search(r'href="(/runs\?[^"]*)" rel="next"', page.text)
    assert found is not None
    [second] = show(client, unescape(found[1]))
    assert 5 == second.count(" boss team=")
    assert "26 to 30 of 30 runs" in second
    assert "Next page" not in second


def test_hostile_texts_do_not_forge_a_page() -> None:
    store = MemoryStore()
    replies: list[Any] = [[ToolCall("transfer", {"to": HOSTILE, "cents": 1})]]
    agent = Agent("boss", tools=[transfer], model=ScriptedModel(replies))
    Runner(agent, store=store).start(HOSTILE, run_id="r1", by="eve<b>")
    client = ConsoleClient(AsyncRunner([], store=store))

    async def check() -> None:
        for part in ("", "?call=c2", "/messages", "/versions", "/cancel", "/actions"):
            page = await client.get(f"/runs/r1{part}")
            assert 200 == page.status_code
            assert "<script>alert" not in page.text
            assert "\u202e" not in page.text
            assert "\x1b" not in page.text
        assert r"\u202e" in (await client.get("/runs/r1")).text

    asyncio.run(check())


# Acts ------------------------------------------------------------------------------


def test_forms_pause_and_cancel_the_run_with_the_name_of_the_person() -> None:
    run, client = invoices()

    paused = post(client, f"/runs/{RUN}/pause")
    assert (303, f"/runs/{RUN}") == (paused.status_code, paused.headers["location"])
    [page] = show(client, f"/runs/{RUN}")
    assert f"{TITLE} Paused" in page
    assert "End the pause" in page
    assert 303 == post(client, f"/runs/{RUN}/unpause").status_code

    [question] = show(client, f"/runs/{RUN}/cancel")
    assert f"Cancel the run: {TITLE}?" in question
    assert "suspended" == run.runner.look(RUN).status
    post(client, f"/runs/{RUN}/cancel", reason="wrong month")
    assert "cancelled" == run.runner.look(RUN).status
    [page] = show(client, f"/runs/{RUN}")
    assert "wrong month" in page
    assert {"kim"} == {line.by for line in run.runner.audit(RUN) if line.wait is None}


def test_message_reaches_the_run() -> None:
    _, client = invoices()

    sent = post(client, f"/runs/{RUN}/messages", text="Hurry up")
    empty = post(client, f"/runs/{RUN}/messages", text="  ")

    assert (303, 400) == (sent.status_code, empty.status_code)


def test_texts_of_forms_have_the_line_ends_of_texts() -> None:
    """A browser posts each line end as two characters; no reader sees the first."""
    run, client = invoices()

    post(client, f"/runs/{RUN}/messages", text="Hurry up:\r\nit is late")
    post(client, f"/runs/{RUN}/cancel", reason="wrong\r\nmonth")

    assert "wrong\nmonth" in {line.reason for line in run.runner.audit(RUN)}
    stored = asyncio.run(all_objects(run.store)).values()
    assert any(b"Hurry up:\\nit is late" in body for body in stored)


def test_messages_that_the_run_has_not_read_are_in_its_log() -> None:
    """With their files, above the events; they are no part of an older version."""
    run, client = invoices()
    bill = File(b"%PDF-1.7", "application/pdf", name="bill.pdf")
    run.runner.send(RUN, "Wait for Ines.", by="lee")
    run.runner.send(RUN, ["Here is the bill.", bill], by="kim")

    newest, old = show(client, f"/runs/{RUN}", f"/runs/{RUN}?version=3")

    words = "sent a message, which the run has not read yet"
    first, second = newest.find(f"kim {words}"), newest.find(f"lee {words}")
    assert 0 < first < second < newest.find("waits for a decision")
    assert "Here is the bill." in newest[first:second]
    assert "bill.pdf" in newest[first:second]
    assert "Wait for Ines." in newest[second:]
    assert words not in old


def test_erase_needs_the_typed_id() -> None:
    run, client = invoices()

    wrong = post(client, f"/runs/{RUN}/erase", typed="invoices")
    assert 'role="alert" tabindex="-1" autofocus>' in wrong.text
    assert (400, True) == (wrong.status_code, "not the id" in wrong.text)
    assert "suspended" == run.runner.look(RUN).status

    assert 303 == post(client, f"/runs/{RUN}/erase", typed=RUN).status_code
    assert 410 == asyncio.run(client.get(f"/runs/{RUN}")).status_code


ACTS = {
    "pause": "cancel",
    "unpause": "cancel",
    "cancel": "cancel",
    "erase": "erase",
    "resume": "message",
    "reopen": "message",
    "wake": "message",
    "messages": "message",
    "grants": "decide",
    "fork": "fork",
    "rewind": "fork",
}


@pytest.mark.parametrize("path", ACTS)
def test_each_act_needs_its_right(path: str) -> None:
    run, client = invoices()
    refused = ACTS[path]

    limited = ConsoleClient(client.runner, {"can": all_but(refused)})
    before = run.runner.look(RUN).version

    answer = post(limited, f"/runs/{RUN}/{path}", text="x", typed=RUN, grant="g")

    assert 403 == answer.status_code
    assert before == run.runner.look(RUN).version


def test_person_without_the_right_to_view_sees_no_run() -> None:
    _, client = invoices()

    blind = ConsoleClient(client.runner, {"can": only()})

    async def check() -> None:
        for part in ("", "/messages", "/versions", "/actions"):
            assert 403 == (await blind.get(f"/runs/{RUN}{part}")).status_code
        assert TITLE not in (await blind.get("/runs")).text

    asyncio.run(check())


def test_fork_page_reruns_a_version_with_another_answer() -> None:
    """Version 8 waited for Ines: in the fork she says no, and the run is unchanged."""
    run, client = invoices()
    before = run.runner.look(RUN)

    [page] = show(client, f"/runs/{RUN}/fork?version=8")
    assert "Fork version 8" in page
    assert "€214 more than ordered: pay it?" in page
    assert "to Meridian Freight cents €12,400.00 1240000" in page
    [question] = [
        wait.id
        for wait in run.runner.look(RUN, version=8).waits
        if wait.kind == "question"
    ]
    form = {
        "version": "8",
        "run_id": "another-answer",
        f"verdict-{question}": "answer",
        f"answer-{question}": "do not pay it",
    }
    for _ in range(2):
        made = post(client, f"/runs/{RUN}/fork", **form)
        assert (303, "/runs/another-answer") == (
            made.status_code,
            made.headers["location"],
        )

    run.new_runner().resume("another-answer")
    [fork] = show(client, "/runs/another-answer")
    assert "do not pay it" in fork
    assert f"fork of {RUN}, version 8" in fork
    assert before == run.runner.look(RUN)


def test_fork_page_offers_no_approval() -> None:
    """A call is approved on the page of its wait, with all arguments in sight."""
    _, client = invoices()
    run = asyncio.run(client.runner.look(RUN, version=8))
    approval = next(wait.id for wait in run.waits if wait.kind == "approval")
    form = {"version": "8", "run_id": "f1", f"verdict-{approval}": "approve"}

    assert 400 == post(client, f"/runs/{RUN}/fork", **form).status_code
    assert 404 == asyncio.run(client.get("/runs/f1")).status_code


# Threads and grants ------------------------------------------------------------------


def support(store: MemoryStore) -> Runner:
    """Return a runner whose thread replies, and asks before it sends money."""

    def reply(request: Any) -> Any:
        last = request.messages[-1]
        if last.role == "user" and "refund" in last.content:
            return [ToolCall("transfer", {"to": "customer 42", "cents": 900})]
        return f"You wrote:\n{last.content}"

    agent = Agent("support", tools=[transfer], model=ScriptedModel(reply))
    return Runner(agent, store=store, clock=ManualClock())


def test_thread_is_a_chat_with_its_waits_as_cards() -> None:
    store = MemoryStore()
    thread = support(store).thread("support", key="customer 42")
    thread.send("Where is my parcel?", by="customer-42")
    thread.send("I want a refund", by="customer-42")
    run = thread.look()
    assert run is not None
    client = ConsoleClient(AsyncRunner([], store=store))

    listed, page = show(client, "/threads", f"/threads/{run.run_id}")

    assert "customer 42" in listed
    parts = [
        "customer-42 (person) wrote Thu 1 Jan 2026, 00:00 UTC Where is my parcel?",
        "support (agent) wrote Thu 1 Jan 2026, 00:00 UTC You wrote: Where is",
        "I want a refund",
        "Send €9.00 to customer 42 Decide : Send €9.00 to customer 42",
        "The agent waits: your message is read after its present reply.",
    ]
    places = [page.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert sorted(places) == places


def test_message_form_of_a_thread_posts_once() -> None:
    store = MemoryStore()
    runner = support(store)
    runner.thread("support", key="k").send("hello", by="customer")
    client = ConsoleClient(runner.async_runner)
    thread = runner.thread("support", key="k").look()
    assert thread is not None
    path = f"/threads/{thread.run_id}"

    for _ in range(2):
        sent = post(client, path, text="second", id="form-1")
        assert (303, path) == (sent.status_code, sent.headers["location"])
    runner.sweep()

    [page] = show(client, path)
    assert 1 == page.count("You wrote: second")
    assert "kim (person) wrote Thu 1 Jan 2026" in page


def test_grant_is_listed_and_revoked() -> None:
    store = MemoryStore()
    pay = ToolCall("transfer", {"to": "Kim", "cents": 500})
    agent = Agent("boss", tools=[transfer], model=ScriptedModel([[pay], [pay], [pay]]))
    runner = Runner(agent, store=store)
    runner.start("go", run_id="r1")
    [wait] = runner.waiting()
    runner.decide(wait.id, Approve(by="ruth", remember=Grant("transfer")))
    client = ConsoleClient(AsyncRunner([], store=store))

    [before] = show(client, "/grants")
    [grant] = runner.grants("r1")
    revoked = post(client, "/runs/r1/grants", grant=grant.id)
    [after] = show(client, "/grants")

    assert "Remembered transfer boss > transfer" in before
    assert "given by ruth" in before
    assert (303, "/grants") == (revoked.status_code, revoked.headers["location"])
    assert "Revoke transfer" not in after
    assert "Revoked transfer" in after or "No live run has a grant." in after


# Addresses and forms that no page makes ----------------------------------------------


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"/runs/{RUN}?version=first", "must be a number"),
        (f"/runs/{RUN}/messages?frame=f99", "no open agent with this id"),
        (f"/runs/{RUN}/cancel?call=c99", "no open call with this id"),
        ("/runs?sort=newest", "may have q, status, agent, label, time, order, after"),
        ("/runs?order=newest", "must be one of started"),
        ("/runs?time=soon", "must be one of started-1h"),
        ("/runs?status=tired", "must be one of live"),
        ("/runs?label=red", "must be NAME=VALUE"),
        ("/runs?after=9", "is not complete"),
    ],
)
def test_forged_address_is_refused_with_its_reason(path: str, words: str) -> None:
    _, client = invoices()

    answer = asyncio.run(client.get(path))

    assert (400, True) == (answer.status_code, words in answer.text)


@pytest.mark.parametrize(
    ("path", "form", "words"),
    [
        (f"/runs/{RUN}/cancel", {"reason": "x" * 5000}, "shorten it"),
        (f"/threads/{RUN}", {"text": "hello", "id": "1"}, "not a thread"),
        (f"/threads/{RUN}", {"text": " ", "id": "1"}, "message is empty"),
    ],
)
def test_forged_form_changes_nothing(
    path: str, form: dict[str, str], words: str
) -> None:
    run, client = invoices()
    before = run.runner.look(RUN)

    answer = post(client, path, **form)

    assert (400, True) == (answer.status_code, words in answer.text)
    assert before == run.runner.look(RUN)


def test_page_of_a_run_that_waits_for_its_model_says_why_and_what_to_do() -> None:
    limited = ModelError("x.example returned status 429.", retryable=True)
    agent = Agent("planner", model=ScriptedModel([limited]))
    runner = AsyncRunner(agent, store="memory:", model_retry_time=0)
    asyncio.run(runner.start("go", run_id="r"))
    client = ConsoleClient(runner)

    page = unescape(asyncio.run(client.get("/runs/r")).text)

    assert "Waits for its model until" in page
    assert "Attempt 1 failed: x.example returned status 429." in page
    assert "The next attempt comes by itself, or with “Ask the model now”." in page
    assert '<form method="post" action="/runs/r/wake">' in page


def test_page_of_a_run_says_why_its_model_gave_no_usable_reply() -> None:
    deep: Any = []
    for _ in range(900):
        deep = [deep]
    model = ScriptedModel([ToolCall("plan", {"steps": deep})])
    runner = AsyncRunner(Agent("planner", model=model), store="memory:")
    with pytest.raises(ModelError):
        asyncio.run(runner.start("go", run_id="r"))

    page = asyncio.run(ConsoleClient(runner).get("/runs/r")).text

    assert "The model of agent planner gave no usable reply" in page
    assert "nested deeper than 200 levels" in page
