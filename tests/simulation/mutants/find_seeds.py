"""Find for each mutant a seed whose schedule breaks an expected law.

    python -m tests.simulation.mutants.find_seeds --find [MUTANT ...]

tries the seeds of its family for each mutant, or for those that are named, and writes
the results to `seeds.txt`. Run it after a change that alters the draws of schedules.
`MUTANT_SEEDS` in the environment is the number of seeds to try (5,000 by default).
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache

from tests.simulation.mutants.mutant import Mutant
from tests.simulation.mutants.registry import MUTANTS
from tests.simulation.mutants.seeds import SEEDS, write
from tests.simulation.protocol.laws_of_endings import cache_uninterrupted_ends
from tests.simulation.schedule import run

MAX_SEEDS = int(os.environ.get("MUTANT_SEEDS", "5000"))
# A mutant may make a schedule endless; the search then skips the seed.
SEED_TIMEOUT_SECONDS = 20


class SeedTimeout(KeyboardInterrupt):
    """A schedule took too long; an event loop lets a KeyboardInterrupt pass."""


def laws_broken_with(mutant: Mutant, seed: int) -> frozenset[str]:
    """Return the names of the laws that one schedule breaks with a mutant."""
    cache_uninterrupted_ends()
    with mutant.applied():
        return frozenset(run(seed).broken)


def laws_broken_without(mutant: Mutant, seed: int) -> frozenset[str]:
    """Return the names of the laws that the same schedule breaks without the mutant."""
    if mutant.has_condition:
        cache_uninterrupted_ends()
        with mutant.condition_applied():
            return frozenset(run(seed).broken)
    return _laws_broken_by_no_mutant(seed)


@cache
def _laws_broken_by_no_mutant(seed: int) -> frozenset[str]:
    # Many mutants are noticed with the same seed.
    cache_uninterrupted_ends()
    return frozenset(run(seed).broken)


def find_seed(mutant: Mutant, max_seeds: int = MAX_SEEDS) -> tuple[int, str] | None:
    """Return the first seed with which a mutant breaks an expected law, and the law."""
    first = mutant.family.first_seed
    for seed in range(first, first + max_seeds):
        broken = _laws_broken_in_time(mutant, seed)
        law = next((name for name in mutant.breaks if name in broken), None)
        if law is not None and not laws_broken_without(mutant, seed):
            return seed, law
    return None


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
    return next(find_seed(mutant) for mutant in MUTANTS if mutant.name == name)


def _prepare() -> None:
    logging.disable()
    gc.collect()
    gc.freeze()


def main(arguments: list[str]) -> int:
    """Search the seeds of all mutants, or of those that are named."""
    if not arguments or arguments[0] != "--find":
        sys.stdout.write(f"{__doc__}\n")
        return 2
    names = arguments[1:] or [mutant.name for mutant in MUTANTS]
    seeds = dict(SEEDS)
    with ProcessPoolExecutor(initializer=_prepare) as pool:
        for name, found in zip(names, pool.map(_find_by_name, names), strict=True):
            seeds.pop(name, None)
            if found is not None:
                seeds[name] = found
            sys.stdout.write(f"{name}: {found}\n")
            sys.stdout.flush()
            write(seeds, [each.name for each in MUTANTS if each.name in seeds])
    return 0 if len(seeds) == len(MUTANTS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
