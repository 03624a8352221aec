"""Faults planted in the protocol, each of which a law of the simulation must notice.

The seed that is known to catch a fault stands in `planted_seeds.py`. When schedules
change, `python -m tests.simulation.planted --find` searches anew, from 0 on, and
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

from tests.simulation import (
    planted_claims,
    planted_deciding,
    planted_driving,
    planted_markers,
    planted_versions,
)
from tests.simulation.agents import TREES
from tests.simulation.laws_of_endings import quiet_end
from tests.simulation.planted_seeds import SEEDS
from tests.simulation.simulate import run

if TYPE_CHECKING:
    from tests.simulation.planted_fault import Fault

FAULTS: tuple[Fault, ...] = (
    *planted_versions.FAULTS,
    *planted_claims.FAULTS,
    *planted_markers.FAULTS,
    *planted_deciding.FAULTS,
    *planted_driving.FAULTS,
)
MOST_SCHEDULES = int(os.environ.get("PLANTED_SEEDS", "5000"))
# A fault may let a schedule go round for ever; the search gives such a seed up.
SECONDS = 20
_TABLE = Path(__file__).with_name("planted_seeds.py")
_HEAD = '''"""For each planted fault a seed that catches it, and the law that breaks.

Written by `python -m tests.simulation.planted --find`.
"""

SEEDS: dict[str, tuple[int, str]] = {
'''


class TooLong(KeyboardInterrupt):
    """A schedule that goes round; event loops let a KeyboardInterrupt through."""


def broken_by(fault: Fault, seed: int) -> frozenset[str]:
    """Return the laws that break in one schedule while a fault is planted."""
    _know_quiet_ends()
    with fault.planted():
        return frozenset(run(seed).broken)


def broken_without(fault: Fault, seed: int) -> frozenset[str]:
    """Return the laws that break in the same schedule without the fault."""
    _know_quiet_ends()
    with fault.circumstances():
        return frozenset(run(seed).broken)


@cache
def _know_quiet_ends() -> None:
    # How runs end when nothing happens is found out once, and not with a fault.
    for tree in TREES:
        quiet_end(tree)


def find(fault: Fault, most: int = MOST_SCHEDULES) -> tuple[int, str] | None:
    """Return the first seed under which the fault breaks an expected law."""
    for seed in range(most):
        law = _first(fault.laws, _broken_in_time(fault, seed))
        if law is not None and not broken_without(fault, seed):
            return seed, law
    return None


def _first(laws: tuple[str, ...], broken: frozenset[str]) -> str | None:
    return next((law for law in laws if law in broken), None)


def _broken_in_time(fault: Fault, seed: int) -> frozenset[str]:
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS, 1)
    try:
        return broken_by(fault, seed)
    except TooLong:
        return frozenset()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _found(name: str) -> tuple[int, str] | None:
    return next(find(fault) for fault in FAULTS if fault.name == name)


def _written(seeds: dict[str, tuple[int, str]]) -> str:
    names = [fault.name for fault in FAULTS if fault.name in seeds]
    lines = [
        f'    "{name}": ({seeds[name][0]}, "{seeds[name][1]}"),\n' for name in names
    ]
    return f"{_HEAD}{''.join(lines)}}}\n"


def main(words: list[str]) -> int:
    """Search for the seeds of all faults, or of those that are named."""
    if not words or words[0] != "--find":
        sys.stdout.write(f"{__doc__}\n")
        return 2
    names = words[1:] or [fault.name for fault in FAULTS]
    seeds = dict(SEEDS)
    with ProcessPoolExecutor() as pool:
        for name, found in zip(names, pool.map(_found, names), strict=True):
            seeds.pop(name, None)
            if found is not None:
                seeds[name] = found
            sys.stdout.write(f"{name}: {found}\n")
            sys.stdout.flush()
            _TABLE.write_text(_written(seeds))
    return 0 if len(seeds) == len(FAULTS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
