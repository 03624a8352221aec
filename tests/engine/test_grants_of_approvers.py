"""Grants of tools whose policy says who may approve."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    Finished,
    Grant,
    Runner,
    tool,
)
from continuations.errors import DecisionRefused
from continuations.results import Decision
from continuations_storage import MemoryStore, faults
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.engine.payment_agent import single_wait
from tests.scripts import call

TWICE: Any = {"go": [[call("pay", cents=5)], [call("pay", cents=7)], "end"]}
BY_KIM = Approve(by="kim", remember=Grant("pay"))


def make_agent(**policy: Any) -> Agent:
    """Return an agent that pays twice."""

    @tool(approval=ApprovalPolicy(**policy))
    def pay(cents: int) -> str:
        """Pay an amount."""
        effect_log.append_effect("pay", cents)
        return f"paid {cents}"

    return make_boss(TWICE, pay)


def test_a_grant_of_an_approver_covers_later_calls() -> None:
    agent = make_agent(approvers=["kim"], not_requester=True)
    runner = Runner(agent, store="memory:")
    wait = single_wait(runner.start("go", run_id="r", by="jane"))
    runner.decide(wait.id, BY_KIM)

    assert isinstance(runner.resume("r"), Finished)
    assert ["pay 5", "pay 7"] == effect_log.names()


@pytest.mark.parametrize(
    "policy", [{"votes": 2}, {"not_requester": True}, {"approvers": ["lee"]}]
)
def test_a_grant_ends_when_the_policy_asks_other_persons(
    policy: dict[str, Any], store: MemoryStore
) -> None:
    """One person gave it under a policy that any person could decide."""
    first = Runner(make_agent(), store=store)
    first.decide(single_wait(first.start("go", run_id="r")).id, BY_KIM)

    held = single_wait(Runner(make_agent(**policy), store=store).resume("r"))

    assert {"cents": 7} == held.arguments
    assert ["pay 5"] == effect_log.names()


def test_unknown_outcome_of_a_granted_call_is_decided_by_the_approvers() -> None:
    """A grant started the call, so no wait of the call had the approvers before."""
    agent = make_agent(approvers=["kim"])
    runner, skip = Runner(agent, store="memory:"), 0
    # The worker dies at the first version after the second payment.
    while effect_log.names()[-1:] != ["pay 7"]:
        clock = ManualClock()
        store = MemoryStore(clock.now)
        runner = Runner(agent, store=store, clock=clock)
        runner.decide(single_wait(runner.start("go", run_id="r")).id, BY_KIM)
        crash = faults.crashed("before")
        dies = faults.on("create", crash, prefix="runs/r/v/", skip=skip)
        dying = Runner(agent, store=faults.FaultyStore(store, dies), clock=clock)
        with suppress(faults.Crash):
            dying.resume("r")
        clock.seconds += 60
        skip += 1

    unknown = single_wait(runner.resume("r"))

    assert ("unknown", {"cents": 7}) == (unknown.kind, unknown.arguments)
    assert ("kim",) == unknown.approvers
    with pytest.raises(DecisionRefused, match="eve is not one of its approvers"):
        runner.decide(unknown.id, Answer("paid 7", by="eve"))
    assert isinstance(runner.decide(unknown.id, Answer("paid 7", by="kim")), Decision)
