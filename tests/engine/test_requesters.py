"""Everybody who asked for a call is its requester, and may not decide it."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    Decision,
    DecisionRefused,
    Runner,
    Suspended,
    Wait,
    tool,
)
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore
from tests import effect_log

pytestmark = pytest.mark.usefixtures("environment")


def make_agent(turns: int = 2, **policy: Any) -> Agent[Any]:
    """Return an agent that pays some times; its policy excludes the requester."""

    @tool(approval=ApprovalPolicy(not_requester=True, **policy))
    def pay(cents: int) -> str:
        """Pay an amount."""
        effect_log.append_effect("pay", cents)
        return f"paid {cents}"

    calls = [ToolCall("pay", {"cents": number}) for number in range(1, turns + 1)]
    return Agent("accounts", tools=[pay], model=ScriptedModel([*calls, "Done."]))


def wait_of(outcome: object) -> Wait:
    """Return the only wait of a suspended run."""
    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    return wait


# Plain runs -------------------------------------------------------------------


def run_with_message_of(sender: str | None) -> tuple[Runner, Wait]:
    """Return a run of ann whose second call follows from a message."""
    runner = Runner(make_agent(), store=MemoryStore())
    first = wait_of(runner.start("Pay", run_id="r1", by="ann"))
    runner.decide(first.id, Approve(by="kim"))
    runner.send("r1", "Pay more", by=sender)
    return runner, wait_of(runner.resume("r1"))


@pytest.mark.parametrize("name", ["ann", "bob"])
def test_sender_of_a_message_may_not_approve_the_call_that_follows(
    name: str,
) -> None:
    """The starter of a run and the sender of its message asked for the call."""
    runner, wait = run_with_message_of("bob")

    with pytest.raises(DecisionRefused, match=f"{name} requested"):
        runner.decide(wait.id, Approve(by=name))

    assert [] == [each.id for each in runner.waiting(approver=name)]
    assert isinstance(runner.decide(wait.id, Approve(by="kim")), Decision)


def test_message_of_an_unknown_sender_excludes_everybody() -> None:
    """Each person might have sent the message."""
    runner, wait = run_with_message_of(None)

    with pytest.raises(DecisionRefused, match="the requester is not known"):
        runner.decide(wait.id, Approve(by="kim"))


def test_message_of_the_starter_adds_no_requester() -> None:
    """One person who starts a run and sends to it is one requester."""
    runner, wait = run_with_message_of("ann")

    assert isinstance(runner.decide(wait.id, Approve(by="bob")), Decision)
    assert () == runner.look("r1").run_state.run.requesters
