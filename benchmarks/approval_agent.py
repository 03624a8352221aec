"""An agent whose one tool needs an approval, as an application would define it."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.stamp import write_time_and_exit
from continuations import Agent, AsyncRunner, Runner, Suspended, tool

MODEL = "gpt-5-mini"


@tool(approval=True)
def note(number: int) -> str:
    """Note it."""
    write_time_and_exit()
    return str(number)


def approval_agent(model: Any = MODEL) -> Agent:
    """Return the agent, with the model that a name stands for or another."""
    return Agent("clerk", instructions="You keep the notes.", tools=[note], model=model)


def resume_until_stamp(url: str, run_id: str) -> None:
    """Go on with a run until its approved tool runs."""
    Runner(approval_agent(), store=url).resume(run_id)


async def start_suspended_runs(store: Any, count: int) -> list[Suspended]:
    """Return runs that wait for the approval of one call; no model is asked."""
    # Loaded here, because the cold processes that resume do not pay for it.
    from continuations.models.scripted import (  # noqa: PLC0415
        ScriptedModel,
        ToolCall,
    )

    script = ScriptedModel([ToolCall("note", {"number": 7})], name=MODEL)
    runner = AsyncRunner(approval_agent(script), store=store)
    begun: list[Suspended] = []
    for _ in range(0, count, 50):
        some = min(50, count - len(begun))
        starts = (runner.start("Note the seven.") for _ in range(some))
        for outcome in await asyncio.gather(*starts):
            assert isinstance(outcome, Suspended)  # noqa: S101 - it has no other end
            begun.append(outcome)
    return begun
