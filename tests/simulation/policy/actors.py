"""The family of schedules in which grants and rules approve calls."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from continuations.core.rows.decisions import Decision
from tests.simulation import actors
from tests.simulation.sim_environment import DecideResult, RevokedGrant

if TYPE_CHECKING:
    import random

    from tests.simulation.actors import Actor
    from tests.simulation.families import Role
    from tests.simulation.sim_environment import SimEnvironment

_RUN = "r0"


def draw_policy_actors(
    environment: SimEnvironment, rng: random.Random
) -> list[tuple[str, Role]]:
    """Draw who revokes grants, who decides several waits at once, and more workers."""
    environment.grants = True
    environment.tree_of_run.pop("r1", None)
    roles: list[tuple[str, Role]] = [
        (f"revoker{n}", act_as_revoker) for n in range(rng.randint(0, 2))
    ]
    roles += [(f"batch{n}", act_as_batch_decider) for n in range(rng.randint(0, 2))]
    roles += [(f"helper{n}", actors.act_as_worker) for n in range(rng.randint(0, 2))]
    return roles


async def act_as_revoker(actor: Actor) -> None:
    """Revoke grants at any moment, a few of them twice."""
    for _ in range(actor.rng.randint(2, 7)):
        await actor.pause_randomly(30)
        await actor.perform("grants", partial(_revoke_one, actor))


async def _revoke_one(actor: Actor) -> None:
    ids = [grant.id for grant in await actor.runner.grants(_RUN)]
    # Also a grant of a decision that no worker has applied, or that has ended.
    ids += [
        each.result.id
        for each in actor.environment.decide_results
        if isinstance(each.result, Decision) and each.result.grant_json is not None
    ][-1:]
    if not ids:
        return
    grant = actor.rng.choice(ids)
    for _ in range(1 + (actor.rng.random() < 0.2)):
        await actor.perform(f"revoke {grant}", partial(_revoke, actor, grant))


async def _revoke(actor: Actor, grant: str) -> None:
    await actor.runner.revoke(_RUN, grant, by=actor.name)
    environment = actor.environment
    environment.revoked_grants.append(
        RevokedGrant(actor.name, environment.next_timestamp, _RUN, grant)
    )


async def act_as_batch_decider(actor: Actor) -> None:
    """Decide all open waits with one call, some of them twice."""
    for _ in range(actor.rng.randint(1, 4)):
        await actor.pause_randomly(40)
        await actor.perform("decide all", partial(_decide_all, actor))


async def _decide_all(actor: Actor) -> None:
    environment = actor.environment
    wait_ids = await actors.list_wait_ids(actor)
    verdicts = {each: actors.draw_verdict(actor, each) for each in wait_ids}
    for _ in range(1 + (actor.rng.random() < 0.2)):
        results = await actor.runner.decide_all(verdicts)
        at = environment.next_timestamp
        environment.decide_results += [
            DecideResult(actor.name, at, wait_id, verdicts[wait_id], result)
            for wait_id, result in results.items()
        ]
