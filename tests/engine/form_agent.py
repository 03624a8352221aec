"""Agents whose calls need an approval with a form, for tests in fresh interpreters."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from continuations import Agent, ApprovalPolicy, ToolContext, ask, tool
from continuations.tools import ToolWait
from tests import effect_log
from tests.scripts import call, scripted_model


class Account(Enum):
    """An account to book on."""

    TRAVEL = "travel"
    OFFICE = "office"


class Booking(BaseModel):
    """A form with nested values."""

    account: Account
    booked_on: date = Field(description="The day of the booking.")
    limit: int | None = None


@dataclass
class Ticket:
    """A form that is a dataclass."""

    number: int


class Remark(TypedDict):
    """A form that is a dict."""

    text: str


SCRIPT: Any = {
    "go": [[call("left", input="A")], "all done"],
    "A": [[call("clerk", input="B")], "A done"],
    "B": [[call("pay", cents=5), call("close", name="x"), call("note")], "B done"],
    "kill": [[call("pay", cents=7)], "end"],
    "receipt": [[call("receipt")], "end"],
}


@tool(approval=ApprovalPolicy(form=Booking))
def pay(cents: int, ctx: ToolContext) -> str:
    """Pay an amount; the first payment of 7 cents kills the process."""
    form = ctx.form
    effect_log.append_effect("pay", f"{cents} {form!r}")
    if cents == 7 and ctx.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    assert type(form) is Booking
    return f"{form.account.value} {form.booked_on.year} {form.limit}"


@tool(approval=ApprovalPolicy(form=Ticket))
def close(name: str, ctx: ToolContext) -> str:
    """Close something."""
    assert type(ctx.form) is Ticket
    return f"closed {name} by ticket {ctx.form.number + 1}"


@tool(approval=ApprovalPolicy(form=Remark))
def note(ctx: ToolContext) -> str:
    """Note something."""
    return f"noted {ctx.form['text']}"


@tool(approval=ApprovalPolicy(form=Ticket))
def receipt() -> ToolWait[str]:
    """Ask for a receipt."""
    return ask("Where is it?")


@receipt.on_answer
def received(answer: str, ctx: ToolContext) -> str:
    """Receive the receipt."""
    return f"{answer} for ticket {ctx.form.number}"


def agents() -> list[Agent]:
    """Return the root agent, above two others."""
    model = scripted_model(SCRIPT)
    clerk = Agent("clerk", tools=[pay, close, note], model=model)
    left = Agent("left", tools=[clerk], model=model)
    return [Agent("boss", tools=[left, pay, receipt], model=model)]
