"""After a repair, no function of a tool that waits repeats on a guess."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from continuations import (
    Answer,
    Approve,
    Fail,
    Finished,
    Outcome,
    Runner,
    Suspended,
    ToolContext,
    ask,
    external,
    sleep,
    tool,
)
from continuations.core import ulid
from continuations.errors import AlreadyDecided
from continuations.ledger import layout
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import repair
from continuations.tools import ToolWait
from continuations.wire.fields import to_milliseconds
from tests import effect_log
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss
from tests.hostile.editable_store import EditableStore
from tests.outcomes import expect, only_wait
from tests.scripts import call


def make_runner(
    store: EditableStore,
    clock: ManualClock,
    wait: Callable[[], ToolWait[Any]],
    *trips: str,
) -> Runner:
    """Return a runner whose tool waits, with a function that gets the answer."""

    @tool
    def receipt(trip: str, ctx: ToolContext) -> ToolWait[Any]:
        """Get a receipt."""
        effect_log.append_effect("receipt", trip, wait=ctx.wait_id)
        return wait()

    @receipt.on_answer
    def received(answer: str, trip: str) -> str:
        effect_log.append_effect("received", trip)
        return f"{trip}: {answer}"

    calls = [call("receipt", trip=trip) for trip in trips or ("Rome",)]
    boss = make_boss({"go": [calls, "end"]}, receipt)
    return Runner(boss, store=store, clock=clock)


def lose_versions_after(
    store: EditableStore, clock: ManualClock, good: int, newest: int
) -> None:
    """Damage the versions after a good one, and repair the run."""
    clock.seconds += 600
    for number in range(good + 1, newest + 1):
        store.replace_body(layout.version_key("r1", number), b"")
    numbers = iter(range(1, 99))

    def new_ulid() -> str:
        milliseconds = to_milliseconds(clock.now())
        return ulid.encode_ulid(milliseconds, next(numbers).to_bytes(10, "big"))

    asyncio.run(repair(Objects(store), "r1", now=clock.now(), new_ulid=new_ulid))


def newest_version(runner: Runner) -> int:
    """Return the number of the newest version."""
    return runner.look("r1").version


@pytest.mark.parametrize(
    "wait", [lambda: ask("Which?"), lambda: external("scan"), lambda: sleep(60)]
)
def test_function_that_may_have_run_in_lost_versions_is_asked_about(
    wait: Callable[[], ToolWait[Any]],
) -> None:
    store, clock = EditableStore(), ManualClock()
    runner = make_runner(store, clock, wait)
    outcome = expect(runner.start("go", run_id="r1"), Suspended)
    good = newest_version(runner)
    clock.seconds += 61
    if outcome.waits[0].rules.has_object:
        runner.decide(outcome.waits[0].id, Answer("blue"))
    assert isinstance(runner.resume("r1"), Finished)

    lose_versions_after(store, clock, good, newest_version(runner))
    again = expect(runner.resume("r1"), Suspended)

    assert [("unknown", 1)] == [(each.kind, each.stage) for each in again.waits]
    assert ["receipt Rome", "received Rome"] == effect_log.names()


def test_later_stage_that_may_have_run_in_lost_versions_is_asked_about() -> None:
    stages: list[tuple[int, str, object]] = []

    @tool
    def order(what: str) -> ToolWait[str]:
        """Order something."""
        return ask(f"How many {what}?", memo="asked")

    @order.on_answer
    def next_step(answer: str, ctx: ToolContext) -> ToolWait[str] | str:
        stages.append((ctx.stage, answer, ctx.memo))
        return ask("Paid?", memo="ordered") if ctx.stage == 1 else "done"

    store, clock = EditableStore(), ManualClock()
    boss = make_boss({"go": [[call("order", what="pens")], "end"]}, order)
    runner = Runner(boss, store=store, clock=clock)
    runner.start("go", run_id="r1")
    [first] = runner.look("r1").waits
    runner.decide(first.id, Answer("3"))
    runner.resume("r1")
    good = newest_version(runner)
    [second] = runner.look("r1").waits
    runner.decide(second.id, Answer("yes"))
    assert isinstance(runner.resume("r1"), Finished)

    lose_versions_after(store, clock, good, newest_version(runner))
    again = expect(runner.resume("r1"), Suspended)

    assert [("unknown", 2)] == [(each.kind, each.stage) for each in again.waits]
    assert [1, 2] == [stage for stage, _, _ in stages]
    runner.decide(again.waits[0].id, Approve())
    assert isinstance(runner.resume("r1"), Finished)
    assert (2, "yes", "ordered") == stages[-1]


def test_job_keeps_the_id_that_the_other_system_has() -> None:
    store, clock = EditableStore(), ManualClock()
    runner = make_runner(store, clock, lambda: external("scan"), "Rome", "Oslo")
    runner.start("go", run_id="r1")
    good = newest_version(runner)
    rome, oslo = effect_log.effects()
    runner.decide(oslo["wait"], Answer("2 pages"))
    runner.resume("r1")

    lose_versions_after(store, clock, good, newest_version(runner))
    runner.decide(rome["wait"], Answer("7 pages"))
    outcome = runner.resume("r1")

    # The function of the other job may have run in a lost version: it did.
    assert isinstance(outcome, Suspended)
    assert ["unknown"] == [wait.kind for wait in outcome.waits]
    runner.decide(outcome.waits[0].id, Answer("Oslo: 2 pages"))
    assert isinstance(runner.resume("r1"), Finished)
    assert sorted(
        ["receipt Rome", "receipt Oslo", "received Oslo", "received Rome"]
    ) == sorted(effect_log.names())


def test_answer_of_a_wait_that_is_lost_leaves_the_run_resumable() -> None:
    """Its digest is that of the lost wait, and the call counts as started again."""
    store, clock = EditableStore(), ManualClock()
    runner = make_runner(store, clock, lambda: external("scan"))
    outcome = expect(runner.start("go", run_id="r1"), Suspended)
    runner.decide(outcome.waits[0].id, Answer("7 pages"))
    parked = newest_version(runner)

    lose_versions_after(store, clock, parked - 1, parked)
    again: Outcome = runner.resume("r1")

    assert isinstance(again, Suspended)
    assert ["unknown"] == [each.kind for each in again.waits]
    assert ["receipt Rome"] == effect_log.names()


def test_second_verdict_after_an_error_is_told_what_was_recorded() -> None:
    store = EditableStore()
    runner = make_runner(store, ManualClock(), lambda: external("scan"))
    wait = only_wait(runner.start("go", run_id="r1"))
    runner.decide(wait.id, Fail("the paper jammed", by="scanner"))
    assert ["receipt Rome"] == effect_log.names()

    with pytest.raises(AlreadyDecided, match="it was ended with an error by scanner"):
        runner.decide(wait.id, Answer("7 pages"))
