"""Measure what the library costs and print it as one table."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from benchmarks import bucket, cold, depth, fanout, imports, life, rest, turn
from benchmarks.row import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.row import Row

MEASURES: dict[str, Callable[[], Iterator[Row]]] = {
    "imports": imports.rows,
    "decide": cold.decide_rows,
    "bucket": bucket.rows,
    "resume": cold.resume_rows,
    "turn": turn.rows,
    "life": life.rows,
    "depth": depth.rows,
    "fanout": fanout.rows,
    "rest": rest.rows,
}


def main() -> None:
    """Measure; a bound that is not held is told, and is no failure."""
    options = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    options.add_argument("--only", choices=MEASURES, help="measure one thing only")
    options.add_argument("--json", action="store_true", help="print JSON, no table")
    given = options.parse_args()
    rows: list[Row] = []
    for name in [given.only] if given.only else MEASURES:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += MEASURES[name]()
    if given.json:
        print(json.dumps([row.facts() for row in rows], indent=2))
    else:
        print(table(rows))


if __name__ == "__main__":
    main()
