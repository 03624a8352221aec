"""The family of schedules in which several persons decide one wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation import actors
from tests.simulation.votes.tools import VOTERS

if TYPE_CHECKING:
    import random

    from tests.simulation.families import Role
    from tests.simulation.sim_environment import SimEnvironment


def draw_voters(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw the persons, sweepers that find the deadlines, and rarely a canceller."""
    del environment
    roles: list[tuple[str, Role]] = [
        (name, actors.act_as_decider) for name in VOTERS if rng.random() < 0.8
    ]
    roles += [(f"clock{n}", actors.act_as_sweeper) for n in range(rng.randint(0, 2))]
    roles += [("stopper", actors.act_as_canceller)] * (rng.random() < 0.15)
    return roles
