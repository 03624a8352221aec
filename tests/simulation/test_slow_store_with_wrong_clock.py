"""A clock that is off and a store that is slow: neither alone does harm.

The store tells its time with what it creates, but not when within the request; so a
slow request hides how far a clock is off. No dice: they would hardly ever fall so.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.simulation.actors import Actor, start_run
from tests.simulation.evidence import Evidence
from tests.simulation.fault_schedule import FaultSchedule, OperationPlan
from tests.simulation.laws import broken_laws
from tests.simulation.sim_environment import SimEnvironment
from tests.simulation.simulate import sweep_until_idle

if TYPE_CHECKING:
    import random

CLOCK_OFFSET = -20.0
SLOW_REPLY_SECONDS = 12.6


class SlowRepliesForStarter(FaultSchedule):
    """The replies to one process's creates take long, nothing else goes wrong."""

    def plan_operation(self, name: str, rng: random.Random, verb: str) -> OperationPlan:
        """Return how an operation goes."""
        del rng
        slow = name.startswith("starter") and verb == "create"
        return OperationPlan(
            None, "before", 0.01, SLOW_REPLY_SECONDS if slow else 0.01, 0.0
        )


async def _start(actor: Actor) -> None:
    await start_run(actor, "r0")


async def _resume_after(actor: Actor, seconds: float) -> None:
    await asyncio.sleep(seconds)
    for _ in range(4):
        await actor.perform("resume", lambda: actor.runner.resume("r0"))
        await asyncio.sleep(0.7)


@pytest.mark.parametrize("seconds", [22.0, 25.0, 35.5, 38.0, 47.3, 49.0, 60.0])
def test_a_call_never_begins_after_another_process_took_over(seconds: float) -> None:
    """R-A5, R-A12: 20 s behind passes for 7.5 s while the reply takes 12.6 s."""
    world = SimEnvironment(1, SlowRepliesForStarter(1, frozenset(), frozenset()))
    world.tree_of_run["r0"] = "plain"
    starter, worker = Actor(world, "starter"), Actor(world, "worker")
    starter.process.clock_offset = CLOCK_OFFSET
    starter.process.run(_start(starter))
    worker.process.run(_resume_after(worker, seconds))
    world.loop.run_until_idle()
    sweep_until_idle(world)
    world.close()

    assert {} == broken_laws(Evidence(world))
