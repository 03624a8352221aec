"""Tools and runners of the tests of workflows. Each effect is a line of a log."""

from __future__ import annotations

from typing import Any

from continuations import Agent, ApprovalPolicy, Runner, Suspended, ToolContext, tool
from continuations.models.scripted import ScriptedModel
from continuations_storage import MemoryStore, Store
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import text_tool

RUN = "r1"


@tool
def add(ctx: ToolContext, first: int, second: int) -> int:
    """Add two numbers."""
    effect_log.record(effect_log.Effect.of("add", f"{first}+{second}", ctx))
    return first + second


pay = text_tool("pay", "paid {cents}", {"cents": int}, logs=True, approval=True)


@tool(approval=ApprovalPolicy(expires_after=3600))
def order(ctx: ToolContext, what: str) -> str:
    """Order something."""
    effect_log.record(effect_log.Effect.of("order", what, ctx))
    return f"ordered {what}"


@tool
def fail(text: str) -> int:
    """Fail."""
    raise ValueError(text)


def clerk(replies: int = 50) -> Agent[str]:
    return Agent("clerk", model=ScriptedModel(["hello"] * replies))


def make_runner(*agents: Any, store: Store | None = None, **options: Any) -> Runner:
    options.setdefault("clock", ManualClock())
    return Runner([*agents], store=store or MemoryStore(), **options)


def the_wait(outcome: Any, kind: str = "approval") -> str:
    suspended: Suspended = outcome
    (found,) = [wait.id for wait in suspended.waits if wait.kind == kind]
    return found


def objects(store: MemoryStore) -> dict[str, Any]:
    return dict(store._bodies)  # pyright: ignore[reportPrivateUsage]
