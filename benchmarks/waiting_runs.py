"""The stored bytes of a waiting run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks.approval_agent import start_suspended_runs
from benchmarks.counting_store import CountingStore
from benchmarks.result_row import Row
from benchmarks.sizes import compressed_size, transcript_json

if TYPE_CHECKING:
    from collections.abc import Iterator


def rows() -> Iterator[Row]:
    """Measure the bytes of one run in memory."""
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
