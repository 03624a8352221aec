"""The sample application of the tests: boss > left, right (both "worker") > clerk.

Every agent has the same tools. A tool records its effect first and then does what its
argument `then` says. A test chooses the model, where effects are recorded, and the
tools:

    effects: list[Effect] = []
    [boss] = make_agents(scripted_model(script), record=effects.append)
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from continuations import Agent, Answer, Approve, Deny, Model, ToolContext, tool
from continuations.authoring.tool.tool_protocol import ToolProtocol
from tests import effect_log, scripts
from tests.effect_log import Effect

Record: TypeAlias = Callable[[Effect], None]
ToolMaker: TypeAlias = "Callable[[Record], ToolProtocol | Callable[..., Any]]"


def act_after_effect(then: str) -> None:
    """Do one of `die`, `die-once`, `sleep:<seconds>`, `raise:<message>`, or nothing.

    `until:<key>` waits until the store has the object with this key, 60 s at most.
    """
    verb, _, rest = then.partition(":")
    if verb == "until":
        store = Path(os.environ["TEST_STORE"].removeprefix("file:"))
        end = time.monotonic() + 60
        while not (store / rest).exists() and time.monotonic() < end:
            time.sleep(0.01)
    if verb == "sleep":
        time.sleep(float(rest))
    if verb == "raise":
        raise RuntimeError(rest)
    if verb == "die-once":
        already_died = Path(os.environ["TEST_FOLDER"]) / "already-died"
        if already_died.exists():
            return
        already_died.touch()
        verb = "die"
    if verb == "die":
        os.kill(os.getpid(), signal.SIGKILL)


def make_act(record: Record) -> ToolProtocol:
    """Return `act`, which may not be repeated."""

    @tool
    def act(what: str, ctx: ToolContext, then: str = "") -> str:
        """Act; not repeatable."""
        record(Effect.of("act", what, ctx))
        act_after_effect(then)
        return f"acted {what}"

    return act


def make_pay(record: Record) -> ToolProtocol:
    """Return `pay`, which needs an approval."""

    @tool(approval=True)
    def pay(what: str, ctx: ToolContext, then: str = "") -> str:
        """Pay; a person must approve."""
        record(Effect.of("pay", what, ctx))
        act_after_effect(then)
        return f"paid {what}"

    return pay


def make_read(record: Record) -> ToolProtocol:
    """Return `read`, which is read-only."""

    @tool(read_only=True)
    def read(what: str, ctx: ToolContext, then: str = "") -> str:
        """Read."""
        record(Effect.of("read", what, ctx))
        act_after_effect(then)
        return f"read {what}"

    return read


def make_push(record: Record) -> ToolProtocol:
    """Return `push`, which is idempotent."""

    @tool(idempotent=True)
    def push(what: str, ctx: ToolContext, then: str = "") -> str:
        """Push; repeatable with the same idempotency key."""
        record(Effect.of("push", what, ctx))
        act_after_effect(then)
        return f"pushed {what}"

    return push


def verify_booking() -> Answer | Approve | Deny | None:
    """Return the verdict that TEST_VERIFY names, for a booking with unknown outcome."""
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


def make_book(record: Record) -> ToolProtocol:
    """Return `book`, which has a `verify` function."""

    @tool(verify=verify_booking)
    def book(what: str, ctx: ToolContext, then: str = "") -> str:
        """Book; the booking can be looked up afterwards."""
        record(Effect.of("book", what, ctx))
        act_after_effect(then)
        return f"booked {what}"

    return book


DEFAULT_TOOLS: Sequence[ToolMaker] = (
    make_act,
    make_pay,
    make_read,
    make_push,
    make_book,
)

# Every kind of call in every kind of place: parallel, nested, approved, in a row.


def make_agents(
    model: Model | str | None,
    *,
    record: Record = effect_log.record,
    tools: Sequence[ToolMaker] = DEFAULT_TOOLS,
) -> list[Agent]:
    """Return the root agents: one, `boss`.

    Args:
        model: The model of every agent.
        record: Called with each effect, before the tool does anything else; for
            example a list's `append`. By default the effect log of the environment.
        tools: Functions that make a tool from `record`.

    Returns:
        A list with the agent `boss`.
    """
    made: list[Any] = [make_tool(record) for make_tool in tools]
    clerk = Agent("clerk", instructions="You are clerk.", tools=made, model=model)
    left = Agent("worker", instructions="One.", tools=[*made, clerk], model=model)
    right = Agent("worker", instructions="Two.", tools=[*made, clerk], model=model)
    boss = Agent(
        "boss",
        instructions="You are boss.",
        tools=[*made, left.as_tool(name="left"), right.as_tool(name="right")],
        model=model,
    )
    return [boss]


def agents() -> list[Agent]:
    """Return the agents for a process of its own.

    The model follows the script in TEST_SCRIPT; with TEST_HTTP, or without a script,
    it is the model server's.
    """
    script = os.environ.get("TEST_SCRIPT")
    if os.environ.get("TEST_HTTP") or not script:
        return make_agents("gpt-5-mini")
    return make_agents(scripts.scripted_model(json.loads(script)))
