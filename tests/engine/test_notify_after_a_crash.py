"""Waits whose worker died, or was cancelled, before it could notify."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from continuations import (
    Agent,
    Approve,
    AsyncRunner,
    Finished,
    Runner,
    Suspended,
)
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests import scripts
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine import agent_builders
from tests.engine.payment_agent import ONE_PAY_SCRIPT, pay
from tests.scripts import call
from tests.stores import StoreWithListingTime

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations import Wait
    from continuations.models.interface import ModelReply, ModelRequest
    from continuations_storage import Store
    from continuations_storage.faults import Moment


def recording(notified: list[str]) -> Callable[[Wait], None]:
    """Return a notifier that notes the ids."""

    def notify(wait: Wait) -> None:
        notified.append(wait.id)

    return notify


def make_runner(store: Store, clock: ManualClock, notified: list[str]) -> Runner:
    """Return a runner of one process."""
    return agent_builders.make_runner(
        ONE_PAY_SCRIPT, pay, store=store, clock=clock, notify=recording(notified)
    )


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("recovery", ["sweep", "resume"])
def test_wait_is_notified_after_a_crash_at_every_operation(
    moment: Moment, recovery: str
) -> None:
    """The marker that guards the version is left, so the next process notifies."""
    for point in every_crash(moment, more_than=5):
        clock, notified = ManualClock(), list[str]()
        inner = MemoryStore(clock.now)
        with point.process(inner) as dying:
            make_runner(dying, clock, notified).start("go", run_id="r1")
        clock.seconds += 120
        runner = make_runner(inner, clock, notified)
        if [] == asyncio.run(inner.keys("runs/r1/v/")):
            continue  # the run does not exist

        if recovery == "sweep":
            runner.sweep()
        else:
            runner.resume("r1")

        [wait] = runner.look("r1").waits
        assert {wait.id} == set(notified), point
        # And no process notifies again after that.
        notified.clear()
        clock.seconds += 120
        runner.sweep()
        runner.resume("r1")
        assert [] == notified, point


def test_wait_is_notified_although_a_decision_guards_its_version() -> None:
    """A store that tells its time needs no guard: the decision's marker serves."""
    script = {"go": [[call("pay")], [call("pay")], "end"]}
    for point in every_crash("after", more_than=7):
        clock, notified = ManualClock(), list[str]()
        inner = StoreWithListingTime(clock)

        def runner(store: Store, clock: ManualClock, notified: list[str]) -> Runner:
            return agent_builders.make_runner(
                script, pay, store=store, clock=clock, notify=recording(notified)
            )

        outcome = runner(inner, clock, notified).start("go", run_id="r1")
        assert isinstance(outcome, Suspended)
        Runner([], store=inner, clock=clock).decide(outcome.waits[0].id, Approve())
        with point.process(inner) as dying:
            runner(dying, clock, notified).resume("r1")
        for _ in range(2):
            clock.seconds += 120
            runner(inner, clock, notified).sweep()

        [wait] = runner(inner, clock, notified).look("r1").waits
        assert wait.id != outcome.waits[0].id
        assert wait.id in notified, point


def test_timeout_of_start_while_a_sibling_waits_notifies() -> None:
    """A time limit cancels `start()`; the wait of another agent is published."""
    clock, notified = ManualClock(), list[str]()
    store = MemoryStore(clock.now)

    class Slow:
        name = "slow"

        async def reply(self, request: ModelRequest) -> ModelReply:
            """Never reply."""
            del request
            waiting.set()
            await asyncio.Event().wait()
            raise AssertionError

    script = {
        "go": [[call("a", input="A"), call("b", input="B")], "end"],
        "A": [[call("pay")], "A end"],
    }
    model = scripts.scripted_model(script)
    children = [Agent("a", tools=[pay], model=model), Agent("b", model=Slow())]
    boss = Agent("boss", tools=children, model=model)

    async def scenario() -> None:
        runner = AsyncRunner(boss, store=store, clock=clock, notify=recording(notified))
        starting = asyncio.create_task(runner.start("go", run_id="r1"))
        await waiting.wait()
        for _ in range(500):
            if (await runner.look("r1")).waits:
                break
            await asyncio.sleep(0.01)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        [wait] = (await runner.look("r1")).waits
        assert [wait.id] == notified
        assert [wait.id] == [each.id async for each in runner.waiting()]

    waiting = asyncio.Event()
    asyncio.run(scenario())


def test_resume_without_a_decision_publishes_what_a_crash_left() -> None:
    """Also the object of the wait, which `waiting` lists."""
    clock, notified = ManualClock(), list[str]()
    inner = MemoryStore(clock.now)
    dying = FaultyStore(inner, at(7, crashed("before")))
    with suppress(Crash):
        make_runner(dying, clock, notified).start("go", run_id="r1")
    assert [] == list(Runner([], store=inner).waiting())

    runner = make_runner(inner, clock, notified)
    outcome = runner.resume("r1")

    assert isinstance(outcome, Suspended)
    [wait] = outcome.waits
    assert [wait.id] == notified == [each.id for each in runner.waiting()]
    runner.decide(wait.id, Approve())
    assert isinstance(runner.resume("r1"), Finished)
