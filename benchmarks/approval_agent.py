"""An agent with one tool that needs an approval, as an application defines it."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.stamp import write_time_and_exit
from continuations import Agent, AsyncRunner, Runner, Suspended, tool

MODEL = "gpt-5-mini"


@tool(approval=True)
def note(number: int) -> str:
    """Save a note."""
    write_time_and_exit()
    return str(number)


def approval_agent(model: Any = MODEL) -> Agent:
    """Return the agent, with a model given by name or as an object."""
    return Agent("notes", instructions="You save notes.", tools=[note], model=model)


def resume_until_stamp(url: str, run_id: str) -> None:
    """Resume a run until its approved tool runs, which ends the process."""
    Runner(approval_agent(), store=url).resume(run_id)


async def start_suspended_runs(store: Any, count: int) -> list[Suspended]:
    """Return runs that wait for the approval of one call, with a scripted model."""
    # Imported here, so that the measured cold processes do not load it.
    from continuations.models.scripted import (  # noqa: PLC0415
        ScriptedModel,
        ToolCall,
    )

    script = ScriptedModel([ToolCall("note", {"number": 7})], name=MODEL)
    runner = AsyncRunner(approval_agent(script), store=store)
    suspended: list[Suspended] = []
    for _ in range(0, count, 50):
        batch_size = min(50, count - len(suspended))
        starts = (runner.start("Save the note 7.") for _ in range(batch_size))
        for outcome in await asyncio.gather(*starts):
            assert isinstance(outcome, Suspended)  # noqa: S101 - the script ends here
            suspended.append(outcome)
    return suspended
