"""Faults planted in the protocol, each of which a law of the simulation must notice.

The seed that is known to catch a fault stands in `planted_seeds.py`. When schedules
change, `python -m tests.simulation.mutants.find_seeds --find` searches anew, from 0 on, and
writes that file; with names of faults behind it, it searches for those alone.
"""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tests.simulation.agents import TREES
from tests.simulation.laws_of_endings import undisturbed_end
from tests.simulation.mutants import (
    claim_mutants,
    decision_mutants,
    drive_mutants,
    marker_mutants,
    version_mutants,
)
from tests.simulation.mutants.seeds import SEEDS
from tests.simulation.simulate import run

if TYPE_CHECKING:
    from tests.simulation.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *version_mutants.MUTANTS,
    *claim_mutants.MUTANTS,
    *marker_mutants.MUTANTS,
    *decision_mutants.MUTANTS,
    *drive_mutants.MUTANTS,
)
MAX_SEEDS = int(os.environ.get("PLANTED_SEEDS", "5000"))
# A fault may let a schedule go round for ever; the search gives such a seed up.
SEED_TIMEOUT_SECONDS = 20
_SEEDS_FILE = Path(__file__).with_name("seeds.py")
_SEEDS_FILE_HEADER = '''"""For each planted fault a seed that catches it, and the law that breaks.

Written by `python -m tests.simulation.mutants.find_seeds --find`.
"""

SEEDS: dict[str, tuple[int, str]] = {
'''


class SeedTimeout(KeyboardInterrupt):
    """A schedule that goes round; event loops let a KeyboardInterrupt through."""


def laws_broken_with(mutant: Mutant, seed: int) -> frozenset[str]:
    """Return the laws that break in one schedule while a fault is planted."""
    _cache_undisturbed_ends()
    with mutant.applied():
        return frozenset(run(seed).broken)


def laws_broken_without(mutant: Mutant, seed: int) -> frozenset[str]:
    """Return the laws that break in the same schedule without the fault."""
    _cache_undisturbed_ends()
    with mutant.condition_applied():
        return frozenset(run(seed).broken)


@cache
def _cache_undisturbed_ends() -> None:
    # How runs end when nothing happens is found out once, and not with a fault.
    for tree in TREES:
        undisturbed_end(tree)


def find_seed(mutant: Mutant, max_seeds: int = MAX_SEEDS) -> tuple[int, str] | None:
    """Return the first seed under which the fault breaks an expected law."""
    for seed in range(max_seeds):
        law = _first_broken(mutant.laws, _laws_broken_in_time(mutant, seed))
        if law is not None and not laws_broken_without(mutant, seed):
            return seed, law
    return None


def _first_broken(laws: tuple[str, ...], broken: frozenset[str]) -> str | None:
    return next((law for law in laws if law in broken), None)


def _laws_broken_in_time(mutant: Mutant, seed: int) -> frozenset[str]:
    def stop(*_: object) -> None:
        raise SeedTimeout

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SEED_TIMEOUT_SECONDS, 1)
    try:
        return laws_broken_with(mutant, seed)
    except SeedTimeout:
        return frozenset()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _find_by_name(name: str) -> tuple[int, str] | None:
    return next(find_seed(fault) for fault in MUTANTS if fault.name == name)


def _seeds_source(seeds: dict[str, tuple[int, str]]) -> str:
    names = [fault.name for fault in MUTANTS if fault.name in seeds]
    lines = [
        f'    "{name}": ({seeds[name][0]}, "{seeds[name][1]}"),\n' for name in names
    ]
    return f"{_SEEDS_FILE_HEADER}{''.join(lines)}}}\n"


def main(words: list[str]) -> int:
    """Search for the seeds of all faults, or of those that are named."""
    if not words or words[0] != "--find":
        sys.stdout.write(f"{__doc__}\n")
        return 2
    names = words[1:] or [fault.name for fault in MUTANTS]
    seeds = dict(SEEDS)
    with ProcessPoolExecutor() as pool:
        for name, found in zip(names, pool.map(_find_by_name, names), strict=True):
            seeds.pop(name, None)
            if found is not None:
                seeds[name] = found
            sys.stdout.write(f"{name}: {found}\n")
            sys.stdout.flush()
            _SEEDS_FILE.write_text(_seeds_source(seeds))
    return 0 if len(seeds) == len(MUTANTS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
