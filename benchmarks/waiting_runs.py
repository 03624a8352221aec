"""What a run costs while it waits, and what finding those that wait costs."""

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
    """Measure the bytes in memory and the listing on files."""
    store = CountingStore()
    (one,) = asyncio.run(start_suspended_runs(store, 1))
    messages = compressed_size(transcript_json(one.continuation))
    yield Row(
        what="first suspension beyond its compressed messages",
        ours=(store.stored_bytes - messages) / 1000,
        compared_with="the design's bytes",
        theirs=3,
        unit="kB",
        max_ratio=1,
    )
    with TemporaryDirectory() as folder:
        asyncio.run(start_suspended_runs(f"file:{folder}", _RUNS))
        runner = Runner([], store=f"file:{folder}")
        listed = median(_listing_ms(runner) for _ in range(9))
    yield Row(
        what=f"{_RUNS} waiting runs listed on files",
        ours=listed,
        compared_with="the design's milliseconds",
        theirs=10,
        unit="ms",
        max_ratio=1,
    )


def _listing_ms(runner: Runner) -> float:
    begun = time.perf_counter()
    found = sum(1 for _ in runner.waiting())
    took = (time.perf_counter() - begun) * 1000
    assert found == _RUNS  # noqa: S101 - else the figure means nothing
    return took
