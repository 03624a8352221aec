"""The cost of events: runs with a listener and without one, side by side."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.counting_store import CountingStore
from benchmarks.result_row import Row
from benchmarks.rounds import interleaved_medians
from continuations import Agent, Runner
from continuations.models.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.events import RunEvent

_ROUNDS, _RUNS, _WORDS = 7, 50, 100


def rows() -> Iterator[Row]:
    """Measure runs whose model writes 100 words."""
    alone, heard = interleaved_medians(
        _ROUNDS, partial(_microseconds, heard=False), partial(_microseconds, heard=True)
    )
    yield Row(
        what="a run without a listener",
        ours=alone,
        compared_with=f"with one, {_WORDS} words",
        theirs=heard,
        unit="us",
        max_ratio=1.0,
    )
    yield Row(
        what="requests to the store with a listener",
        ours=_requests(heard=True),
        compared_with="without one",
        theirs=_requests(heard=False),
        unit="requests",
        max_ratio=1.0,
    )


def _run(store: CountingStore, *, heard: bool) -> None:
    model = ScriptedModel(["word " * _WORDS])
    events: list[RunEvent] = []
    runner = Runner(Agent("clerk", model=model), store=store)
    runner.start("Write.", on_event=events.append if heard else None)


def _microseconds(*, heard: bool) -> float:
    store = CountingStore()
    began = time.perf_counter()
    for _ in range(_RUNS):
        _run(store, heard=heard)
    return (time.perf_counter() - began) / _RUNS * 1e6


def _requests(*, heard: bool) -> int:
    store = CountingStore()
    _run(store, heard=heard)
    return store.creates + store.reads + store.misses + store.listings
