"""What a run costs while it waits, and what finding those that wait costs."""

from __future__ import annotations

import asyncio
import time
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.clerk import suspended
from benchmarks.conversation import compressed, transcript
from benchmarks.recording import RecordingStore
from benchmarks.row import Row
from continuations import Runner

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNS = 1000


def rows() -> Iterator[Row]:
    """Measure the bytes in memory and the listing on files."""
    store = RecordingStore()
    (one,) = asyncio.run(suspended(store, 1))
    messages = compressed(transcript(one.continuation))
    yield Row(
        what="first suspension beyond its compressed messages",
        ours=(store.at_rest - messages) / 1000,
        against="the design's bytes",
        theirs=3,
        unit="kB",
        most=1,
    )
    with TemporaryDirectory() as folder:
        asyncio.run(suspended(f"file:{folder}", _RUNS))
        runner = Runner([], store=f"file:{folder}")
        listed = median(_listed(runner) for _ in range(9))
    yield Row(
        what=f"{_RUNS} waiting runs listed on files",
        ours=listed,
        against="the design's milliseconds",
        theirs=10,
        unit="ms",
        most=1,
    )


def _listed(runner: Runner) -> float:
    begun = time.perf_counter()
    found = sum(1 for _ in runner.waiting())
    took = (time.perf_counter() - begun) * 1000
    assert found == _RUNS  # noqa: S101 - else the figure means nothing
    return took
