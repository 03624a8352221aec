"""A tool with retries, for commands in other processes."""

from __future__ import annotations

import os
import signal

from continuations import Agent, ToolContext, tool
from continuations.tools import Retries
from tests import effect_log, scripts
from tests.effect_log import Effect


@tool(idempotent=True, retries=Retries(5, first_delay=0.01, max_delay=0.01))
def push(what: str, ctx: ToolContext) -> str:
    """Push; `what` says which attempts fail."""
    effect_log.record(Effect.of("push", what, ctx))
    if ctx.attempt == 1:
        raise ConnectionError
    if "dies" in what:
        os.kill(os.getpid(), signal.SIGKILL)
    return "pushed"


def agents() -> list[Agent]:
    """Return an agent that follows the script of the environment."""
    script = scripts.of_environment()
    model = scripts.scripted_model(script)
    return [Agent("boss", instructions="Push.", tools=[push], model=model)]
