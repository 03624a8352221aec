"""`decide(shown=...)`: a decision counts only for the wait that the person saw."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import Agent, Approve, Deny, Runner, tool
from continuations.errors import DecisionRefused
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay a person."""
    return f"paid {cents}"


def runner_with_two_waits() -> tuple[Runner, list[str]]:
    """Return a runner with two open approvals, and their ids."""
    calls = [ToolCall("pay", {"cents": 5}), ToolCall("pay", {"cents": 900})]
    model = ScriptedModel([calls, "done"])
    runner = Runner(Agent("clerk", tools=[pay], model=model), store=MemoryStore())
    runner.start("Pay Jane", run_id="jane-1")
    return runner, [wait.id for wait in runner.waiting()]


def test_decision_with_the_digest_of_its_wait_records_it() -> None:
    runner, [wait_id, _] = runner_with_two_waits()
    digest = runner.wait(wait_id).digest

    decision = runner.decide(wait_id, Approve(by="kim"), shown=digest)
    again = runner.decide(wait_id, Approve(by="kim"))

    assert digest == decision.shown == again.shown == decision.digest


def test_decision_with_the_digest_of_another_wait_is_refused() -> None:
    """A page that shows one call cannot decide the other one."""
    runner, [small, large] = runner_with_two_waits()
    seen = runner.wait(small).digest

    with pytest.raises(DecisionRefused, match="you saw something else"):
        runner.decide(large, Approve(by="kim"), shown=seen)

    assert 2 == len(list(runner.waiting()))
    runner.decide(large, Deny(by="kim"), shown=runner.wait(large).digest)


def test_repeat_with_another_digest_is_refused_too() -> None:
    runner, [wait_id, other] = runner_with_two_waits()
    runner.decide(wait_id, Approve(by="kim"))

    with pytest.raises(DecisionRefused):
        runner.decide(wait_id, Approve(by="kim"), shown=runner.wait(other).digest)


@pytest.mark.parametrize("shown", ["", "0" * 64, 5, b"digest", True])
def test_shown_of_another_value_is_refused(shown: Any) -> None:
    runner, [wait_id, _] = runner_with_two_waits()

    with pytest.raises(DecisionRefused):
        runner.decide(wait_id, Approve(by="kim"), shown=shown)
