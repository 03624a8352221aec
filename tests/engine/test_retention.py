"""`Retention`: sweeps erase old ended runs by the store's time, and no other run."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from continuations import Agent, Approve, AsyncRunner, Budget, Failed, Runner, Suspended
from continuations.engine.ports import Ports
from continuations.errors import InvalidInput, RunErased
from continuations.ledger.index import run_index
from continuations.ledger.objects import Objects
from continuations.ledger.repair.doctor import repair
from continuations.ledger.repair.retention import age_of
from continuations.retention import Retention
from continuations_storage import MemoryStore, Store, faults
from continuations_storage.faults import Crash, FaultyStore
from tests import scripts
from tests.clocks import ManualClock, ShiftedClock
from tests.crash_points import every_crash
from tests.engine.payment_agent import make_pay_tool
from tests.engine.shared_store import store_with_create_time
from tests.ledger.interleaving import InterleavingStore
from tests.outcomes import present
from tests.scripts import Script
from tests.stores import StoreWithListingTime

DAY = 86_400
SCRIPT: Script = {"hello": ["hi"], "go": [[("pay", {"cents": 5})], "end"]}
ALL = Retention(
    finished=timedelta(days=30), failed=timedelta(days=90), cancelled=timedelta(days=7)
)


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock.now)


def make_runner(
    store: Store, clock: Any, retention: Retention | None = None, **options: Any
) -> Runner:
    """Return a runner of an agent that replies, pays, or has no budget to do so."""
    model = scripts.scripted_model(SCRIPT)
    agent = Agent("boss", model=model, tools=[make_pay_tool(policy=True)])
    return Runner(agent, store=store, clock=clock, retention=retention, **options)


def end_one_of_each(store: Store, clock: ManualClock) -> None:
    """End a run in each way; leave others that wait, rest and work."""
    runner = make_runner(store, clock)
    runner.start("hello", run_id="finished")
    runner.start("go", run_id="cancelled")
    runner.cancel("cancelled")
    outcome = runner.start("go", run_id="failed", budget=Budget(requests=1))
    assert isinstance(outcome, Suspended)
    runner.decide(outcome.waits[0].id, Approve(by="kim"))
    assert isinstance(runner.resume("failed"), Failed)
    runner.start("go", run_id="waits")
    runner.thread("boss", key="rests").send("hello")
    dying = FaultyStore(
        store, faults.on("create", faults.crashed("before"), prefix="runs/w", skip=1)
    )
    with pytest.raises(Crash):
        make_runner(dying, clock).start("hello", run_id="works")


def erased_runs(store: Store, *names: str) -> set[str]:
    found: set[str] = set()
    for name in names:
        try:
            Runner([], store=store).look(name)
        except RunErased:
            found.add(name)
    return found


NAMES = ("finished", "failed", "cancelled", "waits", "works")


def test_each_end_has_its_own_time(store: MemoryStore, clock: ManualClock) -> None:
    """Runs that wait, work or rest are kept, however old they are."""
    end_one_of_each(store, clock)
    thread = make_runner(store, clock).thread("boss", key="rests")

    gone: list[set[str]] = []
    for days in (6, 2, 23, 60, 3000):
        clock.seconds += days * DAY
        result = Runner([], store=store, clock=clock, retention=ALL).sweep()
        gone.append({receipt.run_id for receipt in result.erased})

    assert [set(), {"cancelled"}, {"finished"}, {"failed"}, set()] == gone
    assert {"cancelled", "finished", "failed"} == erased_runs(store, *NAMES)
    assert "suspended" == make_runner(store, clock).look("waits").status
    look = present(thread.look())
    assert "resting" == look.status


def test_closed_thread_is_finished(store: MemoryStore, clock: ManualClock) -> None:
    """A resting one is kept forever; the next message opens a new generation."""
    thread = make_runner(store, clock).thread("boss", key="jane")
    thread.send("hello")
    clock.seconds += 400 * DAY
    assert () == make_runner(store, clock, ALL).sweep().erased
    thread.close()
    make_runner(store, clock).sweep()
    closed = present(thread.look())
    clock.seconds += 31 * DAY

    [receipt] = make_runner(store, clock, ALL).sweep().erased

    assert closed.run_id == receipt.run_id
    assert "hi" == thread.send("hello").result()


def test_status_without_a_time_is_kept_forever(
    store: MemoryStore, clock: ManualClock
) -> None:
    end_one_of_each(store, clock)
    clock.seconds += 3000 * DAY
    retention = Retention(cancelled=timedelta(hours=1))
    [receipt] = make_runner(store, clock, retention).sweep().erased
    assert "cancelled" == receipt.run_id


# The store's time -------------------------------------------------------------


@pytest.mark.parametrize("make", [store_with_create_time, StoreWithListingTime])
@pytest.mark.parametrize("days", [-400, 400])
def test_wrong_clock_erases_nothing_too_early(
    clock: ManualClock, make: Callable[[ManualClock], Store], days: int
) -> None:
    """Nor too late: the time of the store counts."""
    store = make(clock)
    make_runner(store, clock).start("hello", run_id="r1")
    wrong = ShiftedClock(clock, timedelta(days=days))

    clock.seconds += 29 * DAY
    assert () == make_runner(store, wrong, ALL).sweep().erased
    clock.seconds += 2 * DAY
    assert 1 == len(make_runner(store, wrong, ALL).sweep().erased)


# Costs and bounds ---------------------------------------------------------------


def operations(store: FaultyStore) -> list[tuple[str, str]]:
    return [(each.verb, each.key) for each in store.operations]


def test_sweep_without_a_retention_costs_what_it_did(
    store: MemoryStore, clock: ManualClock
) -> None:
    make_runner(store, clock).start("hello", run_id="r1")
    counted = FaultyStore(store)
    runner = make_runner(counted, clock)
    for _ in range(2):
        runner.sweep()
        clock.seconds += 2 * DAY
    # The markers that are due, and those that are dated too late.
    assert [("keys", "markers/")] * 4 == operations(counted)


def test_retention_costs_one_listing_an_hour(
    store: MemoryStore, clock: ManualClock
) -> None:
    """Besides, a store whose listings tell no time is asked."""
    counted = FaultyStore(store)
    runner = make_runner(counted, clock, ALL)
    for _ in range(5):
        runner.sweep()
        clock.seconds += 1000
    listings = [key for _, key in operations(counted) if key == "index/ended/"]
    assert 2 == len(listings)


def test_each_sweep_erases_a_number_of_runs(
    store: MemoryStore, clock: ManualClock
) -> None:
    """The next sweep goes on at once, until all are erased."""
    for number in range(7):
        make_runner(store, clock).start("hello", run_id=f"r{number}")
    clock.seconds += 31 * DAY
    retention = Retention(finished=timedelta(days=30), runs_per_sweep=3)
    runner = make_runner(store, clock, retention)
    assert [3, 3, 1, 0] == [len(runner.sweep().erased) for _ in range(4)]


def test_runs_that_are_kept_do_not_hide_the_others(
    store: MemoryStore, clock: ManualClock
) -> None:
    """A process that makes one sweep only begins at a random day behind them."""
    runner = make_runner(store, clock)
    for number in range(6):
        runner.start("go", run_id=f"kept{number}")
        runner.cancel(f"kept{number}")
    for number in range(6):
        clock.seconds += 10 * DAY
        runner.start("hello", run_id=f"old{number}")
    clock.seconds += 40 * DAY
    retention = Retention(finished=timedelta(days=30), runs_per_sweep=4)

    sweeps, erased = 0, 0
    while erased < 6:
        sweeps += 1
        assert sweeps < 100
        counted = FaultyStore(store)
        erased += len(make_runner(counted, clock, retention).sweep().erased)
        headers = [k for v, k in operations(counted) if v == "keys" and "/v/" in k]
        assert len(headers) <= 8 + 3 * 4

    assert [f"kept{number}" for number in range(6)] == sorted(
        row.run_id for row in runner.runs()
    )


def test_loop_erases_old_runs_beside_its_work(
    store: MemoryStore,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It logs each of them, and the log stops this loop."""
    make_runner(store, clock).start("hello", run_id="r1")
    clock.seconds += 31 * DAY
    caplog.set_level(logging.INFO, "continuations")
    stop = asyncio.Event()

    def emit(_: logging.LogRecord) -> None:
        stop.set()

    monkeypatch.setattr(caplog.handler, "emit", emit)

    async def serve() -> None:
        runner = make_runner(store, clock, ALL).async_runner
        await runner.serve_forever(stop=stop, interval=0.01)

    asyncio.run(asyncio.wait_for(serve(), 60))

    assert {"r1"} == erased_runs(store, "r1")


# Races and crashes ----------------------------------------------------------------


def test_run_that_a_repair_brings_back_is_not_erased(
    store: MemoryStore, clock: ManualClock
) -> None:
    """Between the look at its end and its erasure, it waits again."""
    runner = make_runner(store, clock)
    assert isinstance(runner.start("go", run_id="r1"), Suspended)
    runner.cancel("r1")
    clock.seconds += 8 * DAY
    newest = runner.look("r1").version

    class Repaired(FaultyStore):
        async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> Any:
            page = await super().keys(prefix, after, limit)
            if prefix == "runs/r1/v/" and not repaired:
                repaired.append(True)
                key = page[0]
                whole = await store.read(key)
                await store.delete(key)
                await store.create(key, b"damaged")
                ids, now = Ports().ids, clock.now()
                await repair(
                    Objects(store), "r1", now=now, new_ulid=lambda: ids.new_ulid(now)
                )
                await store.delete(key)
                await store.create(key, whole)
            return page

    repaired: list[bool] = []
    result = make_runner(Repaired(store), clock, ALL).sweep()

    assert () == result.erased
    assert newest + 1 == runner.look("r1").version
    assert "suspended" == runner.look("r1").status


def test_crash_leaves_a_run_that_the_next_sweep_erases(clock: ManualClock) -> None:
    for point in every_crash("before", "after", more_than=15):
        store = MemoryStore(clock.now)
        make_runner(store, clock).start("hello", run_id="old", labels={"a": "b"})
        make_runner(store, clock).start("go", run_id="waits")
        clock.seconds += 31 * DAY
        make_runner(store, clock).start("hello", run_id="young")
        with point.process(store) as dying:
            make_runner(dying, clock, ALL).sweep()

        make_runner(store, clock, ALL).sweep()
        clock.seconds += 2 * DAY
        make_runner(store, clock, ALL).sweep()

        keys = asyncio.run(store.keys(""))
        assert 1 == len([key for key in keys if "old" in key]), point
        assert {"old"} == erased_runs(store, "old", "waits", "young")


def test_failing_store_does_not_stop_the_sweep(
    store: MemoryStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    make_runner(store, clock).start("go", run_id="r1", work=False)
    failing = FaultyStore(store, faults.on("keys", faults.refused(), prefix="index/e"))
    result = make_runner(failing, clock, ALL).sweep()
    assert 1 == len(result.resumed)
    assert "no ended run was erased" in caplog.text


# Audits --------------------------------------------------------------------------

AUDITED = Retention(finished=timedelta(days=30), audit=timedelta(days=365))


def finish_decided(store: Store, clock: ManualClock) -> None:
    """End a run that was decided, and one that was not."""
    asyncio.run(finish_decided_async(make_runner(store, clock).async_runner))


async def finish_decided_async(runner: AsyncRunner[Any]) -> None:
    """End a run that was decided, and one that was not."""
    labels = {"a": "jane"}
    outcome = await runner.start("go", run_id="r1", title="Pay Jane", labels=labels)
    assert isinstance(outcome, Suspended)
    await runner.send("r1", "to jane")
    await runner.decide(outcome.waits[0].id, Approve(by="kim", reason="agreed"))
    await runner.resume("r1")
    await runner.start("hello", run_id="r2")


def keys_of(store: Store, *, markers: bool = True) -> list[str]:
    left_out = ("probe/",) if markers else ("probe/", "markers/")
    return [k for k in asyncio.run(store.keys("")) if not k.startswith(left_out)]


def test_audit_is_kept_longer(store: MemoryStore, clock: ManualClock) -> None:
    """Nothing but the decision stays; it goes a day at most after its time."""
    clock.seconds += 23 * 3600
    finish_decided(store, clock)
    before = make_runner(store, clock).audit("r1")
    clock.seconds += 31 * DAY
    assert 2 == len(make_runner(store, clock, AUDITED).sweep().erased)

    reader = Runner([], store=store, clock=clock)
    with pytest.raises(RunErased):
        reader.look("r1")
    with pytest.raises(RunErased):
        reader.audit("r2")
    assert [("approve", "kim", "agreed")] == [
        (line.verdict, line.by, line.reason) for line in reader.audit("r1")
    ]
    assert before == reader.audit("r1")
    assert [] == list(reader.runs())

    for days in (2, 331.5):
        clock.seconds += days * DAY
        assert () == make_runner(store, clock, AUDITED).sweep().erased
        [listed, decision, stone, other] = keys_of(store, markers=False)
        assert "index/erased/2026-01-01/r1" == listed
        assert decision.startswith("runs/r1/in/d-approval-")
        assert {"r1", "r2"} == {stone.split("/")[1], other.split("/")[1]}
        assert b"jane" not in b"".join(
            map(asyncio.run, map(store.read, keys_of(store)))
        )
    clock.seconds += 2 * DAY
    [receipt] = make_runner(store, clock, AUDITED).sweep().erased
    assert ("r1", 1) == (receipt.run_id, receipt.arrivals)
    with pytest.raises(RunErased):
        reader.audit("r1")
    clock.seconds += 2 * DAY
    make_runner(store, clock).sweep()
    assert ["r1", "r2"] == [key.split("/")[1] for key in keys_of(store)]


def test_audits_behind_keys_that_stay_are_erased(
    store: MemoryStore, clock: ManualClock
) -> None:
    """A repair may bring a run back to life whose audit was to be kept."""
    for name in ("alive-1", "alive-2"):
        key = run_index.erased_key(name, clock.now() - timedelta(days=60))
        asyncio.run(store.create(key, b""))
    finish_decided(store, clock)
    few = Retention(
        finished=timedelta(days=30), audit=timedelta(days=365), runs_per_sweep=2
    )
    clock.seconds += 31 * DAY
    make_runner(store, clock, few).sweep()
    clock.seconds += 400 * DAY

    erased = [make_runner(store, clock, few).sweep().erased for _ in range(40)]

    assert ["r1"] == [each.run_id for receipts in erased for each in receipts]


def test_audit_of_a_run_can_be_erased_at_once(
    store: MemoryStore, clock: ManualClock
) -> None:
    finish_decided(store, clock)
    clock.seconds += 31 * DAY
    runner = make_runner(store, clock, AUDITED)
    runner.sweep()

    assert 1 == runner.erase("r1").arrivals
    assert 0 == runner.erase("r1").arrivals

    with pytest.raises(RunErased):
        runner.audit("r1")
    clock.seconds += 2 * DAY
    runner.sweep()
    assert 2 == len(keys_of(store))


@pytest.mark.parametrize("days", [31, 400])
def test_crash_leaves_an_audit_that_goes_in_time(clock: ManualClock, days: int) -> None:
    """Before its time, the audit is whole; after it, nothing but a tombstone stays."""
    for point in every_crash("before", "after", more_than=15):
        store = MemoryStore(clock.now)
        finish_decided(store, clock)
        clock.seconds += 31 * DAY
        if days > 31:
            make_runner(store, clock, AUDITED).sweep()
            clock.seconds += (days - 31) * DAY
        with point.process(store) as dying:
            make_runner(dying, clock, AUDITED).sweep()

        for _ in range(2):
            make_runner(store, clock, AUDITED).sweep()
            if days == 31:
                [line] = Runner([], store=store, clock=clock).audit("r1")
                assert "kim" == line.by, point
            clock.seconds += 2 * DAY
        make_runner(store, clock, AUDITED).sweep()
        expected = 4 if days == 31 else 2
        assert expected == len(keys_of(store)), (point, keys_of(store))


@pytest.mark.parametrize("days", [31, 400])
async def test_two_sweeps_erase_at_the_same_time(clock: ManualClock, days: int) -> None:
    """One sweeps before a request of the other: no error, and nothing more is left."""
    number, ended = 0, False
    while not ended:
        number += 1
        store = MemoryStore(clock.now)
        asyncio_runner = make_runner(store, clock, AUDITED).async_runner
        await finish_decided_async(asyncio_runner)
        clock.seconds += 31 * DAY
        if days > 31:
            await asyncio_runner.sweep()
            clock.seconds += (days - 31) * DAY
        interleaved = InterleavingStore(store, number, asyncio_runner.sweep)
        first = make_runner(interleaved, clock, AUDITED).async_runner

        assert {} == (await first.sweep()).errors, number

        ended = interleaved.request_count < number
        reader = AsyncRunner([], store=store, clock=clock)
        if days == 31:
            assert ["kim"] == [line.by for line in await reader.audit("r1")], number
        clock.seconds += 2 * DAY
        await asyncio_runner.sweep()
        keys = [key for key in await store.keys("") if not key.startswith("probe/")]
        assert (4 if days == 31 else 2) == len(keys), (number, keys)


def test_late_decision_does_not_bring_a_run_back(
    store: MemoryStore, clock: ManualClock
) -> None:
    """A frozen decider records after the erasure; the audit goes with its time."""
    finish_decided(store, clock)
    clock.seconds += 31 * DAY
    [key] = [key for key in keys_of(store) if "/in/d-" in key]
    body = asyncio.run(store.read(key))
    make_runner(store, clock, AUDITED).sweep()
    late = key[:-1] + ("a" if key[-1] != "a" else "b")
    asyncio.run(store.create(late, body))

    for days in (2, 400, 2):
        clock.seconds += days * DAY
        make_runner(store, clock, AUDITED).sweep()

    assert 2 == len(keys_of(store))


# prune ------------------------------------------------------------------------------


def test_prune_takes_a_retention(store: MemoryStore, clock: ManualClock) -> None:
    """Without arguments that of the runner; it is not bounded."""
    end_one_of_each(store, clock)
    clock.seconds += 31 * DAY
    retention = Retention(
        finished=timedelta(days=30), cancelled=timedelta(days=7), runs_per_sweep=1
    )
    runner = make_runner(store, clock, retention)

    dry = runner.prune(dry_run=True)
    assert ({"finished", "cancelled"}, ()) == ({*dry.run_ids}, dry.erased)
    own = runner.prune(retention=Retention(finished=timedelta(days=30)), dry_run=True)
    assert ("finished",) == own.run_ids
    assert 2 == len(runner.prune().erased)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "finished, failed or cancelled must be a timedelta"),
        ({"finished": 90}, "Retention: finished must be a positive timedelta"),
        ({"failed": timedelta()}, "Retention: failed must be a positive timedelta"),
        ({"cancelled": timedelta(-1)}, "Retention: cancelled must be a positive"),
        ({"finished": timedelta(days=40_000)}, "at most 36500 days"),
        ({"audit": timedelta(1)}, "finished, failed or cancelled must be"),
        (
            {"finished": timedelta(2), "audit": timedelta(1)},
            "must not be shorter",
        ),
        ({"finished": timedelta(2), "audit": 5}, "audit must be a positive timedelta"),
        ({"finished": timedelta(1), "runs_per_sweep": 0}, "runs_per_sweep must be"),
        ({"finished": timedelta(1), "runs_per_sweep": True}, "runs_per_sweep must be"),
        ({"finished": timedelta(1), "runs_per_sweep": 10_001}, "from 1 to 10000"),
    ],
)
def test_invalid_retention_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        Retention(**options)


def test_invalid_arguments_are_refused(store: MemoryStore, clock: ManualClock) -> None:
    invalid: Any
    for invalid in (timedelta(days=1), {"finished": 1}, Retention):
        with pytest.raises(InvalidInput, match="retention must be Retention"):
            make_runner(store, clock, invalid)
        with pytest.raises(InvalidInput, match="retention must be Retention"):
            make_runner(store, clock).prune(retention=invalid)
    with pytest.raises(InvalidInput, match="prune needs older_than or a retention"):
        make_runner(store, clock).prune()
    with pytest.raises(InvalidInput, match="Pass one of them"):
        make_runner(store, clock).prune(older_than=timedelta(1), retention=ALL)
    assert age_of(ALL, "suspended") is None
    assert run_index.indexed_day("index/ended/x") is None
