"""The agents of the torture: the office of tests/engine, with tools that tell more.

Every turn of the model leaves a line with a digest of what the model was sent, so
that "the same messages reach the model" can be read off a file.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    ModelError,
    ToolContext,
    tool,
)
from continuations.models.scripted import ScriptedModel
from tests.engine import ledgers, scripts
from tests.engine.apps import office
from tests.engine.world import World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations.models.contract import ModelRequest
    from continuations_storage import Store
    from tests.engine.scripts import Line

RUN = "r1"


def acting(store: Store) -> Any:
    """Return the tool `act`, which can also cancel its own run in a store."""

    @tool
    async def act(what: str, ctx: ToolContext, then: str = "") -> str:
        """Do something that must not be repeated on a guess."""
        office.note("act", what, ctx)
        if then == "cancel":
            await AsyncRunner([], store=store).cancel(ctx.run_id, by="kim")
        office.then_do(then)
        return f"acted {what}"

    return act


def found_out(what: str, ctx: ToolContext) -> Answer | Approve:
    """Say of a booking that was cut off what the ledger says."""
    world = World(Path(os.environ["TEST_FOLDER"]))
    keys = [line["key"] for line in world.effects()]
    return Answer(f"booked {what}") if ctx.idempotency_key in keys else Approve()


@tool(verify=found_out)
def book(what: str, ctx: ToolContext) -> str:
    """Do something that can be looked up afterwards."""
    office.note("book", what, ctx)
    return f"booked {what}"


@tool(approval=ApprovalPolicy(expires_after=3600, on_denied="stop"))
def rush(what: str, ctx: ToolContext) -> str:
    """Do something that a person must agree to in time."""
    office.note("rush", what, ctx)
    return f"rushed {what}"


def digest(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the digest of a conversation."""
    text = json.dumps(messages, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def tree(
    script: Mapping[str, Sequence[Line]], store: Store, *, down: bool = False
) -> Agent:
    """Return boss > left, right > clerk; with `down` no model answers twice."""
    turns = 0

    def rule(request: ModelRequest) -> Any:
        nonlocal turns
        turns += 1
        messages = [message.data for message in request.messages]
        task, turn = scripts.task_of(messages), scripts.turn_of(messages)
        ledgers.add(ledgers.TURNS, task=task, turn=turn, digest=digest(messages))
        if down and turns > 1:
            msg = "It is down."
            raise ModelError(msg)
        return scripts.spoken(script[task][turn], turn)

    model = ScriptedModel(rule)
    tools = [acting(store), office.pay, office.read, office.push, book, rush]
    clerk = Agent("clerk", instructions="You are clerk.", tools=tools, model=model)
    workers = [
        Agent("worker", instructions=text, tools=[*tools, clerk], model=model)
        for text in ("One.", "Two.")
    ]
    left, right = workers[0].as_tool(name="left"), workers[1].as_tool(name="right")
    return Agent(
        "boss",
        instructions="You are boss.",
        tools=[*tools, left, right],
        model=model,
    )
