"""Measure what the library costs and print it as one table."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from benchmarks import (
    cold_processes,
    decide_on_s3,
    depth,
    fanout,
    imports,
    long_run,
    turn,
    waiting_runs,
)
from benchmarks.result_row import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.result_row import Row

BENCHMARKS: dict[str, Callable[[], Iterator[Row]]] = {
    "imports": imports.rows,
    "decide": cold_processes.decide_rows,
    "bucket": decide_on_s3.rows,
    "resume": cold_processes.resume_rows,
    "turn": turn.rows,
    "life": long_run.rows,
    "depth": depth.rows,
    "fanout": fanout.rows,
    "rest": waiting_runs.rows,
}


def main() -> None:
    """Measure; a bound that is not held is told, and is no failure."""
    options = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    options.add_argument("--only", choices=BENCHMARKS, help="measure one thing only")
    options.add_argument("--json", action="store_true", help="print JSON, no table")
    given = options.parse_args()
    rows: list[Row] = []
    for name in [given.only] if given.only else BENCHMARKS:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += BENCHMARKS[name]()
    if given.json:
        print(json.dumps([row.as_dict() for row in rows], indent=2))
    else:
        print(table(rows))


if __name__ == "__main__":
    main()
