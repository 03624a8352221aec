"""The list for people: the next deadlines first, read in parallel, and by approver."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Identity,
    Runner,
    Suspended,
    ask,
    escalate,
    tool,
    wait_for,
)
from continuations.core.ulid import encode_ulid
from continuations.errors import DecisionRefused, InvalidInput
from continuations.ledger import layout
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore, Store
from continuations_storage.contract import Page
from continuations_storage.faults import FaultyStore
from tests.clocks import ManualClock, OffsetClock
from tests.engine.agent_builders import make_boss, text_tool
from tests.outcomes import expect
from tests.scripts import Script
from tests.stores import OneByOneStore

SCRIPT: Script = {
    "soon": [[("pay_soon", {"what": "a"})], "end"],
    "later": [[("pay_later", {"what": "b"})], "end"],
    "any": [[("pay", {"what": "c"})], "end"],
}

pay = text_tool("pay", "{what}", {"what": str}, approval=True)


@tool(approval=ApprovalPolicy(expires_after=timedelta(hours=1)))
def pay_soon(what: str) -> str:
    """Pay soon."""
    return what


@tool(approval=ApprovalPolicy(expires_after=timedelta(days=3)))
def pay_later(what: str) -> str:
    """Pay later."""
    return what


def make_runner(store: Store, clock: ManualClock) -> Runner:
    """Return a runner whose waits have several deadlines."""
    agent = make_boss(SCRIPT, pay, pay_soon, pay_later)
    return Runner(agent, store=store, clock=clock)


def start_six(store: Store, clock: ManualClock) -> Runner:
    runner = make_runner(store, clock)
    for number, task in enumerate(["any", "later", "soon", "any", "soon", "later"]):
        runner.start(task, run_id=f"r{number}")
        clock.seconds += 60
    return runner


def test_next_deadlines_come_first_then_the_oldest_waits(clock: ManualClock) -> None:
    runner = start_six(MemoryStore(clock.now), clock)

    page = runner.worklist()

    rows = [(row.wait.run_id, row.wait.tool, row.expired) for row in page.waits]
    assert [
        ("r2", "pay_soon", False),
        ("r4", "pay_soon", False),
        ("r1", "pay_later", False),
        ("r5", "pay_later", False),
        ("r0", "pay", False),
        ("r3", "pay", False),
    ] == rows
    assert page.next is None
    assert {"what": "a"} == page.waits[0].wait.arguments


def test_expired_wait_is_marked(clock: ManualClock) -> None:
    runner = start_six(MemoryStore(clock.now), clock)
    clock.seconds = 3600 + 150

    expired = [row.wait.run_id for row in runner.worklist().waits if row.expired]

    assert ["r2"] == expired


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_pages_have_each_wait_once_and_no_decided_one(limit: int) -> None:
    clock = ManualClock()
    runner = start_six(MemoryStore(clock.now), clock)
    everything = [row.wait.run_id for row in runner.worklist().waits]
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = runner.worklist(after=after, limit=limit)
        found += [row.wait.run_id for row in page.waits]
        if not found[limit:]:
            # The first wait of the next page is decided while a person reads.
            decided = runner.worklist(after=page.next or "", limit=1).waits[0].wait
            runner.decide(decided.id, Approve(by="kim"))
            everything.remove(decided.run_id)
        after = page.next
    assert everything == found


def test_ten_thousand_waits_of_mixed_kinds_need_at_most_11_listings() -> None:
    """The page reads its 100 waits, and nothing else."""
    clock = ManualClock()
    inner = MemoryStore(clock.now)
    start_six(inner, clock)
    counts = {"approval": 4994, "question": 1500, "unknown": 1000, "external": 2500}

    async def fill() -> None:
        for kind, count in counts.items():
            for number in range(count):
                ulid = encode_ulid(10**12, number.to_bytes(10, "big"))
                key = layout.build_wait_id(kind, ulid, f"x{number}")
                await inner.create(f"waits/{key}", b"")
        for number in range(3000):
            ulid = encode_ulid(10**12, number.to_bytes(10, "big"))
            due = 10**12 * 2 + number
            await inner.create(f"markers/{due}-e-{ulid}-abcdefgh@x{number}", b"")

    asyncio.run(fill())
    watched = FaultyStore(inner)

    page = make_runner(watched, clock).worklist(limit=4)

    assert ["r2", "r4", "r1", "r5"] == [row.wait.run_id for row in page.waits]
    verbs = [operation.verb for operation in watched.operations]
    assert verbs.count("keys") <= 11
    assert 4 == verbs.count("read")


@pytest.mark.parametrize(
    "options", [{"limit": 0}, {"limit": 1001}, {"limit": "5"}, {"after": "r1"}]
)
def test_invalid_page_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        make_runner(MemoryStore(), ManualClock()).worklist(**options)


# The waits of one person ------------------------------------------------------


HOUR = timedelta(hours=1)
POLICIES: dict[str, ApprovalPolicy] = {
    "anyone": ApprovalPolicy(),
    "for_kim": ApprovalPolicy(approvers=["kim"]),
    "for_finance": ApprovalPolicy(approvers=["group:finance"]),
    "not_jane": ApprovalPolicy(not_requester=True),
    "by_two": ApprovalPolicy(approvers=["kim", "lee", "max"], votes=2),
    "kim_then_cfo": ApprovalPolicy(
        approvers=["kim"], within=HOUR, on_deadline=escalate(to=["cfo"], within=HOUR)
    ),
    "soon_over": ApprovalPolicy(approvers=["kim"], within=HOUR),
}


def make_tools() -> list[Any]:
    """Return a tool for each policy, a question and a wait for an event."""

    def act() -> str:
        """Act."""
        return "done"

    def question() -> Any:
        """Ask; the manager is asked after an hour."""
        return ask("Which?", within=HOUR, on_deadline=escalate(to=["cfo"], within=HOUR))

    def event() -> Any:
        """Wait for an event."""
        return wait_for("paid")

    acts = [tool(act, name=name, approval=policy) for name, policy in POLICIES.items()]
    return [*acts, tool(question), tool(event)]


class Office:
    """Runs that wait for each tool, and the waits that a person may decide."""

    def __init__(self, *, groups: Any = None, by: str | None = "jane") -> None:
        self.store, self.clock = CountingStore(), OffsetClock()
        tools = make_tools()
        model = ScriptedModel([[ToolCall(each.name, {}) for each in tools], "done"])
        agent = Agent("boss", tools=tools, model=model)
        self.runner = Runner(agent, store=self.store, clock=self.clock, groups=groups)
        outcome = expect(self.runner.start("go", run_id="r", by=by), Suspended)
        self.ids = {wait.tool: wait.id for wait in outcome.waits}

    def names(self, approver: Any, **options: Any) -> set[str]:
        """Return the tools whose calls a person may decide."""
        listed = self.runner.waiting(approver=approver, **options)
        ids = {summary.id for summary in listed}
        return {name for name, wait_id in self.ids.items() if wait_id in ids}


class CountingStore(OneByOneStore):
    """Counts listings."""

    def __init__(self) -> None:
        super().__init__()
        self.listings = 0

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        self.listings += 1
        return Page(await super().keys(prefix, after, limit))


def finance_of_lee(name: str) -> list[str]:
    return ["finance"] if name == "lee" else []


def test_list_is_what_decide_accepts() -> None:
    """For each person and wait: listed exactly if a decision is not refused."""
    for person in ("kim", "lee", "max", "jane", "eve", "cfo"):
        office = Office(groups=finance_of_lee)
        listed = office.names(person)
        accepted: set[str] = set()
        for name, wait_id in office.ids.items():
            if name == "event":
                continue
            try:
                office.runner.decide(wait_id, Deny(by=person))
            except DecisionRefused:
                continue
            accepted.add(name)
        assert accepted == listed, person


def test_person_who_voted_is_not_asked_again_and_others_are() -> None:
    office = Office(groups=finance_of_lee)
    office.runner.decide(office.ids["by_two"], Approve(by="kim"))

    assert "by_two" not in office.names("kim")
    assert "by_two" in office.names("lee")
    office.runner.decide(office.ids["by_two"], Approve(by="lee"))
    assert "by_two" not in office.names("max")


def test_escalation_moves_a_wait_to_the_next_approver() -> None:
    """Between the deadline and the sweep, no decision is accepted, so none is asked."""
    office = Office(groups=finance_of_lee)
    assert {"kim_then_cfo", "question", "soon_over"} <= office.names("kim")
    assert {"kim_then_cfo", "soon_over"}.isdisjoint(office.names("cfo"))

    office.clock.offset_seconds = 3601
    assert {"kim_then_cfo", "question"}.isdisjoint(office.names("kim"))
    office.runner.sweep()

    assert {"kim_then_cfo", "question"}.isdisjoint(office.names("kim"))
    assert {"kim_then_cfo", "question"} <= office.names("cfo")
    assert "soon_over" not in office.names("cfo")


def test_unknown_requester_hides_waits_that_exclude_the_requester() -> None:
    assert "not_jane" not in Office(by=None).names("kim")


def test_groups_come_from_the_identity_or_the_function() -> None:
    asked: list[str] = []

    async def groups(name: str) -> list[str]:
        asked.append(name)
        return finance_of_lee(name)

    # Without a function, only the groups of an Identity are known
    assert "for_finance" not in Office().names("lee")
    assert "for_finance" in Office().names(Identity("ann", ["finance"]))
    # With a function, a person is looked up once for the whole list
    office = Office(groups=groups)
    office.runner.start("go", run_id="r2", by="jane")
    assert "for_finance" in office.names("lee")
    assert ["lee"] == asked


def test_kinds_that_no_person_is_asked_about_are_listed_on_request() -> None:
    """A timer accepts no decision, and an event accepts its data from each person."""
    office = Office()
    assert {"event"} == office.names("eve", kinds=["event", "timer", "operator"])
    assert {"question"} == office.names("eve", kinds=["question"])
    assert set() == office.names("eve", kinds=["timer", "model"])


def test_listing_costs_no_more_listings_than_that_of_all_waits() -> None:
    office = Office(groups=finance_of_lee)
    for number in range(60):
        office.runner.start("go", run_id=f"r{number}", by="jane")
    office.runner.decide(office.ids["by_two"], Approve(by="kim"))
    office.store.listings = 0
    everything = list(office.runner.waiting())
    of_all, office.store.listings = office.store.listings, 0

    listed = list(office.runner.waiting(approver="kim"))

    assert of_all == office.store.listings
    assert 61 * len(POLICIES) + 61 == len(everything)
    # All but those for finance, and the one with kim's vote.
    assert 61 * len(POLICIES) - 1 == len(listed)
    after = list(office.runner.waiting(approver="kim", after=listed[99].id))
    assert listed[100:] == after


@pytest.mark.parametrize("approver", ["", 7, "x" * 256])
def test_invalid_approver_raises_before_anything_is_listed(approver: Any) -> None:
    runner = AsyncRunner([], store="memory:")

    with pytest.raises(InvalidInput, match="approver must be the name of a person"):
        runner.waiting(approver=approver)
