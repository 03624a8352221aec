"""Jobs of other systems that can be stopped: heartbeats, and who cancels them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.operators.actors import act_as_operator

if TYPE_CHECKING:
    import random

    from tests.simulation.actors import Actor
    from tests.simulation.operators.actors import Role
    from tests.simulation.sim_environment import SimEnvironment

JOB_TREE_NAMES = ("stoppable", "stoppable_deep", "stoppable_pair")


def draw_job_systems(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw senders of heartbeats, and in most schedules a person who cancels."""
    roles: list[tuple[str, Role]] = [("heart", send_heartbeats)]
    draw = rng.random()
    if draw < 0.4:
        roles.append(("stopper", cancel_run))
    elif draw < 0.8:
        environment.operators = environment.cancels_calls = True
        roles.append(("operator", act_as_operator))
    return roles


async def send_heartbeats(actor: Actor) -> None:
    """Give the jobs that were started more time."""
    for _ in range(actor.rng.randint(2, 8)):
        await actor.pause_randomly(30)
        for wait_id in list(actor.environment.jobs):
            beat = partial(actor.runner.heartbeat, wait_id, extend=45, by=actor.name)
            await actor.perform(f"heartbeat {wait_id}", beat)


async def cancel_run(actor: Actor) -> None:
    """Cancel a run, in a process that has its agents and does not use them."""
    await actor.pause_randomly(120)
    run_id = actor.rng.choice(list(actor.environment.tree_of_run))
    again = partial(actor.runner.cancel, run_id, reason="enough")
    for _ in range(actor.rng.randint(1, 2)):
        await actor.perform(f"cancel {run_id}", again)
