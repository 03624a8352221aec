"""The table of docs/how-to/deploy.md: new code, old runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Deny,
    Finished,
    Outcome,
    Runner,
    Suspended,
    tool,
)
from continuations.authoring.tool.tool import Tool
from continuations.errors import AgentChanged
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.results import Verdict
from continuations_storage import MemoryStore

Change: TypeAlias = "Callable[[], Agent]"


@tool(approval=True)
def transfer(to: str, cents: int) -> str:
    """Send money."""
    return f"sent {cents} to {to}"


@tool(approval=True, name="transfer")
def with_other_description(to: str, cents: int) -> str:
    """Send money to a person."""
    return f"sent {cents} to {to}"


@tool(approval=True, name="transfer")
def with_parameter(to: str, cents: int, currency: str = "EUR") -> str:
    """Send money."""
    return f"sent {cents} {currency} to {to}"


@tool(approval=True, name="transfer", version="2")
def with_version(to: str, cents: int) -> str:
    """Send money."""
    return f"sent {cents} to {to}"


@tool(approval=True)
def pay(to: str, cents: int) -> str:
    """Send money."""
    return f"sent {cents} to {to}"


@tool
def balance(account: str) -> str:
    """Return a balance."""
    return account


def agent(
    *tools: Tool[..., Any], name: str = "accounts", instructions: str = "Pay."
) -> Agent:
    """Return an agent whose model asks for one transfer."""
    model = ScriptedModel([ToolCall("transfer", {"to": "Jane", "cents": 1}), "Done."])
    return Agent(name, instructions=instructions, tools=list(tools), model=model)


ALLOWED: dict[str, Change] = {
    "new instructions": lambda: agent(transfer, instructions="Pay at once."),
    "new tool": lambda: agent(transfer, balance),
    "new description": lambda: agent(with_other_description),
}
REFUSED: dict[str, Change] = {
    "new parameter": lambda: agent(with_parameter),
    "new version": lambda: agent(with_version),
}
REMOVED: dict[str, Change] = {
    "tool removed": lambda: agent(balance),
    "tool renamed": lambda: agent(pay),
}
CHANGES = {**ALLOWED, **REFUSED, **REMOVED}


def resume(change: Change, verdict: Verdict | None) -> Outcome:
    """Start with the old code, decide, and resume with the new code."""
    store = MemoryStore()
    old = Runner(agent(transfer), store=store)
    outcome = old.start("Pay Jane", run_id="r1")
    assert isinstance(outcome, Suspended)
    if verdict is not None:
        old.decide(outcome.waits[0].id, verdict)
    return Runner(change(), store=store).resume("r1")


@pytest.mark.parametrize("change", ALLOWED.values(), ids=ALLOWED)
def test_other_differences_let_an_approved_call_run(change: Change) -> None:
    outcome = resume(change, Approve(by="kim"))

    assert isinstance(outcome, Finished)
    assert outcome.code_changes


@pytest.mark.parametrize("change", REFUSED.values(), ids=REFUSED)
def test_changed_tool_of_an_approved_call_waits_again(change: Change) -> None:
    outcome = resume(change, Approve(by="kim"))

    assert isinstance(outcome, Suspended)
    assert outcome.waits[0].note


@pytest.mark.parametrize("change", REMOVED.values(), ids=REMOVED)
def test_approval_is_kept_if_the_tool_is_removed(change: Change) -> None:
    with pytest.raises(AgentChanged, match="has no tool transfer"):
        resume(change, Approve(by="kim"))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_undecided_run_stays_suspended_with_any_tool(change: Change) -> None:
    assert isinstance(resume(change, None), Suspended)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_denied_or_answered_call_lets_the_run_go_on_with_any_tool(
    change: Change,
) -> None:
    assert isinstance(resume(change, Deny(by="kim")), Finished)
    assert isinstance(resume(change, Answer("sent by hand", by="kim")), Finished)


@pytest.mark.parametrize("verdict", [None, Approve(by="kim"), Deny(by="kim")])
def test_renamed_root_agent_is_refused(verdict: Verdict | None) -> None:
    with pytest.raises(AgentChanged):
        resume(lambda: agent(transfer, name="payments"), verdict)
