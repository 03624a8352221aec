"""The agents of the crash tests: the sample application, with some other tools.

Every model turn records a digest of its request. So a file shows whether the model got
the same messages as in a run without a crash.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Flow,
    ToolContext,
    ask,
    escalate,
    external,
    sleep,
    tool,
    wait_for,
    workflow,
)
from continuations.errors import ModelError
from continuations.models.interface import ModelRequest
from continuations.models.scripted import ScriptedModel
from continuations.tools import ToolWait
from continuations_storage import Store
from tests import effect_log, sample_app, scripts
from tests.effect_log import Effect
from tests.run_environment import RunEnvironment
from tests.scripts import Line

RUN = "r1"
JOB_RESULT = "7 pages"
EVENT, EVENT_DATA = "receipt", "paid"
CHOICE = "blue"


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


@tool(
    approval=ApprovalPolicy(
        approvers=["kim", "lee"],
        votes=2,
        within=3600,
        on_deadline=escalate(to=["cfo"], within=3600),
    )
)
def spend(what: str, ctx: ToolContext) -> str:
    """Spend; two persons must approve, or after an hour the one above them."""
    effect_log.record(Effect.of("spend", what, ctx))
    return f"spent {what}"


def make_scan_tool(store: Store) -> Any:
    """Return the tool `scan`, whose job can report to a store before it returns."""

    @tool
    async def scan(what: str, ctx: ToolContext, then: str = "") -> ToolWait[str]:
        """Start a job of another system."""
        (Path(os.environ["TEST_FOLDER"]) / "job").write_text(ctx.wait_id)
        effect_log.record(Effect.of("scan", what, ctx))
        if then == "early":
            await AsyncRunner([], store=store).decide(ctx.wait_id, Answer(JOB_RESULT))
        return external("scan", str)

    @scan.on_answer
    def scanned(answer: str, what: str, ctx: ToolContext) -> str:
        effect_log.record(Effect.of("scanned", what, ctx))
        return f"{what}: {answer}"

    return scan


@tool
def choose(what: str) -> ToolWait[str]:
    """Ask a person; this has no effect."""
    return ask(f"{what}?")


@choose.on_answer
def chosen(answer: str, what: str, ctx: ToolContext) -> str:
    """Note what the person chose."""
    effect_log.record(Effect.of("chosen", what, ctx))
    return f"{what}: {answer}"


@tool
def receipt(what: str) -> ToolWait[str]:
    """Wait for an event; this has no effect."""
    del what
    return wait_for(EVENT, str)


@receipt.on_answer
def received(answer: str, what: str, ctx: ToolContext) -> str:
    """Note what the event brought."""
    effect_log.record(Effect.of("received", what, ctx))
    return f"{what}: {answer}"


def conversation_digest(messages: Sequence[Mapping[str, Any]]) -> str:
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
            lambda _: spend,
            lambda _: make_scan_tool(store),
            lambda _: choose,
            lambda _: receipt,
        ],
    )
    return boss


def make_root_workflow(script: Mapping[str, Sequence[Line]], store: Store) -> Agent:
    """Return a workflow that calls tools and the root agent of the application."""
    boss = make_root_agent(script, store)
    act: Any = make_act_tool(store)
    pay: Any = sample_app.make_pay(effect_log.record)

    @workflow(tools=[act, pay], agents=[boss])
    async def errand(flow: Flow, task: str) -> str:
        """Act twice at once, pay, sleep for an hour, and call the agent."""
        acted = await asyncio.gather(flow.call(act, "1"), flow.call(act, "2"))
        paid = await flow.call(pay, "3")
        await sleep(timedelta(hours=1))
        return ", ".join([*acted, paid, await flow.call(boss, task)])

    return errand
