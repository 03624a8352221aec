"""Runs are found by status, agent and label, and keep their description."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, cast

import pytest

from continuations import (
    Approve,
    AsyncRunner,
    Finished,
    Identity,
    Runner,
    RunSummary,
    Suspended,
)
from continuations.core.rows.run import is_label
from continuations.errors import InvalidInput
from continuations.ledger import layout
from continuations.ledger.index import run_index
from continuations.ledger.index.run_index import mend
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.wire.envelope import decode_object
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import FaultyStore, ForwardingStore, on, refused
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import make_boss, text_tool
from tests.outcomes import expect
from tests.scripts import Script
from tests.stores import StoreWithListingTime

SCRIPT: Script = {"go": [[("pay", {"what": "x"})], "end"], "hello": ["hi"]}
FINANCE = {"team": "finance", "country": "de"}
pay = text_tool("pay", "paid {what}", {"what": str}, approval=True)


def make_runner(store: Store, clock: ManualClock, **options: Any) -> Runner:
    """Return a runner of `boss`, who may pay."""
    return Runner(make_boss(SCRIPT, pay), store=store, clock=clock, **options)


def index_keys(store: Store) -> list[str]:
    return asyncio.run(store.keys(run_index.INDEX_PREFIX))


def statuses(runner: Runner, **filters: Any) -> dict[str, str]:
    """Return the status of each listed run, by id."""
    return {row.run_id: row.status for row in runner.runs(**filters)}


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock.now)


def test_run_is_listed_from_its_start_to_its_end(
    store: MemoryStore, clock: ManualClock
) -> None:
    runner = make_runner(store, clock)
    outcome = runner.start(
        "go", run_id="r1", labels=FINANCE, title="Pay Jane", by="ann"
    )
    assert isinstance(outcome, Suspended)
    (row,) = runner.runs(status="suspended")
    assert row == RunSummary(
        run_id="r1",
        status="suspended",
        agent="boss",
        title="Pay Jane",
        labels=FINANCE,
        requester="ann",
        created_at=row.created_at,
        updated_at=row.updated_at,
        version=2,
        cursor="live/r1",
    )
    assert [
        "index/label/country=de/r1",
        "index/label/team=finance/r1",
        "index/live/r1",
    ] == index_keys(store)

    clock.seconds += 86_400
    runner.decide(outcome.waits[0].id, Approve(by="kim"))
    runner.resume("r1")

    (row,) = runner.runs(label="team=finance")
    assert ("finished", "Pay Jane") == (row.status, row.title)
    assert row.updated_at is not None
    assert row.created_at is not None
    assert row.updated_at - row.created_at >= timedelta(days=1)
    day = f"{row.updated_at:%Y-%m-%d}"
    assert f"index/ended/{day}/r1" in index_keys(store)
    assert "index/live/r1" not in index_keys(store)


def test_filters_choose_by_agent_status_and_label(
    store: MemoryStore, clock: ManualClock
) -> None:
    runner = make_runner(store, clock)
    runner.start("go", run_id="waits", labels=FINANCE)
    runner.start("hello", run_id="done", labels={"team": "sales"})
    runner.start("go", run_id="stored", work=False)
    runner.start("go", run_id="stopped")
    runner.cancel("stopped")

    everything = statuses(runner)
    assert {
        "waits": "suspended",
        "stored": "suspended",
        "done": "finished",
        "stopped": "cancelled",
    } == everything
    assert {"waits", "stored"} == statuses(runner, status="live").keys()
    assert {"done", "stopped"} == statuses(runner, status="ended").keys()
    assert {"stopped"} == statuses(runner, status="cancelled").keys()
    assert {"waits"} == statuses(runner, label="team=finance").keys()
    assert {} == statuses(runner, label="team=fin")
    assert everything == statuses(runner, agent="boss")
    assert {} == statuses(runner, agent="hr")


def test_pages_follow_one_another_by_cursor(
    store: MemoryStore, clock: ManualClock
) -> None:
    """Also over the border between live and ended runs."""
    runner = make_runner(store, clock)
    for number in range(4):
        runner.start("go", run_id=f"live-{number}", work=False)
        runner.start("hello", run_id=f"done-{number}")
    cursor, ids = "", list[str]()
    while row := next(runner.runs(after=cursor), None):
        ids.append(row.run_id)
        cursor = row.cursor
    assert ids == [row.run_id for row in runner.runs()]
    assert 8 == len(set(ids))


def test_start_and_end_cost_two_creates_more_and_one_for_each_label(
    clock: ManualClock,
) -> None:
    inner = StoreWithListingTime(clock)
    counts: list[tuple[int, int, int]] = []
    for number, labels in enumerate((None, FINANCE)):
        watched = FaultyStore(inner)
        make_runner(watched, clock).start("hello", run_id=f"r{number}", labels=labels)
        verbs = [operation.verb for operation in watched.operations]
        creates, reads = verbs.count("create"), verbs.count("read")
        counts.append((creates, reads, verbs.count("keys")))
    # A guard, version 1, the live key, the end, the ended key; two listings.
    assert [(5, 0, 2), (7, 0, 2)] == counts


def test_crash_at_every_operation_hides_no_run() -> None:
    """After a sweep, the index has exactly the keys of the run's true status."""
    for point in every_crash("before", "after", more_than=9):
        clock = ManualClock()
        store = MemoryStore(clock.now)
        with point.process(store) as dying:
            runner = make_runner(dying, clock)
            runner.start("hello", run_id="r1", labels={"team": "finance"})

        runner = make_runner(store, clock)
        if asyncio.run(store.keys("runs/r1/v/")):
            clock.seconds += 120
            runner.sweep()
        else:
            runner.start("hello", run_id="r1", labels={"team": "finance"})

        (row,) = runner.runs()
        assert "finished" == row.status, point
        day = f"{row.updated_at:%Y-%m-%d}"
        keys = [f"index/ended/{day}/r1", "index/label/team=finance/r1"]
        assert keys == index_keys(store), point


def test_sweep_that_cannot_list_the_run_that_it_ended_tries_again(
    store: MemoryStore, clock: ManualClock
) -> None:
    """Also if an earlier process left the marker of its version."""
    untidy = FaultyStore(store, on("delete", refused(), prefix="markers/"))
    outcome = expect(make_runner(untidy, clock).start("go", run_id="r1"), Suspended)
    make_runner(store, clock).decide(outcome.waits[0].id, Approve(by="kim"))
    clock.seconds += 120
    plan = on("create", refused(), prefix="index/ended/")
    make_runner(FaultyStore(store, plan), clock).sweep()
    make_runner(store, clock).sweep()

    (row,) = make_runner(store, clock).runs()
    assert "finished" == row.status
    assert [f"index/ended/{row.updated_at:%Y-%m-%d}/r1"] == index_keys(store)


def test_sweep_that_cannot_delete_a_wait_leaves_it_to_the_next_sweep(
    clock: ManualClock,
) -> None:
    """A decided wait does not stay in the list.

    On a store that tells its time with listings, the marker of the decision guards the
    claim, so no other marker is left.
    """
    store = StoreWithListingTime(clock)
    outcome = expect(make_runner(store, clock).start("go", run_id="r1"), Suspended)
    untidy = FaultyStore(store, on("delete", refused(), prefix="waits/", times=9))
    make_runner(untidy, clock).decide(outcome.waits[0].id, Approve(by="kim"))
    [ended] = make_runner(untidy, clock).sweep().resumed
    assert isinstance(ended, Finished)
    assert 1 == len(asyncio.run(store.keys("waits/")))

    clock.seconds += 120
    make_runner(store, clock).sweep()

    assert [] == asyncio.run(store.keys("waits/"))
    assert [] == asyncio.run(store.keys("markers/"))


def test_crash_at_every_operation_of_a_stored_run_hides_no_run() -> None:
    """The same for `work=False`, whose first version has no claim."""
    for point in every_crash("before", "after", more_than=5):
        clock = ManualClock()
        store = MemoryStore(clock.now)
        with point.process(store) as dying:
            runner = make_runner(dying, clock)
            runner.start("go", run_id="r1", labels={"team": "finance"}, work=False)

        runner = make_runner(store, clock)
        if asyncio.run(store.keys("runs/r1/v/")):
            clock.seconds += 120
            runner.sweep()
            assert {"r1": "suspended"} == statuses(runner, status="live"), point
            assert {"r1"} == statuses(runner, label="team=finance").keys(), point


class FrozenAtLiveKey(ForwardingStore):
    """A store whose process freezes before it creates the key of a live run."""

    def __init__(self, store: Store, while_frozen: Callable[[], Awaitable[object]]):
        super().__init__(store)
        self._while_frozen = while_frozen

    async def create(self, key: str, body: bytes) -> datetime | None:
        if key.startswith("index/live/"):
            await self._while_frozen()
        return await super().create(key, body)


def test_starter_that_freezes_until_the_end_withdraws_its_key(
    store: MemoryStore, clock: ManualClock
) -> None:
    async def end_run() -> None:
        clock.seconds += 31
        other = AsyncRunner(make_boss(SCRIPT, pay), store=store, clock=clock)
        await other.resume("r1")

    frozen = FrozenAtLiveKey(store, end_run)
    starter = AsyncRunner(make_boss(SCRIPT, pay), store=frozen, clock=clock)
    outcome = asyncio.run(starter.start("hello", run_id="r1", labels=FINANCE))

    assert isinstance(outcome, Finished)
    assert 3 == outcome.continuation.version

    assert [] == [key for key in index_keys(store) if "live" in key]


def test_sweep_that_mends_an_old_version_withdraws_its_key(
    store: MemoryStore, clock: ManualClock
) -> None:
    runner = make_runner(store, clock)
    runner.start("hello", run_id="r1", work=False)
    objects = Objects(store)
    old = asyncio.run(Versions(objects, "r1").load_newest())
    runner.resume("r1")

    asyncio.run(mend(objects, old))

    assert [] == asyncio.run(store.keys("index/live/"))


def test_left_live_key_of_an_ended_run_shows_the_run_once(
    store: MemoryStore, clock: ManualClock
) -> None:
    """A frozen starter may create the key after the run has ended, and die."""
    runner = make_runner(store, clock)
    runner.start("hello", run_id="r1")
    runner.start("hello", run_id="r10")
    asyncio.run(store.create(run_index.live_key("r1"), b""))

    assert ["r1", "r10"] == [row.run_id for row in runner.runs()]
    assert {} == statuses(runner, status="live")


def test_run_that_ended_without_its_key_is_listed(
    store: MemoryStore, clock: ManualClock
) -> None:
    """Also if the id of another ended run begins with its id."""
    runner = make_runner(store, clock)
    runner.start("hello", run_id="r1")
    runner.start("hello", run_id="r10")
    (row,) = [row for row in runner.runs() if row.run_id == "r1"]
    assert row.updated_at is not None
    asyncio.run(store.delete(run_index.ended_key("r1", row.updated_at)))
    asyncio.run(store.create(run_index.live_key("r1"), b""))

    assert {"r1": "finished", "r10": "finished"} == statuses(runner)


def test_damaged_run_does_not_hide_the_others(
    store: MemoryStore, clock: ManualClock
) -> None:
    runner = make_runner(store, clock)
    runner.start("go", run_id="bad", work=False)
    runner.start("go", run_id="good", work=False)
    key = layout.version_key("bad", 1)
    body = asyncio.run(store.read(key))
    asyncio.run(store.delete(key))
    asyncio.run(store.create(key, body[:-1] + bytes([body[-1] ^ 1])))

    assert {"bad": "unreadable", "good": "suspended"} == statuses(runner)
    assert {"good"} == statuses(runner, status="live").keys()


@pytest.mark.parametrize(
    "filters",
    [
        {"status": "done"},
        {"label": "team"},
        {"label": "team=a/b"},
        {"agent": 7},
        {"after": "ended/2026-11-22/r1", "status": "live"},
        {"after": "r1"},
        {"after": "label/team=x/r1"},
    ],
)
def test_invalid_filter_is_refused(
    store: MemoryStore, clock: ManualClock, filters: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        make_runner(store, clock).runs(**filters)


# Labels, title and requester --------------------------------------------------


def make_described_runner(store: Store) -> Runner:
    """Return a runner of `boss`, who may pay."""
    return Runner(make_boss(SCRIPT, pay), store=store, clock=ManualClock())


def test_description_survives_later_versions_and_is_stored_once(
    store: MemoryStore,
) -> None:
    runner = make_described_runner(store)
    described: dict[str, Any] = {"title": "Pay Jane", "labels": FINANCE, "by": "ann"}
    runner.start("go", run_id="r1", **described, work=False)
    runner.resume("r1")

    continuation = runner.look("r1")
    run = continuation.run_state.run
    assert ("Pay Jane", "ann") == (run.title, run.requester)
    assert tuple(sorted(FINANCE.items())) == run.labels
    bodies = [
        decode_object(asyncio.run(store.read(layout.version_key("r1", number))), "it")
        for number in range(1, continuation.version + 1)
    ]
    # Later versions omit the fields.
    for name in ("title", "labels", "requester"):
        rows: list[Any] = [cast("Any", each.body)["run"] for each in bodies]
        assert [True, False, False] == [name in row for row in rows]


def test_requester_may_be_an_identity(store: MemoryStore) -> None:
    ann = Identity("ann", groups=["finance"])
    make_described_runner(store).start("go", run_id="r1", by=ann, work=False)
    assert "ann" == make_described_runner(store).look("r1").run_state.run.requester


def test_repeated_start_keeps_the_first_description(store: MemoryStore) -> None:
    runner = make_described_runner(store)
    runner.start("go", run_id="r1", title="Pay Jane", by="ann", work=False)
    runner.start("go", run_id="r1", title="Pay Lee", by="bob", labels=FINANCE)

    run = runner.look("r1").run_state.run
    assert ("Pay Jane", "ann", ()) == (run.title, run.requester, run.labels)


def test_adopted_run_keeps_title_and_labels_and_has_no_requester(
    store: MemoryStore,
) -> None:
    """The requester may not approve, so no file says who the requester is."""
    runner = make_described_runner(store)
    started = runner.start("go", run_id="r1", title="Pay", labels=FINANCE, by="ann")
    runner.adopt(started.continuation.to_bytes(), run_id="r2")

    run = runner.look("r2").run_state.run
    assert ("Pay", None) == (run.title, run.requester)
    assert tuple(sorted(FINANCE.items())) == run.labels


@pytest.mark.parametrize(
    "options",
    [
        {"labels": ["team"]},
        {"labels": {"team": "a b"}},
        {"labels": {"": "x"}},
        {"labels": {"a=b": "x"}},
        {"labels": {"team": 1}},
        {"labels": {"team": "../x"}},
        {"labels": {f"l{number}": "x" for number in range(17)}},
        {"title": ""},
        {"title": "two\nlines"},
        {"title": "x" * 201},
        {"by": 7},
    ],
)
def test_invalid_description_starts_nothing(
    store: MemoryStore, options: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput):
        make_described_runner(store).start("hello", run_id="r1", **options)
    assert [] == asyncio.run(store.keys("runs/"))


def test_label_has_no_characters_of_keys() -> None:
    assert is_label("team", "ann@example.com")
    for name, value in (("a/b", "x"), ("a=b", "x"), ("a", "x/y"), ("a", "..")):
        assert not is_label(name, value)
