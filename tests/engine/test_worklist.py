"""The list for people: the next deadlines first, read in parallel, page by page."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from continuations import ApprovalPolicy, Approve, Runner, tool
from continuations.core.ulid import encode_ulid
from continuations.errors import InvalidInput
from continuations.ledger import layout
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import FaultyStore
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.scripts import Script

SCRIPT: Script = {
    "soon": [[("pay_soon", {"what": "a"})], "end"],
    "later": [[("pay_later", {"what": "b"})], "end"],
    "any": [[("pay", {"what": "c"})], "end"],
}


@tool(approval=True)
def pay(what: str) -> str:
    """Pay."""
    return what


@tool(approval=ApprovalPolicy(expires_after=timedelta(hours=1)))
def pay_soon(what: str) -> str:
    """Pay soon."""
    return what


@tool(approval=ApprovalPolicy(expires_after=timedelta(days=3)))
def pay_later(what: str) -> str:
    """Pay later."""
    return what


def make_runner(store: Store, clock: ManualClock) -> Runner:
    """Return a runner whose waits have several deadlines."""
    agent = make_boss(SCRIPT, pay, pay_soon, pay_later)
    return Runner(agent, store=store, clock=clock)


def start_six(store: Store, clock: ManualClock) -> Runner:
    """Start six runs, which wait."""
    runner = make_runner(store, clock)
    for number, task in enumerate(["any", "later", "soon", "any", "soon", "later"]):
        runner.start(task, run_id=f"r{number}")
        clock.seconds += 60
    return runner


def test_next_deadlines_come_first_then_the_oldest_waits(clock: ManualClock) -> None:
    runner = start_six(MemoryStore(clock.now), clock)

    page = runner.worklist()

    rows = [(row.wait.run_id, row.wait.tool, row.expired) for row in page.waits]
    assert [
        ("r2", "pay_soon", False),
        ("r4", "pay_soon", False),
        ("r1", "pay_later", False),
        ("r5", "pay_later", False),
        ("r0", "pay", False),
        ("r3", "pay", False),
    ] == rows
    assert page.next is None
    assert {"what": "a"} == page.waits[0].wait.arguments


def test_expired_wait_is_marked(clock: ManualClock) -> None:
    runner = start_six(MemoryStore(clock.now), clock)
    clock.seconds = 3600 + 150

    expired = [row.wait.run_id for row in runner.worklist().waits if row.expired]

    assert ["r2"] == expired


@pytest.mark.parametrize("limit", [1, 2, 4])
def test_pages_have_each_wait_once_and_no_decided_one(limit: int) -> None:
    clock = ManualClock()
    runner = start_six(MemoryStore(clock.now), clock)
    everything = [row.wait.run_id for row in runner.worklist().waits]
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        page = runner.worklist(after=after, limit=limit)
        found += [row.wait.run_id for row in page.waits]
        if not found[limit:]:
            # The first wait of the next page is decided while a person reads.
            decided = runner.worklist(after=page.next or "", limit=1).waits[0].wait
            runner.decide(decided.id, Approve(by="kim"))
            everything.remove(decided.run_id)
        after = page.next
    assert everything == found


def test_ten_thousand_waits_of_mixed_kinds_need_at_most_11_listings() -> None:
    """The page reads its 100 waits, and nothing else."""
    clock = ManualClock()
    inner = MemoryStore(clock.now)
    start_six(inner, clock)
    counts = {"approval": 4994, "question": 1500, "unknown": 1000, "external": 2500}

    async def fill() -> None:
        for kind, count in counts.items():
            for number in range(count):
                ulid = encode_ulid(10**12, number.to_bytes(10, "big"))
                key = layout.build_wait_id(kind, ulid, f"x{number}")
                await inner.create(f"waits/{key}", b"")
        for number in range(3000):
            ulid = encode_ulid(10**12, number.to_bytes(10, "big"))
            due = 10**12 * 2 + number
            await inner.create(f"markers/{due}-e-{ulid}-abcdefgh@x{number}", b"")

    asyncio.run(fill())
    watched = FaultyStore(inner)

    page = make_runner(watched, clock).worklist(limit=4)

    assert ["r2", "r4", "r1", "r5"] == [row.wait.run_id for row in page.waits]
    verbs = [operation.verb for operation in watched.operations]
    assert verbs.count("keys") <= 11
    assert 4 == verbs.count("read")


@pytest.mark.parametrize(
    "options", [{"limit": 0}, {"limit": 1001}, {"limit": "5"}, {"after": "r1"}]
)
def test_invalid_page_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        make_runner(MemoryStore(), ManualClock()).worklist(**options)
