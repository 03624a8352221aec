"""boss > mid > (inner, limited, held, rest): agents that wait in every way at once.

While TEST_LIMITED is set, the provider of `limited` refuses all requests.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from continuations import Agent, Flow, ToolContext, every, sleep, tool, workflow
from continuations.errors import ModelError
from tests import effect_log, sample_app, scripts
from tests.effect_log import Effect
from tests.engine.waiting_tools import nap, price, question, scan
from tests.scripts import Line, Script, call

SCRIPT: Script = {
    "go": [[call("mid", input="all")], "end"],
    "all": [
        [
            call("inner", input="tools"),
            call("limited", input="model"),
            call("held", input="turns"),
            call("rest", seconds=3600),
        ],
        "all done",
    ],
    "tools": [
        [
            call("pay", what="bill"),
            call("slow", what="letter"),
            call("question", text="Desk?"),
            call("price", article="lamp"),
            call("scan", document="a.pdf"),
            call("nap", seconds=3600),
        ],
        "tools done",
    ],
    "model": ["model done"],
    "turns": [[call("act", what="x")], "turns done"],
}


@tool(timeout=0.2)
async def slow(what: str, ctx: ToolContext) -> str:
    """Send a letter, and do not return in time."""
    effect_log.record(Effect.of("slow", what, ctx))
    await asyncio.Event().wait()
    return what


@workflow
async def rest(flow: Flow, seconds: float) -> str:
    """Rest for some seconds."""
    began = flow.now()
    await sleep(timedelta(seconds=seconds))
    return f"rested {(flow.now() - began).total_seconds() >= seconds}"


def next_line(messages: Sequence[Mapping[str, Any]]) -> Line:
    """Return the next line of the script, or the refusal of the provider."""
    if scripts.first_user_message(messages) == "model" and os.environ["TEST_LIMITED"]:
        return ModelError("status 429", retryable=True, retry_after=600)
    return scripts.next_line(SCRIPT, messages)


def agents() -> list[Agent]:
    model = scripts.scripted_model(next_line)
    pay, act = (
        make(effect_log.record) for make in (sample_app.make_pay, sample_app.make_act)
    )
    inner = Agent("inner", tools=[pay, slow, question, price, scan, nap], model=model)
    limited = Agent("limited", model=model)
    held = Agent("held", tools=[act], model=model, suspend_when=[every(turns=1)])
    mid = Agent("mid", tools=[inner, limited, held, rest], model=model)
    return [Agent("boss", tools=[mid], model=model)]
