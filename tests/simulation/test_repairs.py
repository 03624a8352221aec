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
from tests.simulation.actors import Actor, newest_number
from tests.simulation.agents import GATED
from tests.simulation.evidence import Evidence
from tests.simulation.laws import LAWS, broken_laws
from tests.simulation.laws_of_decisions import effects_of
from tests.simulation.loop import NOBODY
from tests.simulation.simulate import HORIZON, draw_cast, settle
from tests.simulation.weather import KINDS, Weather
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.world import Effect

SEEDS = int(os.environ.get("REPAIR_SEEDS", "200"))
CHUNKS = 10
# What only lost versions knew is found out anew, and the doctor closes waits of a run
# that goes on; all other laws hold as if nothing had been damaged.
LOST = {
    "turn_asked_once",  # the reply was lost
    "finished_never_again",  # the result was lost, and the call may be repeated
    "same_key",  # the attempt was lost, and is counted again
    "approved_lately",  # it was lost that the call had begun
    "executed_is_approved",  # a later wait of the call was lost; see `unasked`
    "refused_never_runs",  # the end of the run was lost; see `refused`
    "ended_by_its_decision",  # a version names no wait that only lost ones named
    "cancelled_with_its_run",  # it was the doctor, and the wait has a new id
    "told_after_kept",  # the wait was lost while somebody froze, about to tell of it
}


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nothing_is_done_twice_whatever_is_lost(chunk: int) -> None:
    """R-E7, R-A6, R-C1, PA-08, PA-09: people are asked of unknown outcomes only."""
    for seed in range(chunk, SEEDS, CHUNKS):
        evidence = damaged(seed)

        broken = broken_laws(evidence)
        assert {} == {law: broken[law] for law in broken.keys() - LOST}, seed
        assert [] == [*refused(evidence), *unasked(evidence)], seed


def test_versions_are_damaged_and_runs_are_repaired() -> None:
    """R-E7: else the schedules would show nothing."""
    logs = [damaged(seed).world.log for seed in range(20)]

    assert 10 <= sum(any("damages" in line for line in log) for log in logs)
    assert LOST < set(LAWS)


def refused(evidence: Evidence) -> Iterator[Effect]:
    """Go through the effects of calls that people or the clock had refused before."""
    for known in evidence.waits.values():
        if known.decision is not None and known.decision.kind in ("deny", "expire"):
            for done in effects_of(evidence, known):
                if done.looked.at > known.decided_at:
                    yield done


def unasked(evidence: Evidence) -> Iterator[Effect]:
    """Go through the effects to which somebody had to say yes before, and had not.

    After a loss that is every call that acts: what is new may have been made before.
    """
    allowed = [
        (known.wait.run_id, known.wait.call_id, known.decided_at)
        for known in evidence.waits.values()
        if known.decision is not None and known.decision.kind == "approve"
    ]
    for done in evidence.world.effects:
        asks = done.tool in GATED or (_made_anew(done) and done.tool != "look")
        if asks and not any(
            (done.run_id, done.call_id) == (run_id, call_id) and at < done.looked.at
            for run_id, call_id, at in allowed
        ):
            yield done


def _made_anew(done: Effect) -> bool:
    # A repair leaves out more numbers than any run here uses.
    return int(done.call_id.removeprefix("c")) >= 1 << 20


def damaged(seed: int) -> Evidence:
    """Run a schedule in which versions are damaged, once."""
    world = World(seed, Weather(seed, KINDS - {"clock"}, frozenset()))
    world.bearable = (Corrupt,)
    dice = random.Random(f"{seed}/damage")  # noqa: S311 - not for secrets
    draw_cast(world, dice)
    whole: dict[str, bytes] = {}
    when = dice.random() * HORIZON / 2 * world.hurry
    world.loop.call_later(when, harm, world, dice, whole, context=NOBODY)
    for number in range(2):
        actor = Actor(world, f"doctor{number}")
        actor.process.live(_mend(actor, 4, 60 * world.hurry))
    world.loop.run_until_idle()
    world.weather.quiet = True
    last = Actor(world, "doctor")
    last.process.live(_mend(last, 3, 61))
    world.loop.run_until_idle()
    settle(world)
    world.bury()
    # What was lost is evidence, too.
    world.store.bodies.update(whole)
    return Evidence(world)


def harm(world: World, dice: random.Random, whole: dict[str, bytes]) -> None:
    """Damage one version of a run, or that and all after it; but not the first."""
    newest = newest_number(world, "r0")
    if newest < 2:
        return
    first = dice.randint(2, newest)
    last = newest if dice.random() < 0.5 else first
    for number in range(first, last + 1):
        key = layout.version("r0", number)
        body = whole[key] = world.store.bodies[key]
        world.store.bodies[key] = body[:-1] + bytes([body[-1] ^ 1])
        world.note("nobody", "damages", key)


async def _mend(actor: Actor, rounds: int, seconds: float) -> None:
    for _ in range(rounds):
        await asyncio.sleep(seconds)
        for run_id in actor.world.trees:
            await actor.do(f"repair {run_id}", partial(_repair, actor, run_id))


async def _repair(actor: Actor, run_id: str) -> object:
    now = actor.process.now()
    ulid = partial(actor.process.ulid, now)
    return await doctor.repair(Objects(actor.handle), run_id, now=now, ulid=ulid)
