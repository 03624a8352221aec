"""Workflows are typed: `flow.call`, the waits, `bind`, and the result of a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, assert_type

from continuations import (
    Agent,
    AsyncRunner,
    Failed,
    Finished,
    Flow,
    Runner,
    Suspended,
    ToolContext,
    ask,
    external,
    run,
    sleep,
    tool,
    wait_for,
    workflow,
)
from continuations.tools import ToolWait


@dataclass
class Claim:
    """A typed output."""

    cents: int


@tool
def price(item: str, count: int = 1) -> int:
    """Return a price."""
    return len(item) * count


@tool(idempotent=True)
async def book(cents: int) -> Claim:
    """Book an amount."""
    return Claim(cents)


@tool(approval=True)
def pay(ctx: ToolContext, cents: int) -> str:
    """Pay an amount."""
    return f"{ctx.idempotency_key}: {cents}"


@tool
async def post(ctx: ToolContext, text: str) -> bool:
    """Post a text."""
    return ctx.attempt == len(text)


@tool
def choose(what: str) -> ToolWait[int]:
    """Ask a person."""
    return ask(f"How many {what}?", int)


@tool
async def scan(ctx: ToolContext, page: int) -> ToolWait[Claim]:
    """Start a job."""
    return external(f"scan {page} {ctx.wait_id}", Claim)


def plain(text: str) -> float:
    """Return a number; a function needs no decorator to be a tool."""
    return len(text) / 2


clerk = Agent("clerk", output_type=Claim)
writer = Agent("writer")


@workflow(tools=[price])
async def inner(flow: Flow, item: str, *, count: int = 1) -> int:
    """Return a price."""
    return await flow.call(price, item, count=count)


@workflow
async def bare(_flow: Flow) -> None:
    """Do nothing."""


@workflow(
    tools=[price, book, pay, post, choose, scan, plain],
    agents=[clerk, writer, inner],
)
async def outer(flow: Flow, item: str) -> list[Claim]:
    """Call everything."""
    assert_type(await flow.call(price, item), int)
    assert_type(await flow.call(price, item, count=2), int)
    assert_type(await flow.call(book, 5), Claim)
    assert_type(await flow.call(pay, 5), str)
    assert_type(await flow.call(post, text=item), bool)
    assert_type(await flow.call(choose, item), int)
    assert_type(await flow.call(scan, 1), Claim)
    assert_type(await flow.call(plain, item), float)
    assert_type(await flow.call(clerk, item), Claim)
    assert_type(await flow.call(writer, item), Any)
    assert_type(await flow.call(inner, item, count=3), int)
    flow.call(price, 5)  # type: ignore[call-overload]
    return []


@workflow
async def waits(_flow: Flow) -> str:
    """Ask, wait for an event and a job, sleep and ask."""
    assert_type(await ask("How many?", int), int)
    assert_type(await ask("Which?", Claim), Claim)
    assert_type(await wait_for("paid", int, key="k"), int)
    assert_type(await wait_for("paid"), Any)
    assert_type(await external("scan", Claim), Claim)
    assert_type(await external("scan"), Any)
    assert_type(await sleep(timedelta(days=1)), str)
    return await ask("Which color?")


def with_a_store() -> None:
    runner = Runner(outer, store="memory:")
    assert_type(runner, Runner[list[Claim]])
    outcome = runner.start(outer.bind("lamp"))
    assert_type(outcome, Finished[list[Claim]] | Suspended | Failed)
    assert_type(outcome.result(), list[Claim])
    assert_type(runner.resume("r1").result(), list[Claim])
    outer.bind(5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    outer.bind()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def without_a_store() -> None:
    assert_type(run(inner.bind("lamp", count=2)).result(), int)
    assert_type(run(bare.bind()).result(), None)


async def asynchronously() -> None:
    runner = AsyncRunner(inner, store="memory:")
    assert_type((await runner.start(inner.bind("lamp"))).result(), int)
