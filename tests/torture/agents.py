"""The agents of the crash tests: the sample application, with some other tools.

Every model turn records a digest of its request. So a file shows whether the model got
the same messages as in a run without a crash.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from continuations import (
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    ModelError,
    ToolContext,
    tool,
)
from continuations.models.scripted import ScriptedModel
from tests import effect_log, sample_app, scripts
from tests.effect_log import Effect
from tests.run_environment import RunEnvironment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations import Agent
    from continuations.models.interface import ModelRequest
    from continuations_storage import Store
    from tests.scripts import Line

RUN = "r1"


def make_act_tool(store: Store) -> Any:
    """Return the tool `act`, which can also cancel its own run in a store."""

    @tool
    async def act(what: str, ctx: ToolContext, then: str = "") -> str:
        """Act; not repeatable."""
        effect_log.record(Effect.of("act", what, ctx))
        if then == "cancel":
            await AsyncRunner([], store=store).cancel(ctx.run_id, by="kim")
        sample_app.act_after_effect(then)
        return f"acted {what}"

    return act


def verify_booking(what: str, ctx: ToolContext) -> Answer | Approve:
    """Look a booking with an unknown outcome up in the effect log."""
    environment = RunEnvironment(Path(os.environ["TEST_FOLDER"]))
    keys = [line["key"] for line in environment.effects()]
    return Answer(f"booked {what}") if ctx.idempotency_key in keys else Approve()


@tool(verify=verify_booking)
def book(what: str, ctx: ToolContext) -> str:
    """Book; the booking can be looked up afterwards."""
    effect_log.record(Effect.of("book", what, ctx))
    return f"booked {what}"


@tool(approval=ApprovalPolicy(expires_after=3600, on_denied="stop"))
def rush(what: str, ctx: ToolContext) -> str:
    """Rush; a person must approve within an hour."""
    effect_log.record(Effect.of("rush", what, ctx))
    return f"rushed {what}"


def conversation_digest(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the digest of a conversation."""
    text = json.dumps(messages, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def make_root_agent(
    script: Mapping[str, Sequence[Line]], store: Store, *, model_down: bool = False
) -> Agent:
    """Return the root agent of the sample application, with a scripted model.

    With `model_down` the model raises an error after its first reply in this process.
    """
    turns = 0

    def next_reply(request: ModelRequest) -> Any:
        nonlocal turns
        turns += 1
        messages = [message.data for message in request.messages]
        task, turn = scripts.first_user_message(messages), scripts.turn_count(messages)
        effect_log.append_turn(
            task=task,
            turn=turn,
            digest=conversation_digest(messages),
        )
        if model_down and turns > 1:
            msg = "the model is down"
            raise ModelError(msg)
        return scripts.assistant_message(script[task][turn], turn)

    [boss] = sample_app.make_agents(
        ScriptedModel(next_reply),
        tools=[
            lambda _: make_act_tool(store),
            sample_app.make_pay,
            sample_app.make_read,
            sample_app.make_push,
            lambda _: book,
            lambda _: rush,
        ],
    )
    return boss
