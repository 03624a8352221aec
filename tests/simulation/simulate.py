"""Run schedules by their seeds, and shrink the first one that breaks a law.

    python -m tests.simulation.simulate --seeds 0:5000 --jobs 2

`tests/README.md` explains the options and the output.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import shlex
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.simulation.fault_schedule import FAULT_KINDS, LOST_REPLY_KINDS
from tests.simulation.laws import LAWS
from tests.simulation.mutants.registry import MUTANTS
from tests.simulation.protocol.laws_of_endings import cache_uninterrupted_ends
from tests.simulation.schedule import Report, report_text, run, shrink
from tests.simulation.sim_environment import SimEnvironment

SEEDS_PER_JOB = 250


@contextmanager
def silent_logs() -> Generator[None]:
    """Log nothing in the block: faults are part of a schedule."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        yield
    finally:
        logging.disable(before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which schedules a search runs, and what it looks for."""

    law: str | None = None
    fault_kinds: frozenset[str] | None = None
    excluded: frozenset[str] = frozenset()
    mutant: str | None = None

    def run(self, seed: int) -> Report:
        return run(seed, fault_kinds=self.fault_kinds, excluded=self.excluded)

    def finds(self, report: Report) -> bool:
        """Tell whether a schedule breaks the law, or any law."""
        return bool(report.broken) and (self.law is None or self.law in report.broken)

    @contextmanager
    def mutant_applied(self) -> Generator[None]:
        """Apply the mutant, if there is one, in this process."""
        cache_uninterrupted_ends()
        mutants = {mutant.name: mutant for mutant in MUTANTS}
        if self.mutant is None:
            yield
        else:
            with mutants[self.mutant].applied():
                yield

    def replay_command(self, report: Report) -> str:
        """Return the command that runs exactly this schedule again."""
        words = ["python", "-m", "tests.simulation.simulate"]
        words += ["--seeds", str(report.seed)]
        if self.mutant is not None:
            words += ["--mutant", self.mutant]
        if self.fault_kinds is not None:
            words += ["--fault-kinds", ",".join(sorted(self.fault_kinds))]
        # An actor that is left out has no faults: do not name them.
        names = (n for n in report.excluded if _actor_of(n) not in report.excluded)
        words += ["--exclude", ",".join(sorted(names))]
        return shlex.join(words)


def _actor_of(fault: str) -> str | None:
    actor, slash, _ = fault.partition("/")
    return actor if slash else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run many schedules; returns 1 if one breaks a law."""
    with silent_logs():
        return _simulate(_parser().parse_args(arguments))


def _simulate(options: argparse.Namespace) -> int:
    search = Search(
        law=options.law,
        fault_kinds=options.fault_kinds,
        excluded=options.exclude or frozenset(),
        mutant=options.mutant,
    )
    first, end = options.seeds
    if options.log:
        return _print_logs(search, range(first, end))
    tally: Counter[str] = Counter()
    progress: Path | None = options.progress_file
    if progress is not None and progress.exists():
        tally.update(json.loads(progress.read_text()))
        first = max(first, tally["next"])
    began = time.monotonic()
    chunks = [
        range(n, min(n + SEEDS_PER_JOB, end)) for n in range(first, end, SEEDS_PER_JOB)
    ]
    check = partial(_check_seeds, search)
    with ProcessPoolExecutor(options.jobs) as pool:
        results = zip(chunks, pool.map(check, chunks), strict=True)
        for chunk, (failing_seed, counts) in results:
            if failing_seed is not None:
                pool.shutdown(cancel_futures=True)
                _print_failure(search, failing_seed, shrinks=options.exclude is None)
                return 1
            tally.update(counts)
            tally["next"] = chunk.stop
            speed = (chunk.stop - first) / (time.monotonic() - began)
            _print(f"seeds up to {chunk.stop} break no law ({speed:.0f} schedules/s)")
            if progress is not None:
                progress.write_text(json.dumps(tally))
    del tally["next"]
    summary = ", ".join(f"{what} {count:,}" for what, count in tally.items())
    _print(f"broken laws 0, {summary}")
    return 0


def _print_logs(search: Search, seeds: range) -> int:
    """Print the logs of some schedules; returns 1 if one breaks a law."""
    with search.mutant_applied():
        reports = [search.run(seed) for seed in seeds]
    for report in reports:
        _print(report_text(report))
    return 1 if any(map(search.finds, reports)) else 0


def _print_failure(search: Search, seed: int, *, shrinks: bool) -> None:
    with search.mutant_applied():
        report = search.run(seed)
        _print(f"seed {seed} breaks {', '.join(report.broken)}")
        if shrinks:
            parts = len(report.parts)
            report = shrink(report, search.law)
            _print(f"shrunk from {parts} actors and faults to {len(report.parts)}")
    _print(report_text(report))
    _print(f"replay: {search.replay_command(report)}")


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _check_seeds(search: Search, seeds: range) -> tuple[int | None, Counter[str]]:
    """Return the first seed that breaks a law, if any, and the counts of events."""
    # No collection need look at the modules again.
    gc.freeze()
    counts: Counter[str] = Counter()
    with silent_logs(), search.mutant_applied():
        for seed in seeds:
            report = search.run(seed)
            if search.finds(report):
                return seed, counts
            counts.update(_count_events(report.environment))
    return None, counts


def _count_events(environment: SimEnvironment) -> Counter[str]:
    """Count the events that show how much a search has tried."""
    kinds = Counter(name.rpartition(" ")[2] for name in environment.faults.occurred)
    return Counter(
        {
            "schedules": 1,
            "effects": len(environment.effects),
            "crashes": sum(process.dead for process in environment.processes),
            "freezes": sum("freezes" in line for line in environment.log),
            "lost replies": sum(kinds[kind] for kind in LOST_REPLY_KINDS),
        }
    )


# Options ----------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation.simulate",
        description="Run schedules by their seeds, and shrink a broken one.",
    )
    add: Any = parser.add_argument
    add(
        "--seeds",
        type=_parse_range,
        default=(0, 1000),
        metavar="FIRST:END",
        help="the seeds FIRST to END - 1, or one seed (default: 0:1000)",
    )
    add("--jobs", type=int, default=1, help="number of processes (default: 1)")
    add("--law", choices=sorted(LAWS), metavar="LAW", help="stop for this law only")
    add(
        "--fault-kinds",
        type=_parse_kinds,
        metavar="KIND,...",
        help=f"allow only these faults, of: {', '.join(sorted(FAULT_KINDS))}",
    )
    add(
        "--exclude",
        type=_parse_names,
        metavar="NAME,...",
        help="leave out these actors and single faults; do not shrink",
    )
    add(
        "--mutant",
        choices=[mutant.name for mutant in MUTANTS],
        metavar="MUTANT",
        help="apply this mutant (a name of tests/simulation/mutants/seeds.txt)",
    )
    add("--log", action="store_true", help="print the log of every schedule")
    add(
        "--progress-file",
        type=Path,
        help="keep the progress here, so that a stopped search can be continued",
    )
    return parser


def _parse_range(text: str) -> tuple[int, int]:
    first, _, end = text.partition(":")
    return int(first), int(end or int(first) + 1)


def _parse_names(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))


def _parse_kinds(text: str) -> frozenset[str]:
    kinds = _parse_names(text)
    if unknown := sorted(kinds - FAULT_KINDS):
        msg = f"unknown kinds: {', '.join(unknown)}"
        raise argparse.ArgumentTypeError(msg)
    return kinds


if __name__ == "__main__":
    sys.exit(main())
