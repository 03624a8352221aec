"""A crash before or after any storage operation: the run comes to the same end.

In one process: `crashed` makes a store dead from one operation on, as if nobody were
there to do the rest. A new runner on the store below is the process that comes after.
`test_kills.py` does the same to real processes, at fewer places.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from continuations import (
    Agent,
    AlreadyDecided,
    Answer,
    Approve,
    Finished,
    RunBusy,
    Runner,
    RunNotFound,
    Suspended,
)
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests.engine import scripts
from tests.engine.apps import office
from tests.engine.offices import Clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from continuations import Outcome, Wait
    from continuations_storage import Store
    from tests.engine.world import World

# Every kind of call in every kind of place: parallel, nested, gated, in a row.
SCRIPT: scripts.Script = {
    "go": [
        [["left", {"input": "A"}], ["act", {"what": "1"}], ["right", {"input": "B"}]],
        [["push", {"what": "2"}], ["pay", {"what": "3"}]],
        "all done",
    ],
    "A": [[["clerk", {"input": "C"}], ["read", {"what": "4"}]], "A done"],
    "B": [[["pay", {"what": "5"}]], [["book", {"what": "6"}]], "B done"],
    "C": [[["pay", {"what": "7"}], ["act", {"what": "8"}]], "C done"],
}
EVERY_EFFECT = [
    *("act 1", "act 8", "book 6", "pay 3", "pay 5", "pay 7", "push 2", "read 4")
]


def tree() -> Agent:
    """Return the office with the script of this file."""
    tools = [office.act, office.pay, office.read, office.push, office.book]
    model = scripts.model(SCRIPT)
    clerk = Agent("clerk", tools=tools, model=model)
    workers = [Agent("worker", tools=[*tools, clerk], model=model) for _ in "12"]
    left, right = workers[0].as_tool(name="left"), workers[1].as_tool(name="right")
    return Agent("boss", tools=[*tools, left, right], model=model)


def settle(runner: Runner, wait: Wait, world: World) -> None:
    """Say yes; of an unknown outcome, say what the ledger of effects says."""
    verdict: Approve | Answer = Approve(by="kim")
    verb = {"act": "acted", "pay": "paid", "book": "booked"}[wait.tool]
    what = wait.arguments["what"]
    if wait.kind == "unknown" and f"{wait.tool} {what}" in world.done():
        verdict = Answer(f"{verb} {what}", by="kim")
    # The process that died may have recorded it already, in other words.
    with suppress(AlreadyDecided):
        runner.decide(wait.id, verdict)


def by_hand(runner: Runner, world: World, clock: Clock) -> Outcome:
    """Start or resume the run, decide what waits, and so on to its end."""
    while True:
        try:
            outcome = runner.resume("r1")
        except RunNotFound:
            outcome = runner.start("go", run_id="r1")
        except RunBusy:
            clock.seconds += 31
            continue
        if not isinstance(outcome, Suspended):
            return outcome
        for wait in outcome.waits:
            settle(runner, wait, world)


def by_sweeps(runner: Runner, world: World, clock: Clock) -> Outcome:
    """Do nothing but sweep, and decide what is listed as waiting."""
    for _ in range(20):
        clock.seconds += 120
        swept = runner.sweep()
        assert {} == swept.failed
        for summary in list(runner.waiting()):
            settle(runner, runner.wait(summary.id), world)
        try:
            status = runner.look("r1").status
        except RunNotFound:
            return runner.start("go", run_id="r1")
        if status not in {"running", "suspended"}:
            return runner.resume("r1")
    raise AssertionError(list(runner.waiting()))


def uninterrupted(world: World, clock: Clock, store: Store) -> Outcome:
    """Let the story happen once, as the process that will crash does it."""
    return by_hand(Runner(tree(), store=store, clock=clock), world, clock)


@pytest.mark.parametrize("recovery", [by_hand, by_sweeps])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_every_storage_operation(
    world: World,
    moment: Literal["before", "after"],
    recovery: Callable[[Runner, World, Clock], Outcome],
) -> None:
    """R-A3, R-A6 to R-A8, R-E10, X-06, X-08, X-11, SL-10, SL-19, PA-32."""
    # Given how the story ends when nothing happens
    quiet = FaultyStore(MemoryStore())
    end = uninterrupted(world, Clock(), quiet)
    assert EVERY_EFFECT == sorted(world.done())
    count = len(quiet.operations)
    deaths = 0

    for number in range(1, count + 1):
        (world.folder / "effects").unlink()
        (world.folder / "turns").unlink(missing_ok=True)
        clock = Clock()
        below = MemoryStore(clock.now)

        # When the process dies at one operation
        dying = FaultyStore(below, at(number, crashed(moment)))
        try:
            uninterrupted(world, clock, dying)
        except Crash:
            deaths += 1

        # And another one comes
        runner = Runner(tree(), store=below, clock=clock)
        after = recovery(runner, world, clock)
        if isinstance(after, Suspended):
            after = by_hand(runner, world, clock)

        # Then the run comes to the same end, and each effect happened once
        where = f"{moment} {number}: {dying.operations[-1]}"
        assert isinstance(after, Finished), where
        assert isinstance(end, Finished)
        mine, theirs = (each.continuation.root.messages for each in (after, end))
        assert theirs == mine, where
        repeatable = [each for each in world.done() if each[:4] in {"push", "read"}]
        others = [each for each in world.done() if each not in repeatable]
        assert EVERY_EFFECT == sorted({*world.done()}), where
        assert len(others) == len(set(others)), where
        assert len(repeatable) <= 3, where
        # And a crash makes at most the turns that were under way be asked again
        assert len(world.turns()) - len(set(world.turns())) <= 3, where
        # And a sweep leaves nothing behind that would be looked at for ever
        for _ in range(3):
            clock.seconds += 3600
            runner.sweep()
        assert [] == left_over(below), where

    # Parallel frames share commits as they come, so counts differ by a few.
    assert deaths > count * 0.9


def left_over(store: MemoryStore) -> list[str]:
    """Return the markers and waits of a store."""
    return [key for key in store._bodies if key.startswith(("markers/", "waits/"))]  # pyright: ignore[reportPrivateUsage]
