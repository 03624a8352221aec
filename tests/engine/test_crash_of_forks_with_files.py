"""A process dies while it forks a run with attachments."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from continuations import Agent, Approve, Finished, Runner
from continuations_storage import MemoryStore, Store
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine import attachment_agents
from tests.engine.past_agents import RUN_ID, only_wait
from tests.scripts import call

SCRIPT = {"go": [[call("draw", what="x")], [call("publish", what="x")], "done"]}


def make_runner(store: Store, clock: ManualClock) -> Runner:
    """Return a runner whose agent draws a file, and then waits."""
    model = attachment_agents.seeing_model(SCRIPT)
    agent = Agent("boss", tools=attachment_agents.TOOLS, model=model)
    return Runner(agent, store=store, clock=clock)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_fork_that_dies_is_completed_with_all_its_attachments(moment: Any) -> None:
    """A repeat makes the fork whole, also if the source is erased after it."""
    for point in every_crash(moment, more_than=8, step=2):
        clock = ManualClock()
        store = MemoryStore(clock.now)
        runner = make_runner(store, clock)
        runner.start("go", run_id=RUN_ID)
        decisions = {only_wait(runner).id: Approve(by="kim")}
        with point.process(store) as dying:
            make_runner(dying, clock).fork(RUN_ID, run_id="fork", decisions=decisions)
        clock.seconds += 120
        assert {} == runner.sweep().errors, point

        runner.fork(RUN_ID, run_id="fork", decisions=decisions)
        runner.erase(RUN_ID)

        ended = runner.resume("fork")
        assert isinstance(ended, Finished), point
        nonce = runner.look("fork").run_state.run.run_nonce
        assert 2 == len(asyncio.run(store.keys(f"runs/fork/x/{nonce}"))), point
        clock.seconds += 120
        runner.sweep()
        left = asyncio.run(store.keys("markers/"))
        assert [] == [key for key in left if key.endswith("@fork")], point
