"""The stored bytes of a waiting run, and the time to list the waiting runs."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.approval_agent import start_suspended_runs
from benchmarks.counting_store import CountingStore
from benchmarks.result_row import Row
from benchmarks.sizes import compressed_size, transcript_json
from continuations import Runner

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNS = 1000


def rows() -> Iterator[Row]:
    """Measure the bytes of one run in memory, and a listing on files."""
    store = CountingStore()
    (run,) = asyncio.run(start_suspended_runs(store, 1))
    messages = compressed_size(transcript_json(run.continuation))
    yield Row(
        what="waiting run, bytes beyond its compressed messages",
        ours=(store.stored_bytes - messages) / 1000,
        compared_with="the goal",
        theirs=2,
        unit="kB",
        max_ratio=1,
    )
    with TemporaryDirectory() as folder:
        asyncio.run(start_suspended_runs(f"file:{folder}", _RUNS))
        runner = Runner([], store=f"file:{folder}")
        listing_ms = median(_listing_ms(runner) for _ in range(9))
    yield Row(
        what=f"{_RUNS:,} open waits listed, on files",
        ours=listing_ms,
        compared_with="the goal",
        theirs=10,
        unit="ms",
        max_ratio=1,
    )


def _listing_ms(runner: Runner) -> float:
    started = time.perf_counter()
    count = sum(1 for _ in runner.waiting())
    milliseconds = (time.perf_counter() - started) * 1000
    assert count == _RUNS  # noqa: S101 - the listing must be complete
    return milliseconds
