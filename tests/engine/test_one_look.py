"""A store that tells its time when it lists: fewer requests, and the same promises."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from continuations import Answer, Approve, ClockOff, Finished, Runner, Suspended, tool
from continuations_storage import MemoryStore
from continuations_storage.contract import Page
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests.engine import offices
from tests.engine.offices import Clock

if TYPE_CHECKING:
    from continuations import Outcome
    from continuations_storage import Store
    from continuations_storage.faults import Moment
    from tests.engine.scripts import Script

MOMENTS: tuple[Moment, ...] = ("before", "after")
SCRIPT: Script = {"go": [[["pay", {"what": "x"}]], "end"]}


class Bucket(MemoryStore):
    """Tells the time of its own clock with every listing and every create."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock.now)
        self._time = clock

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        page = Page(await super().keys(prefix, after, limit))
        # As S3 does: in whole seconds.
        page.told = self._time.now().replace(microsecond=0)
        return page


def runner(store: Store, clock: Clock, paid: list[str]) -> Runner:
    """Return a runner whose one tool needs a yes."""

    @tool(approval=True)
    def pay(what: str) -> str:
        """Pay."""
        paid.append(what)
        return "paid"

    return offices.runner(SCRIPT, pay, store=store, clock=clock)


def decided(store: Store, clock: Clock, paid: list[str]) -> None:
    """Start a run and have it approved, in processes of their own."""
    outcome = runner(store, clock, paid).start("go", run_id="r1")
    assert isinstance(outcome, Suspended)
    Runner([], store=store, clock=clock).decide(outcome.waits[0].id, Approve(by="kim"))


def requests(store: FaultyStore) -> dict[str, int]:
    """Return how often each verb was asked; deletes are free, so they do not count."""
    verbs = [operation.verb for operation in store.operations]
    return {verb: verbs.count(verb) for verb in ("create", "read", "keys")}


def test_one_approval_cycle_costs_so_many_requests() -> None:
    """Section 9: at most 14 from the suspension to the end, told by parts."""
    clock, paid = Clock(), list[str]()
    inner = Bucket(clock)
    starting, deciding, resuming = (FaultyStore(inner) for _ in range(3))

    outcome = runner(starting, clock, paid).start("go", run_id="r1")
    assert isinstance(outcome, Suspended)
    clerk = Runner([], store=deciding, clock=clock)
    clerk.decide(outcome.waits[0].id, Approve(by="kim"))
    ended = runner(resuming, clock, paid).resume("r1")

    assert isinstance(ended, Finished)
    # A marker, version 1, the suspended version, its wait; a look after each version.
    assert {"create": 4, "read": 0, "keys": 2} == requests(starting)
    # The wait; a marker, the decision.
    assert {"create": 2, "read": 1, "keys": 0} == requests(deciding)
    # A look, the version, the decision; the claim, a look; the result and a question
    # whether somebody cancelled; the end.
    assert {"create": 3, "read": 3, "keys": 2} == requests(resuming)


def test_a_clock_that_is_off_is_told_by_the_look() -> None:
    """Section 5, clocks: nothing is written, and nothing runs."""
    clock, paid = Clock(), list[str]()
    store = Bucket(clock)
    decided(store, clock, paid)
    for seconds in (-60, 60):
        off = Clock()
        off.seconds = clock.seconds + seconds
        watched = FaultyStore(store)

        with pytest.raises(ClockOff):
            runner(watched, off, paid).resume("r1")

        assert {"create": 0, "read": 2, "keys": 1} == requests(watched)
    assert [] == paid
    assert isinstance(runner(store, clock, paid).resume("r1"), Finished)


def test_a_crash_anywhere_is_found_by_the_marker_of_what_came() -> None:
    """R-A3, R-E10, SL-10: also where no guard was made, sweeps alone end the run."""
    for number in range(1, 40):
        for moment in MOMENTS:
            clock, paid = Clock(), list[str]()
            store = Bucket(clock)
            decided(store, clock, paid)
            dying = FaultyStore(store, at(number, crashed(moment)))
            with suppress(Crash):
                runner(dying, clock, paid).resume("r1")
            if not dying.dead:
                assert number > 10
                return

            ended = swept(store, clock, paid)

            assert isinstance(ended, Finished), (number, moment)
            assert ["x"] == paid, (number, moment)


def swept(store: Store, clock: Clock, paid: list[str]) -> Outcome:
    """Let sweeps do the rest; of an unknown outcome, say what is the case."""
    for _ in range(4):
        clock.seconds += 120
        runner(store, clock, paid).sweep()
        clerk = Runner([], store=store, clock=clock)
        for summary in list(clerk.waiting()):
            verdict = Answer("paid", by="kim") if paid else Approve(by="kim")
            clerk.decide(summary.id, verdict)
    assert [] == asyncio.run(store.keys("waits/"))
    assert [] == asyncio.run(store.keys("markers/"))
    return runner(store, clock, paid).resume("r1")
