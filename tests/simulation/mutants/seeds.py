"""A seed that notices each mutant, and the law that breaks.

A line of `seeds.txt` has the mutant, the seed and the law. The file is written by
`python -m tests.simulation.mutants.find_seeds --find`.
"""

from __future__ import annotations

from pathlib import Path

_FILE = Path(__file__).with_name("seeds.txt")
SEEDS: dict[str, tuple[int, str]] = {
    name: (int(seed), law)
    for name, seed, law in map(str.split, _FILE.read_text().splitlines())
}


def write(seeds: dict[str, tuple[int, str]], names: list[str]) -> None:
    """Write the seeds of some mutants, in this order."""
    lines = [f"{name} {seeds[name][0]} {seeds[name][1]}\n" for name in names]
    _FILE.write_text("".join(lines))
