"""A wrong clock and a slow store together: no worker starts a call without a claim.

A create returns the store's time, but not when within the request it was taken. So a
slow request hides how far a clock is off. Random draws hardly ever combine the two, so
these schedules have fixed times.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.simulation.actors import Actor, start_run
from tests.simulation.evidence import Evidence
from tests.simulation.fault_schedule import FaultSchedule, OperationPlan
from tests.simulation.laws import broken_laws
from tests.simulation.schedule import sweep_until_idle
from tests.simulation.sim_environment import SimEnvironment

CLOCK_OFFSET_SECONDS = -20.0
SLOW_REPLY_SECONDS = 12.6


class SlowRepliesForStarter(FaultSchedule):
    """Replies to the starter's creates are slow; there is no other fault."""

    def plan_operation(self, name: str, rng: random.Random, verb: str) -> OperationPlan:
        """Return the course of a store operation."""
        del rng
        is_slow = name.startswith("starter") and verb == "create"
        delay = SLOW_REPLY_SECONDS if is_slow else 0.01
        return OperationPlan(None, "before", 0.01, delay, 0.0)


async def _start(actor: Actor) -> None:
    await start_run(actor, "r0")


async def _resume_after(actor: Actor, seconds: float) -> None:
    await asyncio.sleep(seconds)
    for _ in range(4):
        await actor.perform("resume", lambda: actor.runner.resume("r0"))
        await asyncio.sleep(0.7)


@pytest.mark.parametrize("seconds", [22.0, 25.0, 35.5, 38.0, 47.3, 49.0, 60.0])
def test_slow_reply_hides_no_wrong_clock(seconds: float) -> None:
    """Promise 3 (one worker): no call begins after another process took over.

    A clock that is 20 s behind looks only 7.4 s behind if the reply takes 12.6 s.
    """
    environment = SimEnvironment(1, SlowRepliesForStarter(1, frozenset(), frozenset()))
    environment.tree_of_run["r0"] = "plain"
    starter, worker = Actor(environment, "starter"), Actor(environment, "worker")
    starter.process.clock_offset = CLOCK_OFFSET_SECONDS
    starter.process.run(_start(starter))
    worker.process.run(_resume_after(worker, seconds))
    environment.loop.run_until_idle()
    sweep_until_idle(environment)
    environment.close()

    assert {} == broken_laws(Evidence(environment))
