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
from tests.simulation.laws import broken_laws
from tests.simulation.simulate import settle
from tests.simulation.weather import Strike, Weather
from tests.simulation.world import World

if TYPE_CHECKING:
    import random

BEHIND = -20.0
SLOW = 12.6


class SlowForStarter(Weather):
    """The replies to one process's creates take long, nothing else goes wrong."""

    def operation(self, name: str, dice: random.Random, verb: str) -> Strike:
        """Return how an operation goes."""
        del dice
        slow = name.startswith("starter") and verb == "create"
        return Strike(None, "before", 0.01, SLOW if slow else 0.01, 0.0)


async def _start(actor: Actor) -> None:
    await start_run(actor, "r0")


async def _resume_from(actor: Actor, seconds: float) -> None:
    await asyncio.sleep(seconds)
    for _ in range(4):
        await actor.do("resume", lambda: actor.runner.resume("r0"))
        await asyncio.sleep(0.7)


@pytest.mark.parametrize("seconds", [22.0, 25.0, 35.5, 38.0, 47.3, 49.0, 60.0])
def test_a_call_never_begins_after_another_process_took_over(seconds: float) -> None:
    """R-A5, R-A12: 20 s behind passes for 7.5 s while the reply takes 12.6 s."""
    world = World(1, SlowForStarter(1, frozenset(), frozenset()))
    world.trees["r0"] = "plain"
    starter, worker = Actor(world, "starter"), Actor(world, "worker")
    starter.process.skew = BEHIND
    starter.process.live(_start(starter))
    worker.process.live(_resume_from(worker, seconds))
    world.loop.run_until_idle()
    settle(world)
    world.bury()

    assert {} == broken_laws(Evidence(world))
