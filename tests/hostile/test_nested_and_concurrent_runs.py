"""Runs inside runs, and many threads on one store: runs stay separate and intact."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from continuations import Agent, Approve, Finished, Runner, Suspended, run, tool
from continuations.errors import AlreadyDecided, RunBusy, StaleRun
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import check_integrity
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import FileStore, Store, SyncStore
from tests import sample_app
from tests.effect_log import Effect
from tests.hostile import sample_store
from tests.hostile.editable_store import EditableStore
from tests.outcomes import single_wait
from tests.postgres_server import PostgresServer
from tests.scripts import Script, call, scripted_model
from tests.stores import keys_and_bodies

OUTER, INNER = "OUTPUTOFTHEOUTERRUN", "OUTPUTOFTHEINNERRUN"


def inner_agent() -> Agent:
    """Return the agent that a tool runs; it makes a call."""

    @tool
    def look() -> str:
        """Look."""
        return "looked"

    model = ScriptedModel([ToolCall("look", {}), INNER])
    return Agent("inside", tools=[look], model=model)


def outer_agent(function: Callable[[], str]) -> Agent:
    """Return an agent that calls a function in a tool and then needs an approval."""

    @tool
    def enter() -> str:
        """Run another agent."""
        return function()

    @tool(approval=True)
    def pay() -> str:
        """Pay."""
        return "paid"

    calls = [ToolCall("enter", {}), ToolCall("pay", {})]
    return Agent("outside", tools=[enter, pay], model=ScriptedModel([*calls, OUTER]))


def run_inner(store: Store | None) -> str:
    """Run the inner agent to its end, with or without a store."""
    if store is None:
        outcome = run(inner_agent(), "in")
    else:
        outcome = Runner(inner_agent(), store=store).start("in", run_id="inner")
    assert isinstance(outcome, Finished)
    return str(outcome.output)


def run_outer(store: Store, function: Callable[[], str]) -> Finished:
    """Run the outer agent to its end, with one suspension."""
    runner = Runner(outer_agent(function), store=store)
    wait = single_wait(runner.start("out", run_id="outer"))
    runner.decide(wait.id, Approve(by="kim"))
    ended = runner.resume("outer")
    assert isinstance(ended, Finished)
    return ended


def stored_run_ids(store: EditableStore) -> set[str]:
    """Return the ids of the runs that have objects in a store."""
    return {key.split("/")[1] for key in store.bodies if key.startswith("runs/")}


def test_inner_run_without_store_stores_nothing() -> None:
    """A run without a store, inside a stored run, leaves only its output."""
    store = EditableStore()

    ended = run_outer(store, lambda: run_inner(None))

    # Then the store has one run, and only the output of the inner one
    assert {"outer"} == stored_run_ids(store)
    contents = [m["content"] for m in ended.continuation.root.messages]
    assert ["out", None, INNER, None, "paid", OUTER] == contents
    assert not [body for body in keys_and_bodies(store.bodies) if b"looked" in body]


def test_inner_run_with_store_is_stored_without_the_outer_run() -> None:
    """A stored run inside a run without a store is stored; the outer one is not."""
    store = EditableStore()

    outcome = run(outer_agent(lambda: run_inner(store)), "out")

    assert isinstance(outcome, Suspended)
    assert INNER == outcome.continuation.root.messages[2]["content"]
    assert {"inner"} == stored_run_ids(store)
    everything = b"".join(keys_and_bodies(store.bodies))
    assert INNER.encode() in everything
    assert b"outside" not in everything


def test_inner_and_outer_run_in_one_store_stay_separate() -> None:
    """Inner and outer run have their own objects, as many as each has alone."""
    nested, only_inner, only_outer = EditableStore(), EditableStore(), EditableStore()

    ended = run_outer(nested, lambda: run_inner(nested))

    # Then each run has as many versions as without the other
    run_inner(only_inner)
    other = run_outer(only_outer, lambda: run_inner(None))
    assert {"inner", "outer"} == stored_run_ids(nested)
    assert ended.continuation.version == other.continuation.version
    assert version_count(nested) == version_count(only_inner) + version_count(
        only_outer
    )
    # And the inner run has no text of the outer one
    inner = {k: body for k, body in nested.bodies.items() if "/inner/" in k}
    assert OUTER.encode() not in b"".join(keys_and_bodies(inner))


def version_count(store: EditableStore) -> int:
    """Return the number of versions of all runs."""
    return sum("/v/" in key for key in store.bodies)


# Threads ----------------------------------------------------------------------------


@pytest.mark.parametrize("count", [8, 16])
def test_many_threads_each_finish_their_run(count: int, tmp_path: Path) -> None:
    """Threads that share a runner and a folder damage nothing and leave no keys."""
    runner = sample_store.sample_runner(tmp_path)

    def run_one(number: int) -> object:
        assert isinstance(runner.start("go", run_id=f"r-{number}"), Suspended)
        return sample_store.finish_run(runner, f"r-{number}")

    with ThreadPoolExecutor(count) as threads:
        ended = list(threads.map(run_one, range(count)))

    assert [Finished] * count == [type(each) for each in ended]
    assert_undamaged(tmp_path, *(f"r-{number}" for number in range(count)))


@pytest.mark.parametrize("count", [8, 16])
def test_many_threads_run_one_run_once(count: int, tmp_path: Path) -> None:
    """All threads start, decide and resume one run; its effect happens once."""
    check_one_run_of_threads(count, f"file:{tmp_path}")
    assert_undamaged(tmp_path, sample_store.RUN)


def test_many_threads_run_one_run_once_in_sqlite(tmp_path: Path) -> None:
    check_one_run_of_threads(8, f"sqlite:{tmp_path}/runs.db")


def test_many_threads_run_one_run_once_in_postgres(postgres: PostgresServer) -> None:
    check_one_run_of_threads(8, postgres.new_url())


def check_one_run_of_threads(count: int, url: str) -> None:
    """Let threads start, decide and resume one run."""
    effects: list[Effect] = []
    script: Script = {"go": [[call("pay", what="1")], "all paid"]}
    model = scripted_model(script, record_turn=lambda _task, _turn: None)
    agents = sample_app.make_agents(model, record=effects.append)
    runner = Runner(agents, store=url)

    def run_one(number: int) -> object:
        for _ in range(1000):
            # A thread that is too late gets one of these errors and tries again.
            with suppress(AlreadyDecided, RunBusy, StaleRun):
                outcome = runner.start("go", run_id=sample_store.RUN)
                if isinstance(outcome, Finished):
                    return outcome.output
                for wait in outcome.continuation.waits:
                    runner.decide(wait.id, Approve(by=f"kim {number}"))
            time.sleep(0.01)
        return None

    with ThreadPoolExecutor(count) as threads:
        outputs = list(threads.map(run_one, range(count)))

    assert ["all paid"] * count == outputs
    assert ["pay 1"] == [effect.name for effect in effects]
    with SyncStore(runner.store) as store:
        assert 1 == len(store.keys(f"runs/{sample_store.RUN}/in/d-"))
        assert [] == store.keys("waits/") + store.keys("markers/")


def assert_undamaged(folder: Path, *run_ids: str) -> None:
    """Assert that no object of some runs is damaged and no temporary key is left."""
    for run_id in run_ids:
        report = asyncio.run(check_integrity(Objects(FileStore(folder)), run_id))
        assert report.is_resumable
        assert () == report.findings
    assert [] == sample_store.store_keys(folder, "markers/", "waits/", ".tmp+/")
