"""Runners and agents that a test names with `--app tests.cli.sample_runners:NAME`.

The store is relative to the working directory, so no other module imports this one and
each test loads it anew.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from continuations import Agent, ApprovalPolicy, AsyncRunner, Runner, ToolContext, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.cli.sample_agents import make_boss
from tests.engine.priced_agents import PRICES, PricedModel, endless
from tests.scripts import call

STORE = "file:runs"

boss = make_boss()
runner = Runner(boss, store=STORE)
holder = SimpleNamespace(runner=AsyncRunner(boss, store=STORE))

# Its process dies after the effect and before the result is stored.
dying = Runner(make_boss(call("act", what="1", then="die")), store=STORE, lease=2)

priced = Runner(
    Agent("priced", model=PricedModel(endless)),
    store=STORE,
    prices=PRICES,
)

silent = Agent("silent", model=ScriptedModel([]))


@tool(read_only=True)
def ask() -> str:
    """Block until the process is killed; return at once if the file `quick` exists."""
    if Path("quick").exists():
        return "42"
    print("asking", flush=True)  # noqa: T201 - the test waits for this line
    time.sleep(60)
    return "never"


@tool
def act(seconds: float) -> str:
    """Act for some time; not repeatable."""
    print("acting", flush=True)  # noqa: T201 - the test waits for this line
    time.sleep(seconds)
    with Path("acted").open("a", encoding="utf-8") as log:
        log.write("once\n")
    return "acted"


class SlowModel:
    """A model that never replies; it prints a line when it is asked."""

    name = "slow"

    async def reply(self, request: object) -> Any:
        """Wait without end."""
        del request
        print("thinking", flush=True)  # noqa: T201 - the test waits for this line
        await asyncio.Event().wait()


def acting(seconds: float) -> Runner:
    """Return a runner whose run acts once."""
    model = ScriptedModel([ToolCall("act", {"seconds": seconds}), "done"])
    return Runner(Agent("actor", tools=[act], model=model), store=STORE)


acting_for_a_second = acting(1)
acting_without_end = acting(60)
thinking = Runner(Agent("actor", tools=[act], model=SlowModel()), store=STORE)


@tool
def tell(ctx: ToolContext) -> str:
    """Tell the context."""
    return f"the context is {ctx.context!r}"


def make_context() -> str:
    return "made"


number = 5
telling = Runner(
    Agent("teller", tools=[tell], model=ScriptedModel([ToolCall("tell"), "told"])),
    store=STORE,
)

slow_agent = Agent("slow", tools=[ask], model=ScriptedModel([ToolCall("ask"), "is 42"]))
slow = Runner(slow_agent, store=STORE, lease=3)


@tool(approval=ApprovalPolicy(approvers=["group:finance"], votes=2))
def spend(cents: int) -> str:
    """Spend money."""
    return f"spent {cents}"


spender = Agent(
    "spender",
    tools=[spend],
    model=ScriptedModel([ToolCall("spend", {"cents": 5}), "done"]),
)
voting = Runner(
    spender,
    store=STORE,
    groups={"kim": ["finance"], "lee": ["finance"], "bob": []}.__getitem__,
)
