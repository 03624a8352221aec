"""Run every crash point of every scenario, and every race in many rounds.

    python -m tests.torture.run_all [--seconds 600] [--rounds 50] [--seed 1] [--jobs 2]

prints its progress and a table, and fails if there is a violation. A violation names
its trial: `python -m tests.torture.crash_points NAME --only TRIAL` repeats the trial.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.run_environment import ROOT
from tests.torture.races import RACES
from tests.torture.scenarios import SCENARIOS

# The counts of a tally, with the titles of their columns.
COLUMNS = {
    "points": "points",
    "trials": "trials",
    "killed": "killed",
    "frozen": "frozen",
    "passed": "passed",
    "unknown": "unknown",
    "duplicate_effects": "duplicates",
}


def run_module(module: str, *arguments: str) -> dict[str, Any]:
    """Run `crash_points` or `races` in a process and return its last tally."""
    return run_modules(module, [arguments[0]], *arguments[1:])[-1]


def run_modules(
    module: str, names: Sequence[str], *arguments: str
) -> list[dict[str, Any]]:
    """Run some scenarios or races in one process, and return their tallies."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.torture.{module}", *names, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        words = " ".join([module, *names, *arguments])
        violation = f"{words} exited with {done.returncode}"
        return [{"name": names[0], "seconds": 0.0, "violations": [violation]}]
    tallies: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return tallies


def summary_table(tallies: Iterable[dict[str, Any]]) -> str:
    """Return a table with a line for each tally, and the sums."""
    rows = list(tallies)
    width = max(len(row["name"]) for row in rows)
    lines = [f"{'':{width}}  " + "".join(f"{title:>11}" for title in COLUMNS.values())]
    sums = {name: sum(row.get(name, 0) for row in rows) for name in COLUMNS}
    for row in [*rows, {"name": "all", **sums}]:
        numbers = "".join(f"{row.get(name, 0):>11}" for name in COLUMNS)
        lines.append(f"{row['name']:{width}}  {numbers}")
    return "\n".join(lines)


def all_jobs(options: argparse.Namespace) -> list[tuple[str, ...]]:
    """Return the arguments of `run_module` for all jobs, the longest jobs first."""
    seed = ["--seed", options.seed]
    max_trials = (
        [] if options.max_trials is None else ["--max-trials", str(options.max_trials)]
    )
    time_limit = [] if options.seconds is None else ["--seconds", str(options.seconds)]
    rounds = str(options.rounds)
    scenarios = sorted(SCENARIOS, key=lambda scenario: -len(scenario.steps))
    return [
        *(("crash_points", s.name, *seed, *max_trials, *time_limit) for s in scenarios),
        *(("races", name, "--rounds", rounds, *seed, *time_limit) for name in RACES),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything; returns 1 if there is a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.run_all")
    parser.add_argument("--seconds", type=float, help="time limit per scenario or race")
    parser.add_argument(
        "--rounds", type=int, default=50, help="rounds of each kind of race"
    )
    parser.add_argument(
        "--max-trials", type=int, help="trials per scenario; default: all"
    )
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args(arguments)
    began = time.monotonic()
    tallies: list[dict[str, Any]] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(run_module, *arguments) for arguments in all_jobs(options)]
        for job in jobs:
            tally = job.result()
            tallies.append(tally)
            count = len(tally["violations"])
            print_line(f"{tally['name']}: {tally['seconds']:.0f} s, {count} violations")
    print_line(summary_table(tallies))
    violations = [each for tally in tallies for each in tally["violations"]]
    for each in violations:
        print_line(f"VIOLATION {each}")
    seconds = time.monotonic() - began
    print_line(f"{len(violations)} violations, {seconds:.0f} s, seed {options.seed}")
    return 1 if violations else 0


def print_line(line: str) -> None:
    """Print a line now."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
