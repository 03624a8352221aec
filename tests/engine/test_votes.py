"""Approval by several people: votes, groups, the requester, and edits."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from continuations import (
    Answer,
    Approve,
    Deny,
    Finished,
    Identity,
    Runner,
    Suspended,
)
from continuations.errors import AlreadyDecided, DecisionRefused
from continuations.results import Decision, Vote
from continuations_storage import MemoryStore, faults
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, make_pay, root_tool_results
from tests.outcomes import expect, only_wait
from tests.scripts import call

PAY: Any = {"go": [[call("pay", cents=5)], "end"]}


def make_runner(*, groups: Any = None, **policy: Any) -> Runner:
    """Return a runner whose tool `pay` has this approval policy."""
    clock = ManualClock()
    agent = make_boss(PAY, make_pay(**policy))
    store = MemoryStore(clock.now)
    return Runner(agent, store=store, clock=clock, groups=groups)


def wait_of(runner: Runner, **options: Any) -> str:
    """Start a run and return the id of its wait."""
    wait = only_wait(runner.start("go", run_id="r", **options))
    return wait.id


def test_call_runs_after_as_many_votes_as_it_needs() -> None:
    """One vote of two leaves the wait open; the second one makes the decision."""
    runner = make_runner(approvers=["kim", "lee", "max"], votes=2)
    wait = wait_of(runner)

    first = runner.decide(wait, Approve(by="kim"))
    between = runner.resume("r")
    shown = runner.wait(wait)
    second = runner.decide(wait, Approve(by="max"))
    end = runner.resume("r")

    assert isinstance(first, Vote)
    assert ("kim", 2, 1) == (first.by, first.votes_needed, first.still_needed)
    assert isinstance(between, Suspended)
    assert ("kim",) == tuple(vote.by for vote in shown.votes)
    assert ("kim", "lee", "max") == shown.approvers
    assert isinstance(second, Decision)
    assert ("max", ("kim", "max")) == (second.by, second.voters)
    assert isinstance(end, Finished)
    assert ["paid 5"] == list(root_tool_results(end))
    assert ["pay 5"] == effect_log.names()


def test_one_denial_ends_the_wait() -> None:
    """A denial after a vote for the call is the decision."""
    runner = make_runner(votes=3)
    wait = wait_of(runner)
    runner.decide(wait, Approve(by="kim"))

    denial = runner.decide(wait, Deny(by="lee", reason="no"))
    runner.resume("r")

    assert isinstance(denial, Decision)
    assert ("deny", "lee", ()) == (denial.kind, denial.by, denial.voters)
    assert [] == effect_log.names()
    with pytest.raises(AlreadyDecided, match="denied by lee"):
        runner.decide(wait, Approve(by="max"))


def test_first_vote_of_a_person_counts() -> None:
    """A repeat is the same vote; another approval of the same person is refused."""
    runner = make_runner(votes=2)
    wait = wait_of(runner)
    first = runner.decide(wait, Approve(by="kim"))

    assert first == runner.decide(wait, Approve(by="kim"))
    with pytest.raises(DecisionRefused, match="first vote of a person counts"):
        runner.decide(wait, Approve(by="kim", arguments={"cents": 4}))
    assert 1 == len(runner.wait(wait).votes)


def test_approvers_who_disagree_about_an_edit_can_deny() -> None:
    """All have voted and no arguments have two votes: one of them ends the wait."""
    runner = make_runner(approvers=["kim", "lee"], votes=2)
    wait = wait_of(runner)
    runner.decide(wait, Approve(by="kim"))
    runner.decide(wait, Approve(by="lee", arguments={"cents": 4}))

    denial = expect(runner.decide(wait, Deny(by="kim")), Decision)

    assert ("deny", "kim", ()) == (denial.kind, denial.by, denial.voters)
    assert isinstance(runner.resume("r"), Finished)
    assert [] == effect_log.names()


def test_a_voter_who_repeats_after_the_end_gets_the_decision() -> None:
    """Each of the voters may repeat the vote; another verdict is an error."""
    runner = make_runner(votes=2)
    wait = wait_of(runner)
    runner.decide(wait, Approve(by="kim"))
    decision = runner.decide(wait, Approve(by="lee"))

    assert decision == runner.decide(wait, Approve(by="kim"))
    assert decision == runner.decide(wait, Approve(by="lee"))
    with pytest.raises(AlreadyDecided, match="approved by kim, lee"):
        runner.decide(wait, Deny(by="kim"))


def test_votes_for_different_edits_do_not_add_up() -> None:
    """Two persons must agree on the arguments, and the original ones are an edit."""
    runner = make_runner(votes=2)
    wait = wait_of(runner)

    runner.decide(wait, Approve(by="kim"))
    other = runner.decide(wait, Approve(by="lee", arguments={"cents": 4}))
    same = runner.decide(wait, Approve(by="max", arguments={"cents": 5}))
    runner.resume("r")

    assert isinstance(other, Vote)
    assert 1 == other.still_needed
    assert isinstance(same, Decision)
    assert ("kim", "max") == same.voters
    assert ["pay 5"] == effect_log.names()


def test_answers_are_votes_for_their_value() -> None:
    """Two equal answers respond in place of the call."""
    runner = make_runner(votes=2)
    wait = wait_of(runner)
    runner.decide(wait, Answer("done", by="kim"))
    assert isinstance(runner.decide(wait, Answer("later", by="lee")), Vote)

    runner.decide(wait, Answer("done", by="max"))
    end = runner.resume("r")

    [result] = root_tool_results(end)
    assert result.endswith("done")


def test_only_approvers_decide() -> None:
    """A stranger, and a verdict without a name, are refused; nothing is recorded."""
    runner = make_runner(approvers=["kim"])
    wait = wait_of(runner)

    for by, why in (
        ("eve", "eve is not one of its approvers"),
        (None, "needs the name"),
    ):
        with pytest.raises(DecisionRefused, match=why):
            runner.decide(wait, Approve(by=by))
        with pytest.raises(DecisionRefused, match=why):
            runner.decide(wait, Deny(by=by))

    assert isinstance(runner.decide(wait, Approve(by="kim")), Decision)


def test_groups_are_resolved_when_a_vote_is_cast() -> None:
    """The application's function says who belongs to a group, and it is recorded."""
    members = {"kim": ["finance", "all"], "eve": ["all"]}
    asked: list[str] = []

    async def groups(name: str) -> list[str]:
        asked.append(name)
        return members.get(name, [])

    runner = make_runner(approvers=["group:finance", "max"], groups=groups)
    wait = wait_of(runner)

    with pytest.raises(DecisionRefused, match="eve is not one of its approvers"):
        runner.decide(wait, Approve(by="eve"))
    decision = runner.decide(wait, Approve(by="kim"))

    assert ("all", "finance") == decision.groups
    assert ["eve", "kim"] == asked


def test_a_person_who_is_named_needs_no_group() -> None:
    """A runner without a groups function decides for approvers by name."""
    runner = make_runner(approvers=["group:finance", "max"])
    wait = wait_of(runner)

    with pytest.raises(DecisionRefused, match=r"Runner\(groups="):
        runner.decide(wait, Approve(by="kim"))
    assert isinstance(runner.decide(wait, Approve(by="max")), Decision)


def test_the_groups_of_an_identity_count() -> None:
    """A door that verified the groups passes them with the name."""
    runner = make_runner(approvers=["group:finance"])
    wait = wait_of(runner)

    decision = runner.decide(wait, Approve(by=Identity("kim", groups=["finance"])))

    assert ("finance",) == decision.groups


@pytest.mark.parametrize("requester", ["jane", None])
def test_the_requester_does_not_decide(requester: str | None) -> None:
    """If the requester is not known, each person might be the requester."""
    runner = make_runner(not_requester=True)
    wait = wait_of(runner, by=requester)

    why = "jane requested the run" if requester else "the requester is not known"
    with pytest.raises(DecisionRefused, match=why):
        runner.decide(wait, Approve(by="jane"))
    if requester:
        assert isinstance(runner.decide(wait, Approve(by="kim")), Decision)


def test_unknown_outcome_is_decided_by_the_same_persons(clock: ManualClock) -> None:
    """A wait about a call that several persons approved takes their votes, too.

    The rule is that of the call: it holds although the tool has another policy now.
    """
    store = MemoryStore(clock.now)
    agent = make_boss(PAY, make_pay(approvers=["kim", "lee"], votes=2))
    runner = Runner(agent, store=store, clock=clock)
    wait = wait_of(runner)
    for name in ("kim", "lee"):
        runner.decide(wait, Approve(by=name))
    dies = faults.on("create", faults.crashed("before"), prefix="runs/r/v/", skip=1)
    with suppress(faults.Crash):
        Runner(agent, store=faults.FaultyStore(store, dies), clock=clock).resume("r")
    assert ["pay 5"] == effect_log.names()
    clock.seconds += 60
    changed = Runner(make_boss(PAY, make_pay()), store=store, clock=clock)

    unknown = only_wait(changed.resume("r"))

    assert ("unknown", ("kim", "lee"), 2) == (
        unknown.kind,
        unknown.approvers,
        unknown.votes_needed,
    )
    with pytest.raises(DecisionRefused, match="eve is not one of its approvers"):
        changed.decide(unknown.id, Answer("paid 5", by="eve"))
    assert isinstance(changed.decide(unknown.id, Answer("paid 5", by="kim")), Vote)
    assert isinstance(changed.decide(unknown.id, Answer("paid 5", by="lee")), Decision)
    end = expect(changed.resume("r"), Finished)
    assert ["paid 5"] == list(root_tool_results(end))
    assert ["pay 5"] == effect_log.names()
