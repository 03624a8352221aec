"""Actors that report events: publishers, and senders of signals."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from continuations import ContinuationsError

if TYPE_CHECKING:
    import random

    from tests.simulation.actors import Actor
    from tests.simulation.families import Role
    from tests.simulation.sim_environment import SimEnvironment

EVENT_TREE_NAMES = ("letters", "letters_deep", "letters_mixed", "letters_and_post")
EVENT_NAME, EVENT_KEY = "mail", "a"
# Data that no wait accepts: each of them wants a text.
_WRONG_DATA = 9


def draw_reporters(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw the publishers and the senders of signals."""
    del environment
    roles: list[tuple[str, Role]] = []
    roles += [(f"publisher{n}", act_as_publisher) for n in range(rng.randint(1, 3))]
    roles += [(f"signaller{n}", act_as_signaller) for n in range(rng.randint(0, 2))]
    return roles


async def act_as_publisher(actor: Actor) -> None:
    """Publish events; some of them twice, or under an id that others use too."""
    rng = actor.rng
    for number in range(rng.randint(1, 4)):
        await actor.pause_randomly(60)
        draws = [rng.random() for _ in range(4)]
        key = EVENT_KEY if draws[0] < 0.8 else None
        data = _WRONG_DATA if draws[1] < 0.15 else f"{actor.name} wrote {number}"
        own_id = None
        if draws[2] < 0.5:
            shared = rng.randint(1, 4)
            own_id, data = f"news-{shared}", f"news {shared}"
        publish = partial(
            actor.runner.publish, EVENT_NAME, data, key=key, by=actor.name, id=own_id
        )
        result = await actor.perform(f"publish {data}", publish)
        failed = isinstance(result, ContinuationsError | None)
        if own_id is not None and (failed or draws[3] < 0.3):
            await actor.perform(f"publish {data} again", publish)


async def act_as_signaller(actor: Actor) -> None:
    """Send signals to one run; a signal that failed is sent again under its id."""
    rng = actor.rng
    for number in range(rng.randint(1, 3)):
        await actor.pause_randomly(80)
        data = f"{actor.name} says {number}" if rng.random() < 0.85 else _WRONG_DATA
        send = partial(
            actor.runner.signal, "r0", EVENT_NAME, data, id=f"{actor.name}-{number}"
        )
        result = await actor.perform(f"signal {data}", send)
        if isinstance(result, ContinuationsError | None):
            await actor.perform(f"signal {data} again", send)
