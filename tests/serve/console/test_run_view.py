"""The page of a run: its tree, log, calls and past, as a person on call reads them."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from html import unescape
from typing import Annotated, Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Runner,
    ask,
    escalate,
    tool,
)
from continuations.ledger.objects import Objects
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import Money, ToolWait
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore, Operation
from tests.clocks import ManualClock
from tests.sampling import RUNS_ALL_CASES
from tests.serve.console.console_client import ConsoleClient, console_of
from tests.serve.console.test_run_pages import post, show, text_of
from tests.serve.pages.html_forms import PageForms
from tests.serve.pages.invoice_run import RUN, InvoiceRun
from tests.serve.pages.work_run import CountedModel, WorkRun
from tests.serve.rights import only

TWO_VOTES = ApprovalPolicy(votes=2)


@tool(read_only=True)
def find_invoice(invoice: str) -> str:
    """Find an invoice."""
    return f"{invoice} is due"


@tool(approval=TWO_VOTES, summary="Send {cents} from {source} to {to}")
def transfer(
    source: str, to: str, cents: Annotated[int, Money("EUR", 100)], invoice: str
) -> str:
    """Send money."""
    return f"sent {cents} from {source} to {to} for {invoice}"


PAY = {"source": "Operations", "to": "Kim", "cents": 1_240_000, "invoice": "INV-1"}
IN_ORDER = "source: Operations, to: Kim, cents: €12,400.00, invoice: INV-1"


class Payment:
    """A run `pay` that finds an invoice and asks for two votes.

    Attributes:
        clock: The clock of all processes.
        runner: A runner of its agents.
        client: A console of another process.
    """

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        store = MemoryStore()
        script: list[Any] = [
            [ToolCall("find_invoice", {"invoice": "INV-1"})],
            [ToolCall("transfer", PAY)],
            "The bank took it.",
        ]
        banking = Agent(
            "banking", tools=[find_invoice, transfer], model=ScriptedModel(script)
        )
        boss = Agent(
            "boss",
            tools=[banking],
            model=ScriptedModel([ToolCall("banking", {"input": "pay"}), "Paid."]),
        )
        self.runner = Runner(boss, store=store, clock=self.clock)
        self.runner.start("Pay INV-1", run_id="pay", by="ines")
        reader = AsyncRunner([], store=store, clock=self.clock)
        self.client = ConsoleClient(reader, {"clock": self.clock, **options})

    def vote(self, name: str, verdict: type[Approve | Deny] = Approve) -> None:
        """Cast a vote, a minute later."""
        self.clock.seconds += 60
        [wait] = self.runner.waiting()
        self.runner.decide(wait.id, verdict(by=name))

    def show(self, query: str = "") -> str:
        """Return the text of a page of the run."""
        [text] = show(self.client, f"/runs/pay{query}")
        return text

    def html(self, query: str = "") -> str:
        """Return a page of the run."""
        return unescape(asyncio.run(self.client.get(f"/runs/pay{query}")).text)


# The tree and the selected call ----------------------------------------------------


def test_call_that_waits_is_selected_with_its_arguments_as_people_read_them() -> None:
    """In the order of the declaration, and amounts with their readings."""
    page = Payment().show()

    card = page[page.index("transfer Open the wait") :]
    arguments = "source Operations to Kim cents €12,400.00 1240000 invoice INV-1"
    assert (
        f"Effect Send €12,400.00 from Operations to Kim Arguments {arguments}" in card
    )
    assert "Evidence INV-1 is due find_invoice" in card


def test_evidence_of_the_selected_call_links_to_its_call() -> None:
    payment = Payment()
    [found] = re.findall(r"<dt>Evidence</dt><dd>(.*?)</dd>", payment.html(), re.DOTALL)

    [(address, name)] = re.findall(r'<a href="([^"]+)#call">(\w+)</a>', found)

    assert "find_invoice" == name
    [page] = show(payment.client, address)
    assert "Result INV-1 is due" in page


def test_call_that_waits_or_failed_is_unfolded_among_a_hundred_others() -> None:
    run = WorkRun(100, fails=True)
    run.start()
    client = console_of(run)

    page = asyncio.run(client.get("/runs/work")).text

    names = re.findall(r'#call"[^>]*>(\w+)</a>', page[: page.index("</table>")])
    assert (["audit", "transfer"], 16) == (names[-2:], len(names))
    assert re.search(r'aria-current="true">transfer</a>', page)
    [more] = re.findall(r'<a class="fold" href="([^"]+)">86 more', page)
    opened = asyncio.run(client.get(unescape(more).partition("#")[0])).text
    assert ">A-0</span>" not in page
    assert ">A-50</span>" in opened


def test_run_that_ended_selects_the_call_that_failed() -> None:
    run = WorkRun(1, fails=True)
    run.start()
    [wait] = run.runner.waiting()
    run.runner.decide(wait.id, Deny(by="kim"))
    run.runner.resume("work")
    client = console_of(run)

    [page] = show(client, "/runs/work")

    assert "audit State failed" in page


def test_each_turn_of_a_model_is_a_bar_with_its_tokens_and_cost() -> None:
    run = WorkRun(3)
    run.start()
    client = console_of(run)

    page = asyncio.run(client.get("/runs/work?call=f1")).text

    tree = page[: page.index("</table>")]
    titles = re.findall(r'<rect class="model"[^>]*><title>([^<]*)</title>', tree)
    turn = "1.2 s, 1,100 tokens, 0.004 USD"
    assert [f"Turn {number}, {turn}" for number in range(1, 6)] == titles
    assert '<td class="c4">5,500</td>' in tree
    card = page[page.index("Model turns") :]
    assert 5 == card[: card.index("</dd>")].count(f": {turn}</li>")
    for words in ("agent open", "model replies", "tool runs", "waits"):
        assert f"</svg>{words}</span>" in page


def test_tokens_of_replies_in_one_version_are_shared() -> None:
    """A version has one usage, which does not say how much each agent used."""
    clock, store = ManualClock(), MemoryStore()

    def reply(request: Any) -> Any:
        turn = sum(each.role == "assistant" for each in request.messages)
        if request.agent == "boss" and turn == 0:
            return [ToolCall("clerk", {"input": each}) for each in ("A", "B")]
        return "done"

    model = CountedModel(reply, clock)
    clerk = Agent("clerk", model=model)
    runner = Runner(Agent("boss", tools=[clerk], model=model), store=store, clock=clock)
    runner.start("go", run_id="r")
    client = ConsoleClient(AsyncRunner([], store=store, clock=clock))

    page = unescape(asyncio.run(client.get("/runs/r")).text)

    shared = re.findall(r"<title>(Turn 1, [^<]*for 2 replies at once)</title>", page)
    assert 2 == len(shared)
    assert 2 == page.count('<td class="c4">≤ 2,200</td>')


# The log ---------------------------------------------------------------------------


def entries(page: str) -> list[str]:
    """Return the entries of the log of a page as texts."""
    log = page[page.index('<ol class="log">') :]
    found = re.split(r"\n<li>", log[: log.rindex("</ol>")])
    return [" ".join(re.sub(r"<[^>]+>", " ", each).split()) for each in found[1:]]


def test_log_has_seconds_lengths_and_one_entry_for_each_call() -> None:
    run = WorkRun(1)
    run.start()
    client = console_of(run)

    found = entries(unescape(asyncio.run(client.get("/runs/work?view=log")).text))

    [ship] = [each for each in found if "ship ended" in each]
    assert ship.startswith("00:00:01 +1.6 s ship ended after 400 ms: A-0 is on its way")
    assert "3 events" in ship
    steps = ["shipper asks for ship", "ship started", "00:00:01 +400 ms ship ended"]
    places = [ship.find(each) for each in steps]
    assert -1 not in places
    assert sorted(places) == places
    assert 1 == sum("ship " in each for each in found)


def test_log_names_each_person_who_voted_and_each_vote_once() -> None:
    payment = Payment()
    payment.vote("jo")

    one = payment.show()

    assert "00:01:00 +1 min 00 s jo approved transfer (1 of 2 votes)" in one
    payment.vote("lee")
    payment.runner.resume("pay")
    both = payment.show("?view=log")
    assert 1 == both.count("jo approved transfer (1 of 2 votes)")
    assert 1 == both.count("lee approved transfer")
    assert "lee approved transfer (2 of 2 votes)" in both
    assert both.index("lee approved") < both.index("jo approved")


def test_denial_is_in_the_log_with_its_person() -> None:
    payment = Payment()
    payment.vote("jo")
    payment.vote("lee", Deny)

    assert "lee denied transfer" in payment.show()


def test_older_version_shows_the_votes_until_then() -> None:
    payment = Payment()
    suspended = payment.runner.look("pay").version
    payment.vote("jo")
    payment.vote("lee")
    payment.clock.seconds += 60
    payment.runner.resume("pay")
    newest = payment.runner.look("pay").version

    old, late = (
        payment.show(f"?version={suspended}"),
        payment.show(f"?version={newest}"),
    )

    assert "jo approved" not in old
    assert "lee approved transfer" in late


def test_page_says_once_that_nothing_is_paid_for() -> None:
    assert 1 == Payment().show().count("paid for")


def test_log_of_five_hundred_events_has_pages_and_a_view_of_its_own() -> None:
    run = WorkRun(100)
    run.start()
    client = console_of(run)

    first = unescape(asyncio.run(client.get("/runs/work")).text)
    page = unescape(asyncio.run(client.get("/runs/work?view=log")).text)

    assert 'href="/runs/work?view=log">Whole log</a>' in first
    assert '<section class="card" aria-label="Tree' not in page
    seen: list[str] = []
    while True:
        seen += entries(page)
        older = re.findall(r'href="(/runs/work\?view=log&before=[^"]+)">Older', page)
        if not older:
            break
        page = unescape(asyncio.run(client.get(older[0])).text)
    shipped = [each for each in seen if "ship ended" in each]
    assert 99 == len(shipped)
    assert len(seen) == len(set(seen))


@pytest.mark.parametrize("query", ["?view=events", "?view=log&version=x"])
def test_forged_view_is_refused(query: str) -> None:
    answer = asyncio.run(Payment().client.get(f"/runs/pay{query}"))
    assert 400 == answer.status_code


def test_escalation_is_in_the_log() -> None:
    clock = ManualClock()
    policy = ApprovalPolicy(
        approvers=["jo"],
        within=timedelta(hours=1),
        on_deadline=escalate(to=["lee"], within=timedelta(hours=1)),
    )

    @tool(approval=policy)
    def pay(cents: int) -> str:
        """Pay."""
        return str(cents)

    call = ToolCall("pay", {"cents": 5})
    agent = Agent("boss", tools=[pay], model=ScriptedModel([call, "done"]))
    store = MemoryStore(clock.now)
    runner = Runner(agent, store=store, clock=clock)
    runner.start("go", run_id="r")
    clock.seconds += 3601
    runner.sweep()
    client = ConsoleClient(AsyncRunner([], store=store, clock=clock))

    [page] = show(client, "/runs/r")

    assert "The deadline of pay passed: other people are asked" in page


def test_only_known_numbers_of_votes_are_shown() -> None:
    """A page reads the votes of some waits; of the other ones it says no number."""
    calls = [ToolCall("transfer", {**PAY, "invoice": f"I-{n}"}) for n in range(30)]
    clock, store = ManualClock(), MemoryStore()
    agent = Agent("boss", tools=[transfer], model=ScriptedModel([calls, "done"]))
    runner = Runner(agent, store=store, clock=clock)
    runner.start("go", run_id="r")
    for wait in runner.waiting():
        runner.decide(wait.id, Approve(by="jo"))
    client = ConsoleClient(AsyncRunner([], store=store, clock=clock))

    [page] = show(client, "/runs/r?rows=0")

    tree = page[: page.index("What happened")]
    assert "0 of 2 votes" not in tree
    assert 20 <= tree.count("1 of 2 votes") <= 42


def test_damaged_vote_does_not_close_the_page() -> None:
    payment = Payment()
    payment.vote("jo")

    async def damage() -> None:
        objects = Objects(payment.client.runner.store)
        keys = [key async for key in objects.all_keys("runs/pay/")]
        [vote] = [key for key in keys if "/f-" in key]
        await objects.delete(vote)
        await objects.create(vote, b"no vote")

    asyncio.run(damage())

    page = payment.show()

    assert "jo approved" not in page
    assert "transfer waits for approval" in page
    assert "of 2 votes" not in page  # how many there are is not known


# Older versions --------------------------------------------------------------------


def test_older_version_is_as_it_was_at_its_own_time() -> None:
    """Its worker had the claim then: it was not interrupted, and is not gone."""
    payment = Payment()
    payment.clock.seconds += 24 * 3600

    page = payment.show("?version=3")

    assert "Interrupted" not in page
    assert "interrupted" not in page
    assert "gone" not in page
    assert "A worker worked on it." in page
    assert "banking pay running" in page


def test_newest_version_whose_worker_is_gone_still_says_so() -> None:
    run = InvoiceRun.suspended()
    run.clock.seconds += 60
    newest = run.runner.look(RUN).version
    client = console_of(run)

    [old] = show(client, f"/runs/{RUN}?version={newest - 1}")

    assert "Its worker is gone" not in old
    assert "A worker worked on it." in old


def test_versions_and_differences_are_sentences_with_amounts() -> None:
    payment = Payment()
    payment.vote("jo")
    payment.vote("lee")
    payment.runner.resume("pay")
    newest = payment.runner.look("pay").version

    versions, difference = (
        payment.show("/versions"),
        payment.show(f"/versions?from=1&to={newest}"),
    )

    assert f"banking asks for transfer : {IN_ORDER}" in versions.replace("“", "")
    assert "lee approved transfer" in versions
    assert "added Result for boss : The bank took it." in difference
    for page in (versions, difference):
        assert '{"' not in page
        assert "boss/banking" not in page
    html = payment.html("/versions")
    assert f'name="from" min="1" max="{newest}" value="{newest - 1}"' in html


def test_difference_of_a_call_that_waits_has_its_arguments_in_order() -> None:
    payment = Payment()
    waiting = payment.runner.look("pay").version

    difference = payment.show(f"/versions?from={waiting - 1}&to={waiting}")

    assert f"added transfer waits: {IN_ORDER}" in difference
    assert "Send €12,400.00 from Operations to Kim" in difference


# Acts --------------------------------------------------------------------------------


def test_more_has_cancel_and_erase_only_and_tabs_have_the_rest() -> None:
    payment = Payment()

    acts = payment.show("/actions")

    assert "Cancel… " in acts
    assert "Erase… " in acts
    for words in ("Transcripts", "Versions", "Pause", "Resume", "Fork"):
        assert words not in acts
    for path, tab in (
        ("", "Run"),
        ("?view=log", "Log"),
        ("/messages", "Transcripts"),
        ("/versions", "Versions"),
    ):
        page = payment.html(path)
        tabs = page[page.index('<nav class="tabs"') :]
        current = re.findall(
            r'aria-current="page">(\w+)</a>', tabs[: tabs.index("</nav")]
        )
        assert [tab] == current


def test_person_who_may_end_nothing_is_not_offered_more() -> None:
    assert "More…" not in Payment(can=only("view")).show()


def test_person_without_the_right_to_read_sees_no_text_in_tree_log_or_versions() -> (
    None
):
    payment = Payment(can=only("view"))
    payment.vote("jo")

    # Evidence is shown to everybody who sees the wait.
    for path in ("?call=f1", "?view=log", "/versions", "/versions?from=1&to=4"):
        page = payment.show(path)
        assert "INV-1 is due" not in page
        assert "[not shown]" in page
    assert "jo approved transfer" in payment.show()


def test_fork_form_has_a_field_for_each_choice() -> None:
    payment = Payment()
    page = payment.show("/fork")
    arguments = "source Operations to Kim cents €12,400.00 1240000 invoice INV-1"
    assert arguments in page
    [wait] = payment.runner.waiting()
    form = {
        "version": str(payment.runner.look("pay").version),
        "run_id": "denied",
        f"verdict-{wait.id}": "deny",
        f"reason-{wait.id}": "not this month",
        f"answer-{wait.id}": "this text is not for a denial",
    }

    assert 303 == post(payment.client, "/runs/pay/fork", **form).status_code

    payment.runner.resume("denied")
    [page] = show(payment.client, "/runs/denied?view=log")
    assert "not this month" in page
    assert "not for a denial" not in page


@pytest.mark.parametrize(
    ("answer", "why"),
    [("0.10000000000000000001", "more digits than a float keeps"), ("1,", "JSON")],
)
def test_answer_for_a_fork_is_recorded_as_it_was_written(answer: str, why: str) -> None:
    """A number that would be rounded is refused, as on the page of the wait."""

    @tool
    def weigh() -> ToolWait[float]:
        """Weigh the parcel."""
        return ask("How heavy is it?", answer_type=float)

    model = ScriptedModel([ToolCall("weigh", {}), "ok"])
    runner = Runner(Agent("shop", tools=[weigh], model=model), store=MemoryStore())
    runner.start("go", run_id="r")
    [wait] = runner.waiting()
    version = str(runner.look("r").version)
    form = {"version": version, "run_id": "f", f"verdict-{wait.id}": "answer"}
    client = ConsoleClient(runner.async_runner)

    refused = post(client, "/runs/r/fork", **form, **{f"answer-{wait.id}": answer})

    assert (400, True) == (refused.status_code, why in text_of(refused))
    accepted = post(client, "/runs/r/fork", **form, **{f"answer-{wait.id}": "0.1"})
    assert 303 == accepted.status_code


def test_remembered_call_has_its_choices_in_the_declared_order() -> None:
    @tool(approval=True)
    def refund(order: str, cents: Annotated[int, Money("EUR", 100)]) -> str:
        """Refund."""
        return f"{order} {cents}"

    call = ToolCall("refund", {"order": "A-17", "cents": 1250})
    runner = Runner(
        Agent("shop", tools=[refund], model=ScriptedModel([call, "ok"])),
        store=MemoryStore(),
    )
    runner.start("go", run_id="r")
    [wait] = runner.waiting()
    client = ConsoleClient(runner.async_runner)

    page = asyncio.run(client.get(f"/waits/{wait.id}/remember"))
    edit = asyncio.run(client.get(f"/waits/{wait.id}/edit"))

    text = text_of(page)
    assert text.index("order of a later call") < text.index("cents of a later call")
    form = PageForms(edit.text).forms["edit"]
    changed = {**form, "value:number:/cents": "125000000"}
    review = text_of(post(client, f"/waits/{wait.id}/edit", **changed))
    assert "€1,250,000.00 125000000 changed, was €12.50 (1250)" in review


# Costs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("orders", "at_once", "events"),
    [(100, 1, 505), *([(1000, 10, 4052)] if RUNS_ALL_CASES else [])],
)
def test_page_of_many_events_is_light(orders: int, at_once: int, events: int) -> None:
    """It reads a window of versions once, and shows a short tree and log."""
    run = WorkRun(orders, at_once=at_once)
    run.start()
    operations: list[Operation] = []
    store = FaultyStore(run.store, operations.append)
    client = ConsoleClient(AsyncRunner([], store=store, clock=run.clock))
    asyncio.run(client.get("/inbox"))
    operations.clear()

    page = asyncio.run(client.get("/runs/work"))

    assert len(list(run.runner.history("work"))) > 200
    assert sum(len(each.events) for each in run.runner.history("work")) >= events
    # A read for each version of the window; two listings find the place of the run.
    assert 206 == len(operations)
    assert len(page.content) < 60_000
