"""The faulty store fails where the plan says, and records every operation."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import continuations_storage
from continuations_storage import (
    AlreadyExists,
    Inconclusive,
    MemoryStore,
    NotFound,
    Throttled,
    Unavailable,
)
from continuations_storage.faults import (
    Crash,
    FaultyStore,
    Moment,
    Operation,
    StaleListing,
    at,
    crashed,
    delayed,
    first_of,
    lost_reply,
    on,
    refused,
)

KILLED_AT_TWO = """
import asyncio, sys
from continuations_storage import FileStore
from continuations_storage.faults import FaultyStore, at, killed

async def story():
    store = FaultyStore(FileStore(sys.argv[1]), at(2, killed(sys.argv[2])))
    for key in ("1", "2", "3"):
        await store.create(key, b"")

asyncio.run(story())
"""


async def test_every_operation_is_numbered_and_recorded() -> None:
    store = FaultyStore(MemoryStore())

    await store.create("a", b"")
    await store.read("a")
    await store.keys("prefix/")
    await store.delete("a")
    await store.probe()

    assert [
        Operation(number=1, verb="create", key="a"),
        Operation(number=2, verb="read", key="a"),
        Operation(number=3, verb="keys", key="prefix/"),
        Operation(number=4, verb="delete", key="a"),
        Operation(number=5, verb="probe", key=""),
    ] == store.operations


def test_refused_fails_before_the_effect() -> None:
    store = FaultyStore(MemoryStore(), at(1, refused(Throttled)))

    with pytest.raises(Throttled, match="injected before"):
        asyncio.run(store.create("a", b""))
    with pytest.raises(NotFound):
        asyncio.run(store.inner.read("a"))
    asyncio.run(store.create("a", b""))


@pytest.mark.parametrize("error", [Inconclusive, Unavailable])
def test_lost_reply_keeps_the_effect(error: type[Inconclusive | Unavailable]) -> None:
    store = FaultyStore(MemoryStore(), on("create", lost_reply(error)))

    with pytest.raises(error, match="injected after"):
        asyncio.run(store.create("a", b"body"))
    assert b"body" == asyncio.run(store.read("a"))


def test_lost_reply_hides_an_error_too() -> None:
    store = FaultyStore(MemoryStore(), at(2, lost_reply()))
    asyncio.run(store.create("a", b""))

    with pytest.raises(Inconclusive) as lost:
        asyncio.run(store.create("a", b""))
    assert isinstance(lost.value.__context__, AlreadyExists)


async def test_plan_selects_verb_prefix_and_calls() -> None:
    plan = on("create", refused(), prefix="runs/", skip=1, times=2)
    store = FaultyStore(MemoryStore(), plan)

    async def is_stored(key: str) -> bool:
        try:
            await store.create(key, b"")
        except Unavailable:
            return False
        return True

    keys = ("other/1", "runs/1", "other/2", "runs/2", "runs/3", "runs/4")
    assert [True, True, True, False, False, True] == [
        await is_stored(key) for key in keys
    ]


def test_first_fault_of_several_plans_is_used() -> None:
    plan = first_of(at(2, refused(Throttled)), on("read", refused(), times=2))
    store = FaultyStore(MemoryStore(), plan)

    for expected in (Unavailable, Throttled, NotFound):
        with pytest.raises(expected):
            asyncio.run(store.read("a"))


def test_delay_postpones_the_operation() -> None:
    store = FaultyStore(MemoryStore(), at(1, delayed(0.02)))
    began = time.monotonic()

    asyncio.run(store.create("a", b""))

    assert time.monotonic() - began >= 0.02


@pytest.mark.parametrize(("moment", "left"), [("before", ["1"]), ("after", ["1", "2"])])
def test_crashed_store_does_nothing(moment: Moment, left: list[str]) -> None:
    store = FaultyStore(MemoryStore(), at(2, crashed(moment)))

    async def scenario() -> None:
        await store.create("1", b"")
        with pytest.raises(Crash):
            await store.create("2", b"")
        with pytest.raises(Crash, match="has crashed"):
            await store.delete("1")

    asyncio.run(scenario())

    assert left == asyncio.run(store.inner.keys(""))
    assert 2 == len(store.operations)


async def test_crash_also_ends_the_other_tasks() -> None:
    plan = first_of(at(1, delayed(0.01)), at(2, crashed("before")))
    store = FaultyStore(MemoryStore(), plan)

    works = [store.delete("1"), store.delete("2")]
    assert [Crash, Crash] == [
        type(end) for end in (await asyncio.gather(*works, return_exceptions=True))
    ]


def test_except_exception_does_not_catch_a_crash() -> None:
    assert not issubclass(Crash, Exception)


async def test_stale_listing_shows_keys_later() -> None:
    stale = [StaleListing(prefix="runs/", operations=2)]
    store = FaultyStore(MemoryStore(), stale_listings=stale)

    await store.create("runs/1", b"")
    await store.create("waits/1", b"")
    await store.create("runs/2", b"")
    assert [["runs/1", "waits/1"], ["runs/1", "waits/1"], ["runs/1", "runs/2"]] == (
        [await store.keys("", limit=2) for _ in range(3)]
    )


@pytest.mark.parametrize(("moment", "left"), [("before", ["1"]), ("after", ["1", "2"])])
def test_process_is_killed_at_the_planned_operation(
    moment: Moment, left: list[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED_AT_TWO, tmp_path, moment],
        env={"PYTHONPATH": str(Path(continuations_storage.__file__).parents[1])},
        timeout=120,
        check=False,
    )

    assert -signal.SIGKILL == done.returncode
    names = {each.name for each in tmp_path.iterdir()}
    assert set(left) == names - {".tmp+"}
