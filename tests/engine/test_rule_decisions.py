"""Policies that decide themselves: the decision is recorded with the rule's name."""

from __future__ import annotations

from typing import Any

import pytest

from continuations import (
    Answer,
    ApprovalPolicy,
    Approve,
    Deny,
    Failed,
    Finished,
    run,
    tool,
)
from continuations.errors import AlreadyDecided, WaitNotFound
from continuations.tools import Tool
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore, on, refused
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.engine.payment_agent import single_wait
from tests.engine.test_grants import make_runner, turns
from tests.outcomes import expect


def small_payments(cents: int) -> bool | Approve | Deny:
    """Approve small payments, deny large ones, and ask about the others."""
    if cents < 10:
        return Approve(reason="below the limit")
    return Deny(reason="too much") if cents > 100 else True


def make_pay(**options: Any) -> Tool[..., Any]:
    """Return a tool with the rule."""
    options.setdefault("when", small_payments)

    @tool(approval=ApprovalPolicy(**options))
    def pay(cents: int) -> str:
        """Pay."""
        effect_log.append_effect("pay", str(cents))
        return f"paid {cents}"

    return pay


def test_a_rule_approves_and_denies_at_once() -> None:
    """No person is asked, and the audit names the rule."""
    runner = make_runner(turns(5, 500), make_pay(), clock=ManualClock())

    last = expect(runner.start("go", run_id="r"), Finished)

    assert ["pay 5"] == effect_log.names()
    paid, denied = root_tool_results(last)
    assert "paid 5" == paid
    assert denied.startswith("DENIED: a rule refused this call.")
    assert "too much" in denied
    lines = {line.verdict: line for line in runner.audit("r")}
    assert {"approve", "deny"} == lines.keys()
    assert ["rule"] * 2 == [line.door for line in lines.values()]
    assert ["small_payments"] * 2 == [line.rule for line in lines.values()]
    assert "below the limit" == lines["approve"].reason
    assert lines["approve"].by is None


def test_a_rule_that_returns_true_asks_a_person() -> None:
    runner = make_runner(turns(50), make_pay(), clock=ManualClock())
    wait = single_wait(runner.start("go", run_id="r"))
    assert [] == runner.audit("r")

    runner.decide(wait.id, Approve(by="kim"))
    runner.resume("r")

    assert ["pay 50"] == effect_log.names()
    assert [("kim", None)] == [(line.by, line.rule) for line in runner.audit("r")]


def test_a_denial_by_a_rule_may_stop_the_run() -> None:
    pay = make_pay(on_denied="stop", name="limit")
    runner = make_runner(turns(500, 5), pay, clock=ManualClock())

    last = expect(runner.start("go", run_id="r"), Failed)

    assert ("denied", "pay was denied by limit: too much") == (
        last.error.code,
        last.error.message,
    )
    assert [] == effect_log.names()


def test_a_rule_decides_without_a_store() -> None:
    assert isinstance(run(make_boss(turns(5, 500), make_pay()), "go"), Finished)
    assert ["pay 5"] == effect_log.names()


@pytest.mark.parametrize("cents", [5, 500])
def test_a_rule_whose_decision_is_not_recorded_asks_a_person(cents: int) -> None:
    good = MemoryStore(ManualClock().now)
    faulty = FaultyStore(good, on("create", refused(), prefix="runs/r/in/d-"))
    runner = make_runner(turns(cents), make_pay(), clock=ManualClock(), store=faulty)

    wait = single_wait(runner.start("go", run_id="r"))

    assert "not recorded" in (wait.note or "")
    assert [] == effect_log.names()


@pytest.mark.parametrize(
    "verdict",
    [
        Approve(arguments={"cents": 1}),
        Approve(by="kim"),
        Answer("paid"),
        None,
        1,
        "approve",
    ],
)
def test_a_rule_returns_a_bool_or_a_plain_verdict(verdict: Any) -> None:
    """Everything else is a mistake of the policy, and the call does not run."""
    pay = make_pay(when=lambda: verdict)
    runner = make_runner(turns(5), pay, clock=ManualClock())

    last = expect(runner.start("go", run_id="r"), Finished)

    assert "policy" in root_tool_results(last)[0]
    assert [] == effect_log.names()
    assert [] == runner.audit("r")


def test_the_recorded_decision_of_a_rule_cannot_be_decided_again() -> None:
    """Its id names no wait that was ever listed."""
    runner = make_runner(turns(5), make_pay(), clock=ManualClock())
    runner.start("go", run_id="r")
    [line] = runner.audit("r")
    assert line.wait is not None

    with pytest.raises(AlreadyDecided):
        runner.decide(line.wait, Deny(by="eve"))
    with pytest.raises(WaitNotFound):
        runner.wait("approval-01kdvdna00k4kmjvb6728mf10z@r")
