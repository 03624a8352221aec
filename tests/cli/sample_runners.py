"""Runners and agents that a test names with `--app tests.cli.sample_runners:NAME`.

The store is relative to the working directory, so no other module imports this one and
each test loads it anew.
"""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

from continuations import Agent, AsyncRunner, Runner, tool
from continuations.models.scripted import ScriptedModel, ToolCall
from tests.cli.sample_agents import make_boss
from tests.scripts import call

STORE = "file:runs"

boss = make_boss()
runner = Runner(boss, store=STORE)
holder = SimpleNamespace(runner=AsyncRunner(boss, store=STORE))

# Its process dies after the effect and before the result is stored.
dying = Runner(make_boss(call("act", what="1", then="die")), store=STORE, lease=2)

silent = Agent("silent", model=ScriptedModel([]))


@tool(read_only=True)
def ask() -> str:
    """Block until the process is killed; return at once if the file `quick` exists."""
    if Path("quick").exists():
        return "42"
    print("asking", flush=True)  # noqa: T201 - the test waits for this line
    time.sleep(60)
    return "never"


slow_agent = Agent("slow", tools=[ask], model=ScriptedModel([ToolCall("ask"), "is 42"]))
slow = Runner(slow_agent, store=STORE, lease=3)
