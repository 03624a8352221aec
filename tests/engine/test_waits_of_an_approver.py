"""`waiting(approver=...)` lists the waits that one person may decide."""

from __future__ import annotations

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
from continuations.errors import DecisionRefused, InvalidInput
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage.contract import Page
from tests.clocks import OffsetClock
from tests.outcomes import expect
from tests.stores import OneByOneStore

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
    """Return the groups of a person."""
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
