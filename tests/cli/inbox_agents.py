"""Agents whose waits differ in kind, deadline and approvers, for the inbox."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from continuations import (
    Agent,
    ApprovalPolicy,
    Deny,
    Runner,
    Suspended,
    ask,
    tool,
    wait_for,
)
from continuations.errors import ModelError
from continuations.models.scripted import ScriptedModel
from tests.scripts import call, scripted_model


@tool(
    approval=ApprovalPolicy(
        approvers=["kim", "jo"], votes=2, expires_after=timedelta(days=30)
    ),
    summary="Send {cents} cents to {to}",
)
def transfer(cents: int, to: str) -> str:
    """Send money."""
    return f"sent {cents} to {to}"


@tool
def choose(what: str) -> Any:
    """Ask a person."""
    return ask(f"Which {what}?", str, within=timedelta(days=2), on_deadline=Deny())


@tool
def receipt(number: str) -> Any:
    """Wait for a receipt."""
    return wait_for("receipt", key=number)


def start_all(store: str, *, to: str = "Meridian Freight GmbH") -> Runner:
    """Start a run for each kind of wait."""
    script = {
        "pay": [[call("transfer", cents=1240000, to=to)], "paid"],
        "ask": [[call("choose", what="laptop for Jane")], "chosen"],
        "event": [[call("receipt", number="A-17")], "received"],
    }
    clerk = Agent(
        "payables",
        tools=[transfer, choose, receipt],
        model=scripted_model(script, lambda _task, _turn: None),
    )
    runner = Runner(clerk, store=store)
    for task in script:
        runner.start(task, run_id=task, by="ines")
    return runner


def start_limited(store: str, run_id: str) -> None:
    """Start a run whose model is limited."""
    limited = ModelError("x.example returned status 429", status=429, retryable=True)
    agent = Agent("boss", model=ScriptedModel([limited]))
    runner = Runner(agent, store=store, model_retry_time=0)
    assert isinstance(runner.start("go", run_id=run_id), Suspended)
