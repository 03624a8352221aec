"""Schedules in which a process erases a run beside workers, deciders and sweepers.

Every fault of the simulation may hit them. The laws of other schedules read the
versions of a run, which are gone here. So these schedules have a law of their own.
"""

from __future__ import annotations

import os
import random
from functools import partial
from unittest import mock

from continuations.core.rows.attachments import attachments_of_run
from continuations.engine.journal import file_storing
from continuations.errors import RunErased, RunNotFound
from continuations.ledger import layout
from continuations.ledger.repair.erasing import Eraser
from continuations.wire.versions import decode_header
from tests.simulation.actors import Actor
from tests.simulation.decoding_cache import versions_decoded_once
from tests.simulation.evidence import Evidence
from tests.simulation.families import ATTACHMENTS
from tests.simulation.fault_schedule import FAULT_KINDS, FaultSchedule
from tests.simulation.files.actors import small_limit
from tests.simulation.files.laws import (
    models_get_the_bytes_of_attachments,
    no_message_lacks_its_attachment,
)
from tests.simulation.past.actors import is_fork
from tests.simulation.protocol.laws_of_endings import no_run_stranded
from tests.simulation.schedule import draw_actors, sweep_until_idle
from tests.simulation.sim_environment import SimEnvironment

SEEDS = int(os.environ.get("ERASE_SEEDS", "60"))


async def act_as_eraser(actor: Actor, *, spares_forks: bool) -> None:
    """Erase a run, up to three times."""
    for _ in range(actor.rng.randint(1, 3)):
        await actor.pause_randomly(90)
        run_ids = list(actor.environment.tree_of_run)
        if spares_forks:
            run_ids = [each for each in run_ids if not is_fork(each)]
        run_id = actor.rng.choice(run_ids)
        erase = partial(actor.runner.erase, run_id)
        await actor.perform(f"erase {run_id}", erase)


def run_with_eraser(seed: int, *, spares_forks: bool = False) -> SimEnvironment:
    """Run one schedule with two erasers, then sweep until nothing is due."""
    faults = FaultSchedule(seed, FAULT_KINDS, frozenset())
    environment = SimEnvironment(seed, faults)
    environment.expected_errors = (
        *environment.expected_errors,
        RunErased,
        RunNotFound,
    )
    with versions_decoded_once(), small_limit():
        rng = random.Random(f"{seed}/cast")  # noqa: S311 - not for secrets
        draw_actors(environment, rng)
        for number in range(2):
            actor = Actor(environment, f"eraser{number}")
            actor.process.run(act_as_eraser(actor, spares_forks=spares_forks))
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


def broken_by_erased_sources(seed: int) -> tuple[int, list[str]]:
    """Return how many forks outlive their source, and the laws that they break."""
    environment = run_with_eraser(seed, spares_forks=True)
    evidence = Evidence(environment)
    outlived = 0
    for run_id, source in environment.sources.items():
        fork, other = evidence.runs[run_id], evidence.runs[source]
        named = fork.versions and attachments_of_run(fork.versions[0].state)
        outlived += bool(named) and not other.versions
    laws = (no_message_lacks_its_attachment, models_get_the_bytes_of_attachments)
    sentences = [law(evidence) for law in (*laws, no_run_stranded)]
    return outlived, [each for each in sentences if each is not None]


def test_a_fork_keeps_its_attachments_when_its_source_is_erased() -> None:
    """The fork has objects of its own, and goes on to its end with them."""
    first = ATTACHMENTS.first_seed
    total = 0
    for seed in range(first, first + SEEDS // 2):
        outlived, broken = broken_by_erased_sources(seed)
        total += outlived
        assert [] == broken, f"seed {seed}"
    assert total > SEEDS // 100


def test_law_notices_that_a_fork_has_no_attachments_of_its_own() -> None:
    """Its messages would name the attachments of a run that is gone."""
    with mock.patch.object(file_storing, "give_files", _do_nothing):
        seeds = range(ATTACHMENTS.first_seed, ATTACHMENTS.first_seed + 100)
        assert any(broken_by_erased_sources(seed)[1] for seed in seeds)


async def _do_nothing(*_: object) -> None:
    pass


def test_law_notices_that_no_sweep_looks_again() -> None:
    """A process that was frozen wrote after the erasure, and died."""
    with mock.patch.object(Eraser, "_make_later_marker", _do_nothing):
        seeds = range(1500, 4000)
        assert any(left_of_erased_runs(run_with_eraser(seed))[1] for seed in seeds)
