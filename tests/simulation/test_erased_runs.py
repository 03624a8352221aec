"""Schedules in which a process erases a run beside workers, deciders and sweepers.

Every fault of the simulation may hit them. The laws of other schedules read the
versions of a run, which are gone here. So these schedules have a law of their own.
"""

from __future__ import annotations

import os
import random
from functools import partial
from unittest import mock

from continuations.errors import RunErased, RunNotFound
from continuations.ledger import layout
from continuations.ledger.erasing import Eraser
from continuations.wire.versions import decode_header
from tests.simulation.actors import Actor
from tests.simulation.attachers import small_limit
from tests.simulation.decoding_cache import versions_decoded_once
from tests.simulation.families import ATTACHMENTS
from tests.simulation.fault_schedule import FAULT_KINDS, FaultSchedule
from tests.simulation.schedule import (
    draw_actors,
    runs_begin_with_tree_of,
    sweep_until_idle,
)
from tests.simulation.sim_environment import SimEnvironment

SEEDS = int(os.environ.get("ERASE_SEEDS", "150"))


async def act_as_eraser(actor: Actor) -> None:
    """Erase a run, up to three times."""
    for _ in range(actor.rng.randint(1, 3)):
        await actor.pause_randomly(90)
        run_id = actor.rng.choice(list(actor.environment.tree_of_run))
        erase = partial(actor.runner.erase, run_id)
        await actor.perform(f"erase {run_id}", erase)


def run_with_eraser(seed: int) -> SimEnvironment:
    """Run one schedule with two erasers, then sweep until nothing is due."""
    faults = FaultSchedule(seed, FAULT_KINDS, frozenset())
    environment = SimEnvironment(seed, faults)
    environment.expected_errors = (
        *environment.expected_errors,
        RunErased,
        RunNotFound,
    )
    with runs_begin_with_tree_of(seed), versions_decoded_once(), small_limit():
        rng = random.Random(f"{seed}/cast")  # noqa: S311 - not for secrets
        draw_actors(environment, rng)
        for number in range(2):
            actor = Actor(environment, f"eraser{number}")
            actor.process.run(act_as_eraser(actor))
        environment.loop.run_until_idle()
        sweep_until_idle(environment)
        environment.close()
    return environment


def left_of_erased_runs(environment: SimEnvironment) -> tuple[int, list[str]]:
    """Return how many runs are erased, and what is left beside their tombstones."""
    bodies = environment.store.bodies
    erased, left = 0, list[str]()
    for run_id in environment.tree_of_run:
        prefix = layout.versions_prefix(run_id)
        newest = next((key for key in sorted(bodies) if key.startswith(prefix)), None)
        if newest is None or not _is_tombstone(bodies[newest], newest):
            continue
        erased += 1
        own = (f"@{run_id}", f"/{run_id}")
        left += [
            key
            for key in bodies
            if key != newest
            and (key.startswith(layout.run_prefix(run_id)) or key.endswith(own))
        ]
    return erased, left


def _is_tombstone(body: bytes, key: str) -> bool:
    try:
        decode_header(body, key)
    except RunErased:
        return True
    return False


def test_nothing_of_an_erased_run_is_left_after_sweeps() -> None:
    """Processes freeze, die and repeat requests meanwhile."""
    total = 0
    for seed in range(SEEDS):
        erased, left = left_of_erased_runs(run_with_eraser(seed))
        total += erased
        assert [] == left, f"seed {seed}"
    assert total > SEEDS // 3


def test_no_attachment_of_an_erased_run_is_left() -> None:
    """People send files while the run is erased, and processes die."""
    first = ATTACHMENTS.first_seed
    total = 0
    for seed in range(first, first + SEEDS // 3):
        environment = run_with_eraser(seed)
        erased, left = left_of_erased_runs(environment)
        created = [each.key for each in environment.store.changes if "/x/" in each.key]
        total += erased * bool(created)
        assert [] == [key for key in left if "/x/" in key], f"seed {seed}"
    assert total > SEEDS // 10


async def _do_nothing(*_: object) -> None:
    pass


def test_law_notices_that_no_sweep_looks_again() -> None:
    """A process that was frozen wrote after the erasure, and died."""
    with mock.patch.object(Eraser, "_make_later_marker", _do_nothing):
        seeds = range(1500, 4000)
        assert any(left_of_erased_runs(run_with_eraser(seed))[1] for seed in seeds)
