"""Everything at once: every crash point of every story, and races in many rounds.

`python -m tests.torture.run_all [--seconds 600] [--rounds 50] [--seed 1] [--jobs 2]`
prints what it is at, ends with one table, and fails if anything was wrong. A wrong
says which trial it was: `python -m tests.torture.crash_points NAME --only TRIAL` repeats it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tests.run_environment import ROOT
from tests.torture.races import RACES
from tests.torture.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COLUMNS = (
    "points",
    "trials",
    "killed",
    "frozen",
    "passed",
    "unknown",
    "duplicate_effects",
)


def run_module(module: str, *arguments: str) -> dict[str, Any]:
    """Run one of the two tormentors on one subject and return its tally."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.torture.{module}", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        wrong = f"{module} {arguments} came to {done.returncode}"
        return {"name": arguments[0], "seconds": 0.0, "violations": [wrong]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def summary_table(tallies: Iterable[dict[str, Any]]) -> str:
    """Return what came of all, a line each, and their sums."""
    rows = list(tallies)
    width = max(len(row["name"]) for row in rows)
    lines = [f"{'':{width}}  " + "".join(f"{name:>9}" for name in COLUMNS)]
    sums = {name: sum(row.get(name, 0) for row in rows) for name in COLUMNS}
    for row in [*rows, {"name": "all", **sums}]:
        numbers = "".join(f"{row.get(name, 0):>9}" for name in COLUMNS)
        lines.append(f"{row['name']:{width}}  {numbers}")
    return "\n".join(lines)


def all_jobs(options: argparse.Namespace) -> list[tuple[str, ...]]:
    """Return all that is to be done, as words for `told`; the longest first."""
    seed = ["--seed", options.seed]
    limits = (
        [] if options.max_trials is None else ["--max-trials", str(options.max_trials)]
    )
    limit = [] if options.seconds is None else ["--seconds", str(options.seconds)]
    rounds = str(options.rounds)
    stories = sorted(SCENARIOS, key=lambda story: -len(story.steps))
    return [
        *(("crash_points", s.name, *seed, *limits, *limit) for s in stories),
        *(("races", name, "--rounds", rounds, *seed, *limit) for name in RACES),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Torture everything; returns 1 if anything was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.run_all")
    parser.add_argument("--seconds", type=float, help="the most for each story or race")
    parser.add_argument("--rounds", type=int, default=50, help="of each kind of race")
    parser.add_argument(
        "--max-trials", type=int, help="trials per scenario; default: all"
    )
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    began = time.monotonic()
    tallies: list[dict[str, Any]] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(run_module, *words) for words in all_jobs(options)]
        for job in jobs:
            tally = job.result()
            tallies.append(tally)
            wrong = len(tally["violations"])
            print_line(f"{tally['name']}: {tally['seconds']:.0f} s, {wrong} wrong")
    print_line(summary_table(tallies))
    wrongs = [each for tally in tallies for each in tally["violations"]]
    for each in wrongs:
        print_line(f"WRONG {each}")
    print_line(
        f"{len(wrongs)} wrong, {time.monotonic() - began:.0f} s, seed {options.seed}"
    )
    return 1 if wrongs else 0


def print_line(line: str) -> None:
    """Print a line now."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
