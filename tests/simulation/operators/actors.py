"""Operators of simulated runs: they pause, unpause and cancel calls beside workers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from continuations.core.changes.operator_changes import operator_waits
from continuations.core.rows.calls import CLOSED_STATES

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine
    from typing import TypeAlias

    from tests.simulation.actors import Actor
    from tests.simulation.sim_environment import SimEnvironment

    Role: TypeAlias = "Callable[[Actor], Coroutine[Any, Any, None]]"

# Trees with agents below each other and beside each other, approvals and waits.
OPERATED_TREES = ("turns", "one", "deep", "wide", "approved_agent", "ask_deep")


def draw_operators(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw one to three operators; in half of the schedules they cancel calls too."""
    environment.operators = True
    environment.cancels_calls = rng.random() < 0.5
    return [(f"operator{n}", act_as_operator) for n in range(rng.randint(1, 3))]


async def act_as_operator(actor: Actor) -> None:
    """Pause and unpause runs, some of them twice, and cancel some of their calls."""
    for number in range(actor.rng.randint(2, 6)):
        await actor.pause_randomly(40)
        run_id = actor.rng.choice(list(actor.environment.tree_of_run))
        draw = actor.rng.random()
        if draw < 0.25 and actor.environment.cancels_calls:
            await actor.perform(
                f"cancel a call of {run_id}", partial(_cancel, actor, run_id)
            )
        elif draw < 0.65:
            pause = partial(actor.runner.pause, run_id, reason=f"pause {number}")
            await actor.perform(f"pause {run_id}", pause)
        else:
            await unpause(actor, run_id)


async def unpause(actor: Actor, run_id: str) -> None:
    again = partial(actor.runner.unpause, run_id, by=actor.name)
    await actor.perform(f"unpause {run_id}", again)


async def unpause_if_held(actor: Actor, run_id: str) -> None:
    """End a pause that the newest version of a run has."""
    held: list[object] = []

    async def look() -> None:
        held.extend(operator_waits((await actor.runner.look(run_id)).run_state))

    await actor.perform(f"look at {run_id}", look)
    if held:
        await unpause(actor, run_id)


async def _cancel(actor: Actor, run_id: str) -> None:
    calls = (await actor.runner.look(run_id)).run_state.calls.values()
    names = [call.id for call in calls if not isinstance(call.state, CLOSED_STATES)]
    if names:
        name = actor.rng.choice(names)
        await actor.runner.cancel(run_id, call=name, reason="enough of it")
