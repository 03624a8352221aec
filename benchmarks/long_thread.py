"""The requests to the store of one message of a thread, early and late."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from benchmarks.counting_store import CountingStore
from benchmarks.result_row import Row
from continuations import Agent, Compaction, Replied, Runner
from continuations.models.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterator

_EARLY, _LATE = 10, 10_000
_READS_BESIDE_THE_TREE = 4


def rows() -> Iterator[Row]:
    """Measure message 10 and message 10,000 of one thread.

    The history is shortened about each 40 messages, so that it stays small.
    """

    def summarize(messages: list[dict[str, Any]]) -> str:
        del messages
        return "The customer asked for parcels."

    compaction = Compaction(
        soft=100,
        hard=1_000_000,
        keep_last=20,
        summarize=summarize,
        count_tokens=len,
        shorten_results=None,
    )
    model = ScriptedModel(lambda _: "It is on its way.")
    store = CountingStore()
    agent = Agent("support", model=model, compaction=compaction)
    thread = Runner(agent, store=store).thread(key="customer 42")
    counts: dict[int, tuple[int, int]] = {}
    versions = 0
    for number in range(1, _LATE + 1):
        writes, reads = store.creates + store.listings, store.reads + store.misses
        reply = thread.send("Where is my parcel?", by="ann")
        if not isinstance(reply, Replied):
            raise TypeError(reply)
        if number in (_EARLY, _LATE):
            counts[number] = (
                store.creates + store.listings - writes,
                store.reads + store.misses - reads,
            )
            versions = reply.continuation.version
    yield Row(
        what=f"message {_LATE:,} of a thread: PUTs and LISTs",
        ours=counts[_LATE][0],
        compared_with=f"message {_EARLY}",
        theirs=counts[_EARLY][0],
        unit="requests",
        max_ratio=1.0,
    )
    yield Row(
        what=f"message {_LATE:,} of a thread: GETs",
        ours=counts[_LATE][1],
        compared_with=f"log2(versions) + {_READS_BESIDE_THE_TREE}",
        theirs=math.log2(versions) + _READS_BESIDE_THE_TREE,
        unit="requests",
        max_ratio=1.0,
    )
