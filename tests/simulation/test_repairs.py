"""Versions are damaged while everybody works, and a doctor repairs them by itself."""

from __future__ import annotations

import asyncio
import os
import random
from functools import partial
from typing import TYPE_CHECKING

import pytest

from continuations.errors import Corrupt
from continuations.ledger import doctor, layout
from continuations.ledger.objects import Objects
from tests.simulation.actors import Actor, newest_version_number
from tests.simulation.agents import NEEDS_APPROVAL
from tests.simulation.evidence import Evidence
from tests.simulation.fault_schedule import FAULT_KINDS, FaultSchedule
from tests.simulation.laws import LAWS, broken_laws
from tests.simulation.laws_of_decisions import effects_of
from tests.simulation.sim_environment import SimEnvironment
from tests.simulation.simulate import HORIZON_SECONDS, draw_actors, sweep_until_idle
from tests.simulation.virtual_loop import NO_PROCESS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.sim_environment import Effect

SEEDS = int(os.environ.get("REPAIR_SEEDS", "200"))
CHUNKS = 10
# What only lost versions knew is found out anew, and the doctor closes waits of a run
# that goes on; all other laws hold as if nothing had been damaged.
EXCUSED_LAWS = {
    "turn_asked_once",  # the reply was lost
    "finished_never_runs_again",  # the result was lost, and the call may be repeated
    "idempotency_key_stable",  # the attempt was lost, and is counted again
    "approval_not_too_old",  # it was lost that the call had begun
    "executed_equals_approved",  # a later wait of the call was lost; see `unasked`
    "refused_never_runs",  # the end of the run was lost; see `refused`
    "ended_by_its_decision",  # a version names no wait that only lost ones named
    "cancelled_with_its_run",  # it was the doctor, and the wait has a new id
    "notified_after_commit",  # the wait was lost while somebody froze, about to tell of it
}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_repair_of_lost_versions_repeats_no_effect(chunk: int) -> None:
    """R-E7, R-A6, R-C1, PA-08, PA-09: people are asked of unknown outcomes only."""
    for seed in range(chunk, SEEDS, CHUNKS):
        evidence = run_damaged_schedule(seed)

        broken = broken_laws(evidence)
        assert {} == {law: broken[law] for law in broken.keys() - EXCUSED_LAWS}, seed
        assert [] == [
            *effects_after_refusal(evidence),
            *unapproved_effects(evidence),
        ], seed


def test_schedules_with_damage_contain_damage() -> None:
    """R-E7: else the schedules would show nothing."""
    logs = [run_damaged_schedule(seed).environment.log for seed in range(20)]

    assert 10 <= sum(any("damages" in line for line in log) for log in logs)
    assert EXCUSED_LAWS < set(LAWS)


def effects_after_refusal(evidence: Evidence) -> Iterator[Effect]:
    """Go through the effects of calls that people or the clock had refused before."""
    for known in evidence.waits.values():
        if known.decision is not None and known.decision.kind in ("deny", "expire"):
            for done in effects_of(evidence, known):
                if done.clock_sample.true_time > known.decided_at:
                    yield done


def unapproved_effects(evidence: Evidence) -> Iterator[Effect]:
    """Go through the effects to which somebody had to say yes before, and had not.

    After a loss that is every call that acts: what is new may have been made before.
    """
    allowed = [
        (known.wait.run_id, known.wait.call_id, known.decided_at)
        for known in evidence.waits.values()
        if known.decision is not None and known.decision.kind == "approve"
    ]
    for done in evidence.environment.effects:
        asks = done.tool in NEEDS_APPROVAL or (
            _has_repair_id(done) and done.tool != "look"
        )
        if asks and not any(
            (done.run_id, done.call_id) == (run_id, call_id)
            and at < done.clock_sample.true_time
            for run_id, call_id, at in allowed
        ):
            yield done


def _has_repair_id(done: Effect) -> bool:
    # A repair leaves out more numbers than any run here uses.
    return int(done.call_id.removeprefix("c")) >= 1 << 20


def run_damaged_schedule(seed: int) -> Evidence:
    """Run a schedule in which versions are damaged, once."""
    world = SimEnvironment(
        seed, FaultSchedule(seed, FAULT_KINDS - {"clock"}, frozenset())
    )
    world.expected_errors = (Corrupt,)
    dice = random.Random(f"{seed}/damage")  # noqa: S311 - not for secrets
    draw_actors(world, dice)
    whole: dict[str, bytes] = {}
    when = dice.random() * HORIZON_SECONDS / 2 * world.time_scale
    world.loop.call_later(when, damage_versions, world, dice, whole, context=NO_PROCESS)
    for number in range(2):
        actor = Actor(world, f"doctor{number}")
        actor.process.run(_repair_repeatedly(actor, 4, 60 * world.time_scale))
    world.loop.run_until_idle()
    world.faults.stopped = True
    last = Actor(world, "doctor")
    last.process.run(_repair_repeatedly(last, 3, 61))
    world.loop.run_until_idle()
    sweep_until_idle(world)
    world.close()
    # What was lost is evidence, too.
    world.store.bodies.update(whole)
    return Evidence(world)


def damage_versions(
    environment: SimEnvironment, rng: random.Random, originals: dict[str, bytes]
) -> None:
    """Damage one version of a run, or that and all after it; but not the first."""
    newest = newest_version_number(environment, "r0")
    if newest < 2:
        return
    first = rng.randint(2, newest)
    last = newest if rng.random() < 0.5 else first
    for number in range(first, last + 1):
        key = layout.version_key("r0", number)
        body = originals[key] = environment.store.bodies[key]
        environment.store.bodies[key] = body[:-1] + bytes([body[-1] ^ 1])
        environment.log_event("nobody", "damages", key)


async def _repair_repeatedly(actor: Actor, rounds: int, seconds: float) -> None:
    for _ in range(rounds):
        await asyncio.sleep(seconds)
        for run_id in actor.environment.tree_of_run:
            await actor.perform(f"repair {run_id}", partial(_repair, actor, run_id))


async def _repair(actor: Actor, run_id: str) -> object:
    now = actor.process.now()
    ulid = partial(actor.process.new_ulid, now)
    return await doctor.repair(
        Objects(actor.store_client), run_id, now=now, new_ulid=ulid
    )
