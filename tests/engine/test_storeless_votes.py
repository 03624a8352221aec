"""Votes and escalation without a store: the caller keeps the continuation."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Deny,
    Finished,
    Identity,
    Suspended,
    Wait,
    escalate,
    resume,
    run,
    tool,
)
from continuations.errors import DecisionRefused, InvalidInput
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.outcomes import expect
from tests.scripts import call

DAY = timedelta(days=1)


def make_agent(**policy: Any) -> Agent:
    """Return an agent whose tool `pay` has this approval policy."""

    @tool(approval=ApprovalPolicy(**policy))
    def pay(cents: int) -> str:
        """Pay an amount."""
        effect_log.append_effect("pay", cents)
        return f"paid {cents}"

    return make_boss({"go": [[call("pay", cents=5)], "end"]}, pay)


def suspend(agent: Agent, clock: ManualClock | None = None) -> tuple[bytes, Wait]:
    """Run an agent until it waits; return its bytes and its wait."""
    outcome = expect(run(agent, "go", clock=clock), Suspended)
    return outcome.continuation.to_bytes(), outcome.waits[0]


def test_votes_are_a_list_of_verdicts() -> None:
    """Two verdicts make the decision, also by a member of a group."""
    agent = make_agent(approvers=["kim", "group:finance"], votes=2)
    data, wait = suspend(agent)
    lee = Identity("lee", groups=["finance"])

    end = resume(data, agent, answers={wait.id: [Approve(by="kim"), Approve(by=lee)]})

    assert isinstance(end, Finished)
    assert ["pay 5"] == effect_log.names()


@pytest.mark.parametrize(
    ("verdicts", "why"),
    [
        (Approve(by="kim"), "1 of the 2 votes"),
        ([Approve(by="kim")], "1 of the 2 votes"),
        ([Approve(by="kim"), Approve(by="kim")], "kim has voted already"),
        ([Approve(by="kim"), Approve(by="eve")], "eve is not one of its approvers"),
        ([Deny(by="kim"), Approve(by="lee")], "verdict 1 of its list of 2 ended it"),
        ([], "0 of the 2 votes"),
    ],
)
def test_list_that_makes_no_decision_is_refused(verdicts: Any, why: str) -> None:
    """Nothing runs, because a list of votes is not kept."""
    agent = make_agent(approvers=["kim", "lee"], votes=2)
    data, wait = suspend(agent)

    with pytest.raises(DecisionRefused, match=why):
        resume(data, agent, answers={wait.id: verdicts})

    assert [] == effect_log.names()


def test_escalation_changes_the_approvers(clock: ManualClock) -> None:
    """After the deadline the wait has the next approvers under the same id."""
    action = escalate(to=["cfo"], within=DAY)
    agent = make_agent(approvers=["kim"], within=DAY, on_deadline=action)
    data, wait = suspend(agent, clock)
    clock.seconds += DAY.total_seconds() + 1

    late = expect(resume(data, agent, clock=clock), Suspended)

    [escalated] = late.waits
    assert (wait.id, ("cfo",)) == (escalated.id, escalated.approvers)
    data = late.continuation.to_bytes()
    with pytest.raises(DecisionRefused, match="kim is not one of its approvers"):
        resume(data, agent, answers={wait.id: Approve(by="kim")}, clock=clock)
    end = resume(data, agent, answers={wait.id: Approve(by="cfo")}, clock=clock)
    assert isinstance(end, Finished)
    assert ["pay 5"] == effect_log.names()


class _TickingClock(ManualClock):
    """A clock that moves on by a second each time it is read."""

    def now(self) -> datetime:
        """Return the time, and move on."""
        self.seconds += 1
        return super().now()


def test_deadline_that_passes_during_a_resume_escalates() -> None:
    """The deadline lies between two readings of the clock."""
    action = escalate(to=["cfo"], within=DAY)
    agent = make_agent(approvers=["kim"], within=DAY, on_deadline=action)
    opened = ManualClock()
    data, wait = suspend(agent, opened)

    for seconds in range(-4, 2):
        clock = _TickingClock(opened.seconds + DAY.total_seconds() + seconds)
        outcome = expect(resume(data, agent, clock=clock), Suspended)
        assert wait.id == outcome.waits[0].id

    assert [] == effect_log.names()


def test_decision_in_the_moment_of_the_deadline_counts_or_comes_too_late() -> None:
    """The deadline lies between two readings of the clock; one of them counts."""
    action = escalate(to=["cfo"], within=DAY)
    agent = make_agent(approvers=["kim"], within=DAY, on_deadline=action)
    opened = ManualClock()
    data, wait = suspend(agent, opened)
    answers = {wait.id: Approve(by="kim")}
    results: list[str] = []

    for seconds in range(-4, 2):
        clock = _TickingClock(opened.seconds + DAY.total_seconds() + seconds)
        try:
            outcome = resume(data, agent, answers=answers, clock=clock)
        except DecisionRefused:
            results.append("escalated")
        else:
            assert isinstance(outcome, Finished)
            results.append("approved")

    assert {"approved", "escalated"} == set(results)
    assert results.count("approved") == len(effect_log.names())


@pytest.mark.parametrize("requester", ["jane", Identity("jane")])
def test_the_requester_does_not_decide(requester: Any) -> None:
    """The continuation keeps the requester, so another person can decide."""
    agent = make_agent(not_requester=True)
    outcome = expect(run(agent, "go", by=requester), Suspended)
    data, wait = outcome.continuation.to_bytes(), outcome.waits[0]

    with pytest.raises(DecisionRefused, match="jane requested the run"):
        resume(data, agent, answers={wait.id: Approve(by="jane")})
    expect(resume(data, agent, answers={wait.id: Approve(by="kim")}), Finished)

    assert ["pay 5"] == effect_log.names()


def test_an_invalid_requester_starts_nothing() -> None:
    by: Any = 7

    with pytest.raises(InvalidInput, match="by must be one line"):
        run(make_agent(), "go", by=by)
