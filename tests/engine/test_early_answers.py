"""A process that still has an old version reads the answers of a sound run."""

from __future__ import annotations

import asyncio

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    Finished,
    Runner,
    Suspended,
    ToolContext,
    external,
    tool,
)
from continuations.ledger.arrivals.arrivals import read_arrivals
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.tools import ToolWait
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.outcomes import expect


@pytest.mark.parametrize("is_early", [True, False])
def test_only_an_early_answer_counts_for_a_version_without_the_wait(
    store: MemoryStore, clock: ManualClock, *, is_early: bool
) -> None:
    """A later version opened the wait, and the other answer has the wait's digest."""
    dying = FaultyStore(store)
    ids: list[str] = []

    agent = dying_agent(dying, ids)
    with pytest.raises(Crash):
        Runner(agent, store=dying, clock=clock).start("go", run_id="r1")
    clock.seconds += 61
    runner = Runner(agent, store=store, clock=clock)
    asked = expect(runner.resume("r1"), Suspended)
    assert ["unknown"] == [wait.kind for wait in asked.waits]
    objects = Objects(store)
    old = asyncio.run(Versions(objects, "r1").load_newest()).state

    # When another process goes on, and the other system answers
    if is_early:
        runner.decide(ids[0], Answer(7))
    runner.decide(asked.waits[0].id, Approve())
    if not is_early:
        runner.resume("r1")
        runner.decide(ids[0], Answer(7))

    arrived = asyncio.run(read_arrivals(objects, old))
    assert is_early == (ids[0] in arrived.decisions)
    assert asked.waits[0].id in arrived.decisions
    assert isinstance(runner.resume("r1"), Finished)


def dying_agent(dying: FaultyStore, ids: list[str]) -> Agent:
    """Return an agent whose worker dies in the tool; the ids of its waits are noted."""

    @tool
    def scan(document: str, ctx: ToolContext) -> ToolWait[int]:
        """Scan a document."""
        del document
        ids.append(ctx.wait_id)
        dying.has_crashed = True
        return external("scan", int)

    model = ScriptedModel([ToolCall("scan", {"document": "a"}), "end"])
    return Agent("boss", tools=[scan], model=model)


def test_no_object_of_an_unknown_outcome_is_left_after_an_early_answer() -> None:
    """The answer tells the outcome, and a worker dies at each operation after that."""
    for point in every_crash("before", "after", more_than=8):
        store, clock = MemoryStore(), ManualClock()
        dying = FaultyStore(store)
        ids: list[str] = []
        agent = dying_agent(dying, ids)
        with pytest.raises(Crash):
            Runner(agent, store=dying, clock=clock).start("go", run_id="r1")
        clock.seconds += 61
        runner = Runner(agent, store=store, clock=clock)
        assert isinstance(runner.resume("r1"), Suspended)
        runner.decide(ids[0], Answer(7))
        with point.process(store) as again:
            Runner(agent, store=again, clock=clock).resume("r1")

        for _ in range(3):
            clock.seconds += 86_400
            assert {} == runner.sweep().errors
        assert isinstance(runner.resume("r1"), Finished)
        assert [] == remaining_keys(store)
