"""Runs in runs, and many threads at one store: each run keeps its own, and is whole."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from continuations import (
    Agent,
    AlreadyDecided,
    Approve,
    Finished,
    RunBusy,
    Runner,
    StaleRun,
    Suspended,
    run,
    tool,
)
from continuations.ledger.doctor import check_integrity
from continuations.ledger.objects import Objects
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import FileStore
from tests.hostile import sample_store
from tests.hostile.editable_store import EditableStore
from tests.stores import keys_and_bodies

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from continuations_storage import Store

OUTER, INNER = "WHATTHEOUTERONESAID", "WHATTHEINNERONESAID"


def inner_agent() -> Agent:
    """Return the agent that a tool runs; it makes a call of its own."""

    @tool
    def look() -> str:
        """Look."""
        return "looked"

    model = ScriptedModel([ToolCall("look", {}), INNER])
    return Agent("inside", tools=[look], model=model)


def outer_agent(call: Callable[[], str]) -> Agent:
    """Return an agent whose only tool does something, and then waits for a person."""

    @tool
    def enter() -> str:
        """Run another agent to its end."""
        return call()

    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    calls = [ToolCall("enter", {}), ToolCall("pay", {})]
    return Agent("outside", tools=[enter, pay], model=ScriptedModel([*calls, OUTER]))


def run_inner(store: Store | None) -> str:
    """Run the inner agent to its end, kept in a store or not."""
    if store is None:
        outcome = run(inner_agent(), "in")
    else:
        outcome = Runner(inner_agent(), store=store).start("in", run_id="inner")
    assert isinstance(outcome, Finished)
    return str(outcome.output)


def run_outer(store: Store, call: Callable[[], str]) -> Finished:
    """Run the outer agent to its end, over a suspension."""
    runner = Runner(outer_agent(call), store=store)
    outcome = runner.start("out", run_id="outer")
    assert isinstance(outcome, Suspended)
    runner.decide(outcome.waits[0].id, Approve(by="kim"))
    ended = runner.resume("outer")
    assert isinstance(ended, Finished)
    return ended


def stored_run_ids(store: EditableStore) -> set[str]:
    """Return the ids of the runs of which a store holds anything."""
    return {key.split("/")[1] for key in store.bodies if key.startswith("runs/")}


def test_inner_run_without_store_stores_nothing() -> None:
    """EF-17: a plain run inside of a kept one leaves nothing but its answer."""
    store = EditableStore()

    ended = run_outer(store, lambda: run_inner(None))

    # Then the store has one run, and of the inner one what its caller was told
    assert {"outer"} == stored_run_ids(store)
    said = [m["content"] for m in ended.continuation.root.messages]
    assert ["out", None, INNER, None, "paid", OUTER] == said
    assert not [body for body in keys_and_bodies(store.bodies) if b"looked" in body]


def test_inner_run_with_store_is_kept_when_outer_run_is_not() -> None:
    """EF-17: the other way round; what the outer one says is nowhere."""
    store = EditableStore()

    outcome = run(outer_agent(lambda: run_inner(store)), "out")

    assert isinstance(outcome, Suspended)
    assert INNER == outcome.continuation.root.messages[2]["content"]
    assert {"inner"} == stored_run_ids(store)
    everything = b"".join(keys_and_bodies(store.bodies))
    assert INNER.encode() in everything
    assert b"outside" not in everything


def test_inner_and_outer_run_in_one_store_stay_separate() -> None:
    """EF-15, EF-18: each has its own rows, and nobody writes anything twice."""
    nested, alone, plainly = EditableStore(), EditableStore(), EditableStore()

    ended = run_outer(nested, lambda: run_inner(nested))

    # Then each run has as many versions as it has without the other
    run_inner(alone)
    other = run_outer(plainly, lambda: run_inner(None))
    assert {"inner", "outer"} == stored_run_ids(nested)
    assert ended.continuation.version == other.continuation.version
    assert version_count(nested) == version_count(alone) + version_count(plainly)
    # And the words of one are in no object of the other, but for the answer
    theirs = {k: body for k, body in nested.bodies.items() if "/inner/" in k}
    assert OUTER.encode() not in b"".join(keys_and_bodies(theirs))


def version_count(store: EditableStore) -> int:
    """Return how many versions there are of all runs."""
    return sum("/v/" in key for key in store.bodies)


# Threads ------------------------------------------------------------------------


@pytest.mark.parametrize("count", [8, 16])
def test_many_threads_with_a_run_each(count: int, tmp_path: Path) -> None:
    """EF-20, EF-18: one runner, one folder; nothing is torn, mixed up or left over."""
    runner = sample_store.sample_runner(tmp_path)

    def one(number: int) -> object:
        assert isinstance(runner.start("go", run_id=f"r-{number}"), Suspended)
        return sample_store.finish_run(runner, f"r-{number}")

    with ThreadPoolExecutor(count) as threads:
        ended = list(threads.map(one, range(count)))

    assert [Finished] * count == [type(each) for each in ended]
    assert_undamaged(tmp_path, *(f"r-{number}" for number in range(count)))


@pytest.mark.parametrize("count", [8, 16])
def test_many_threads_with_one_run(count: int, tmp_path: Path) -> None:
    """EF-20, EF-21, R-A1, R-A12: all start, decide and resume it; it happens once."""
    paid: list[str] = []

    @tool(approval=True)
    def pay() -> str:
        """Pay, and write it down."""
        paid.append("paid")
        return "paid"

    model = ScriptedModel([ToolCall("pay", {}), "all paid"])
    runner = Runner(Agent("shop", tools=[pay], model=model), store=f"file:{tmp_path}")

    def one(number: int) -> object:
        for _ in range(1000):
            # Whoever comes late in anything is told so, and looks again.
            with suppress(AlreadyDecided, RunBusy, StaleRun):
                told = runner.start("go", run_id=sample_store.RUN)
                if isinstance(told, Finished):
                    return told.output
                for wait in told.continuation.waits:
                    runner.decide(wait.id, Approve(by=f"kim {number}"))
            time.sleep(0.01)
        return None

    with ThreadPoolExecutor(count) as threads:
        told = list(threads.map(one, range(count)))

    assert (["all paid"] * count, ["paid"]) == (told, paid)
    assert 1 == len(sample_store.store_keys(tmp_path, f"runs/{sample_store.RUN}/in/d-"))
    assert_undamaged(tmp_path, sample_store.RUN)


def assert_undamaged(folder: Path, *run_ids: str) -> None:
    """No object of these runs is damaged, and none is there that need not be."""
    for run_id in run_ids:
        found = asyncio.run(check_integrity(Objects(FileStore(folder)), run_id))
        assert found.is_resumable
        assert () == found.findings
    assert [] == sample_store.store_keys(folder, "markers/", "waits/", ".tmp+/")
