"""Actors of schedules with workflows: reporters of events, and operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.events.actors import act_as_publisher, act_as_signaller
from tests.simulation.operators.actors import act_as_operator

if TYPE_CHECKING:
    import random

    from tests.simulation.operators.actors import Role
    from tests.simulation.sim_environment import SimEnvironment


def draw_flow_actors(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw operators in a third of the schedules, and reporters where code waits."""
    roles: list[tuple[str, Role]] = []
    draws = [rng.random() for _ in range(2)]
    if draws[0] < 0.35:
        environment.operators = True
        environment.cancels_calls = draws[1] < 0.7
        roles.append(("operator0", act_as_operator))
    if environment.tree_of_run["r0"] == "flow_events":
        roles += [(f"publisher{n}", act_as_publisher) for n in range(rng.randint(1, 2))]
        roles += [(f"signaller{n}", act_as_signaller) for n in range(rng.randint(0, 1))]
    return roles
