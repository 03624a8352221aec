"""A store with an object of each kind, and what two stores have."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Grant,
    Suspended,
    ask_person,
    tool,
    wait_for,
)
from continuations.attachments import Image
from continuations.errors import AgentChanged
from continuations.ledger.claims import Clock
from continuations.retention import Retention
from continuations.tools import ToolWait
from continuations_storage import Store, all_keys
from tests import scripts
from tests.clocks import ManualClock
from tests.engine.agent_builders import text_tool
from tests.scripts import Script

SCRIPT: Script = {
    "go": [[("pay", {"what": "x"})], "end"],
    "twice": [[("pay", {"what": "x"})], [("pay", {"what": "y"})], "end"],
    "hello": ["hi"],
    "wait": [[("receipt", {"person": "jane"})], "end"],
    "vote": [[("elect", {"what": "jane"})], "end"],
    "ask": [[("ask_person", {"question": "Which room?"})], "end"],
}
WAIT_ID = "approval-01m7aaaaaaaaaaaaaaaaaaaaaa@go"


@tool(approval=ApprovalPolicy(within=timedelta(days=30)))
def pay(what: str) -> str:
    """Pay."""
    return f"paid {what}"


@tool(idempotent=True)
def receipt(person: str) -> ToolWait[Any]:
    """Wait for the receipt of a person."""
    return wait_for("receipt", key=person)


elect = text_tool(
    "elect", "elected {what}", {"what": str}, approval=ApprovalPolicy(votes=2)
)


def make_runner(store: Store, clock: Clock, **options: Any) -> AsyncRunner[str]:
    """Return a runner of `boss`, who may pay, elect, ask and wait for a receipt."""
    model = scripts.scripted_model(SCRIPT, _forget_turn)
    agent = Agent("boss", model=model, tools=[pay, elect, receipt, ask_person])
    return AsyncRunner(agent, store=store, clock=clock, **options)


def _forget_turn(_task: str, _turn: int) -> None:
    """Record no turn of the model."""


async def start(
    runner: AsyncRunner[str], text: Any, run_id: str, **options: Any
) -> str:
    """Start a run that waits; return the id of its first wait."""
    outcome = await runner.start(text, run_id=run_id, **options)
    assert isinstance(outcome, Suspended), outcome
    return outcome.waits[0].id


async def fill(store: Store, clock: ManualClock) -> dict[str, str]:
    """Make an object of each kind; return the ids of the open waits by their runs."""
    runner = make_runner(store, clock)
    await _erase_with_audit(runner, clock)
    image = Image(b"\x89PNG photo", "image/png")
    waits = {
        "go": await start(runner, "go", "go", labels={"team": "hr"}),
        "wait": await start(runner, "wait", "wait"),
        "vote": await start(runner, "vote", "vote"),
        "ask": await start(runner, "ask", "ask"),
        "twice": await start(runner, "twice", "twice"),
        "cancelled": await start(runner, "go", "cancelled"),
        "lacks": await start(runner, "go", "lacks"),
    }
    await runner.decide(waits["lacks"], Approve(by="kim"))
    with suppress(AgentChanged):
        await AsyncRunner(Agent("boss"), store=store, clock=clock).resume("lacks")
    await runner.decide(waits["vote"], Approve(by="kim"))
    await runner.send("go", ["more", image])
    await runner.signal("go", "paid", {"cents": 5}, id="s1")
    await runner.pause("ask", by="kim")
    await runner.cancel("cancelled")
    await runner.decide(waits["twice"], Approve(by="kim", remember=Grant(tool="pay")))
    [grant] = await runner.grants("twice")
    await runner.revoke("twice", grant.id, by="kim")
    await runner.start("hello", run_id="finished", labels={"team": "hr"})
    await runner.start("hello", run_id="erased")
    await runner.erase("erased")
    await runner.publish("ready", {"n": 1}, id="e1")
    await runner.fork("go", run_id="fork")
    thread = runner.thread("boss", key="jane")
    await thread.send("hello", id="m1")
    for key in ("a2a/go/0a1b/2c3d", f"slack/C1/{WAIT_ID}/open"):
        await store.create(key, b"not a record")
    return waits


async def _erase_with_audit(runner: AsyncRunner[str], clock: ManualClock) -> None:
    """Erase a run that was decided, and keep its audit."""
    await runner.decide(await start(runner, "go", "old"), Approve(by="kim"))
    await runner.resume("old")
    clock.seconds += 60
    retention = Retention(finished=timedelta(seconds=30), audit=timedelta(days=90))
    assert ("old",) == (await runner.prune(retention=retention)).run_ids


async def contents(store: Store) -> dict[str, bytes]:
    """Return everything in a store but its own proof."""
    return {
        key: await store.read(key)
        async for key in all_keys(store, "")
        if not key.startswith("probe/")
    }
