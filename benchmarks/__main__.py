"""Measure the costs of the library and print them as one table."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from benchmarks import (
    cold_processes,
    compacted_run,
    console_lists,
    decide_on_s3,
    decide_over_http,
    depth,
    fanout,
    floors,
    imports,
    listeners,
    long_history,
    long_run,
    long_thread,
    on_files,
    stores,
    tracing,
    turn,
    waiting_runs,
    waits,
    wakeups,
    workflows,
)
from benchmarks.result_row import table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.result_row import Row

BENCHMARKS: dict[str, Callable[[], Iterator[Row]]] = {
    "imports": imports.rows,
    "decide": cold_processes.decide_rows,
    "decide-s3": decide_on_s3.rows,
    "decide-http": decide_over_http.rows,
    "resume": cold_processes.resume_rows,
    "turn": turn.rows,
    "long-run": long_run.rows,
    "long-history": long_history.rows,
    "compacted-run": compacted_run.rows,
    "long-thread": long_thread.rows,
    "listeners": listeners.rows,
    "depth": depth.rows,
    "fan-out": fanout.rows,
    "waiting": waiting_runs.rows,
    "waits": waits.rows,
    "files": on_files.rows,
    "stores": stores.rows,
    "wakeups": wakeups.rows,
    "workflows": workflows.rows,
    "tracing": tracing.rows,
    "console-lists": console_lists.rows,
    "floors": floors.rows,
}


def main() -> None:
    """Measure; a missed limit is printed and does not change the exit code."""
    options = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    options.add_argument("--only", choices=BENCHMARKS, help="run one benchmark")
    options.add_argument("--json", action="store_true", help="print JSON and no table")
    selected = options.parse_args()
    rows: list[Row] = []
    for name in [selected.only] if selected.only else BENCHMARKS:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        rows += BENCHMARKS[name]()
    if selected.json:
        print(json.dumps([row.as_dict() for row in rows], indent=2))
    else:
        print(table(rows))


if __name__ == "__main__":
    main()
