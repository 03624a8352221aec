"""Agents whose tools wait: for an answer, a time, and a job of another system."""

from __future__ import annotations

import os
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from continuations import (
    Agent,
    Answer,
    Runner,
    ToolContext,
    ask,
    external,
    sleep,
    tool,
    wait_for,
)
from continuations.tools import ToolWait
from tests import effect_log, scripts
from tests.effect_log import Effect
from tests.engine.agent_builders import text_tool


class Size(Enum):
    """The size of a laptop."""

    SMALL = "small"
    LARGE = "large"


class Laptop(BaseModel):
    """The laptop that a person chose."""

    name: str
    size: Size = Size.SMALL


@tool
def laptop(person: str, ctx: ToolContext) -> ToolWait[Laptop]:
    """Ask which laptop a person gets."""
    effect_log.record(Effect.of("laptop", person, ctx))
    standard = Answer(Laptop(name="standard"))
    days = timedelta(days=3)
    question = f"Which laptop for {person}?"
    return ask(question, Laptop, within=days, on_deadline=standard)


@laptop.on_answer
def chosen(answer: Laptop, person: str, ctx: ToolContext) -> str:
    """Order the laptop."""
    size = answer.size.value
    effect_log.record(Effect.of("chosen", f"{person} {answer.name} {size}", ctx))
    return f"{person} gets {answer.name}"


@tool
def question(text: str, ctx: ToolContext) -> ToolWait[str]:
    """Ask a person."""
    effect_log.record(Effect.of("question", text, ctx))
    return ask(text)


@tool
def nap(seconds: float, ctx: ToolContext) -> ToolWait[str]:
    """Wait for a time."""
    effect_log.record(Effect.of("nap", seconds, ctx))
    return sleep(seconds)


@tool
def scan(document: str, ctx: ToolContext) -> ToolWait[dict[str, Any]]:
    """Start a scan in another system; it may answer before the tool returns."""
    effect_log.record(Effect.of("scan", document, ctx))
    if document.startswith("early"):
        runner = Runner([], store=os.environ["TEST_STORE"])
        runner.decide(ctx.wait_id, Answer({"pages": 7}, by="scanner"))
    if document == "early crash":
        os._exit(9)
    return external("scan", dict[str, Any])


@scan.on_cancel
def stop_scan(document: str, ctx: ToolContext) -> None:
    """Tell the other system that the scan is not needed."""
    told = effect_log.read_lines(Path(os.environ[effect_log.EFFECTS_VARIABLE]))
    effect_log.record(Effect.of("stop_scan", document, ctx))
    if document == "stop and crash" and told[-1]["tool"] == "scan":
        os._exit(9)


@tool
def price(article: str, ctx: ToolContext) -> ToolWait[int]:
    """Wait for the price of an article."""
    effect_log.record(Effect.of("price", article, ctx))
    return wait_for("price", int, key=article)


pay = text_tool("pay", "paid {what}", {"what": str}, logs=True, approval=True)


@tool
def train(model: str, ctx: ToolContext) -> ToolWait[str]:
    """Ask a person how long, start a job, and look until it has ended."""
    effect_log.record(Effect.of("train", model, ctx))
    return ask("How many hours?", memo={"model": model})


@train.on_answer
def next_step(answer: str, ctx: ToolContext) -> ToolWait[str] | str:
    """Start the job, or tell that it has ended."""
    effect_log.record(Effect.of(f"stage {ctx.stage}", f"{answer} {ctx.memo}", ctx))
    if ctx.stage > 1:
        return f"trained {ctx.memo['model']} for {ctx.memo['hours']} hours"
    return external("job", str, memo={**ctx.memo, "hours": answer})


def agents() -> list[Agent]:
    """Return boss > hr > clerk, and boss > clerk, with the tools that wait."""
    model = scripts.scripted_model(scripts.of_environment())
    tools: list[Any] = [laptop, question, nap, scan, price, pay, train]
    clerk = Agent("clerk", tools=tools, model=model)
    hr = Agent("hr", tools=[clerk], model=model)
    return [Agent("boss", tools=[hr, clerk], model=model)]
