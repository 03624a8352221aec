"""A small office: a boss, two workers of one name, and a clerk below each.

Each tool adds its effect to the ledger first and then does what `then` says. What the
model says comes from the script in the environment, or from the model server.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from continuations import Agent, Answer, Approve, Deny, ToolContext, tool
from tests import effect_log, scripts

if TYPE_CHECKING:
    from continuations.models.scripted import ScriptedModel


def record_effect(name: str, argument: str, ctx: ToolContext) -> None:
    """Add an effect to the ledger."""
    effect_log.append_line(
        effect_log.EFFECTS_VARIABLE,
        tool=name,
        what=argument,
        run=ctx.run_id,
        call=ctx.call_id,
        key=ctx.idempotency_key,
        fence=ctx.fence,
        attempt=ctx.attempt,
        pid=os.getpid(),
    )


def act_after_effect(then: str) -> None:
    """Do what a script wants after the effect: die, die-once, sleep:2, raise."""
    verb, _, rest = then.partition(":")
    if verb == "sleep":
        time.sleep(float(rest))
    if verb == "raise":
        raise RuntimeError(rest)
    if verb == "die-once":
        fuse = Path(os.environ["TEST_FOLDER"]) / "burnt"
        if fuse.exists():
            return
        fuse.touch()
        verb = "die"
    if verb == "die":
        os.kill(os.getpid(), signal.SIGKILL)


@tool
def act(what: str, ctx: ToolContext, then: str = "") -> str:
    """Do something that must not be repeated on a guess."""
    record_effect("act", what, ctx)
    act_after_effect(then)
    return f"acted {what}"


@tool(approval=True)
def pay(what: str, ctx: ToolContext, then: str = "") -> str:
    """Do something that a person must agree to."""
    record_effect("pay", what, ctx)
    act_after_effect(then)
    return f"paid {what}"


@tool(read_only=True)
def read(what: str, ctx: ToolContext, then: str = "") -> str:
    """Read something."""
    record_effect("read", what, ctx)
    act_after_effect(then)
    return f"read {what}"


@tool(idempotent=True)
def push(what: str, ctx: ToolContext, then: str = "") -> str:
    """Do something that may be repeated under one key."""
    record_effect("push", what, ctx)
    act_after_effect(then)
    return f"pushed {what}"


def verify_booking() -> Answer | Approve | Deny | None:
    """Say of a call that was cut off what the environment says of it."""
    match os.environ.get("TEST_VERIFY"):
        case "answer":
            return Answer("it did happen")
        case "approve":
            return Approve()
        case "deny":
            return Deny(reason="It was not found.")
        case "raise":
            raise RuntimeError
        case _:
            return None


@tool(verify=verify_booking)
def book(what: str, ctx: ToolContext, then: str = "") -> str:
    """Do something that can be looked up afterwards."""
    record_effect("book", what, ctx)
    act_after_effect(then)
    return f"booked {what}"


def agents() -> list[Agent]:
    """Return the root agent: boss > left, right (both named worker) > clerk."""
    script = os.environ.get("TEST_SCRIPT")
    over_http = os.environ.get("TEST_HTTP")
    model = (
        "gpt-5-mini"
        if over_http or not script
        else scripts.scripted_model(json.loads(script))
    )
    return make_agents(model)


def make_agents(model: str | ScriptedModel) -> list[Agent]:
    """Return the same of a model."""
    tools = [act, pay, read, push, book]
    clerk = Agent("clerk", instructions="You are clerk.", tools=tools, model=model)
    left = Agent("worker", instructions="One.", tools=[*tools, clerk], model=model)
    right = Agent("worker", instructions="Two.", tools=[*tools, clerk], model=model)
    boss = Agent(
        "boss",
        instructions="You are boss.",
        tools=[*tools, left.as_tool(name="left"), right.as_tool(name="right")],
        model=model,
    )
    return [boss]
