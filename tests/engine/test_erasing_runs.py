"""An erased run leaves a tombstone, and no crash or frozen process brings it back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias, TypeVar

import pytest

from continuations import (
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    ContinuationsError,
    Finished,
    Runner,
    Suspended,
    errors,
    tool,
    wait_for,
)
from continuations.ledger import layout
from continuations.ledger.repair.erasing import ErasedRun
from continuations.tools import ToolWait
from continuations.wire.versions import TOMBSTONE
from continuations_storage import Denied, MemoryStore, Store, faults
from continuations_storage.contract import Changes, Committed, committer
from continuations_storage.faults import ForwardingStore
from tests.clocks import ManualClock
from tests.engine.agent_builders import make_boss, text_tool
from tests.outcomes import expect, present, single_wait
from tests.scripts import Script
from tests.stores import ZSTD_MAGIC

T = TypeVar("T")
SCRIPT: Script = {
    "go": [[("pay", {"what": "x"})], "end"],
    "hello": ["hi"],
    "wait": [[("receipt", {"person": "jane"})], "end"],
    "vote": [[("elect", {"what": "jane"})], "end"],
    "late": [[("lend", {"what": "jane"})], "end"],
}
LABELS = {"team": "finance", "for": "jane@example.com"}
DAY = 86_400
pay = text_tool("pay", "paid {what}", {"what": str}, approval=True, idempotent=True)


@tool(idempotent=True)
def receipt(person: str) -> ToolWait[Any]:
    """Wait for the receipt of a person."""
    return wait_for("receipt", key=person)


elect = text_tool(
    "elect", "elected {what}", {"what": str}, approval=ApprovalPolicy(votes=2)
)


@tool(approval=ApprovalPolicy(expires_after=timedelta(days=30), remind_after=DAY * 20))
def lend(what: str) -> str:
    """Lend."""
    return f"lent {what}"


def make_runner(store: Store, clock: ManualClock, **options: Any) -> Runner:
    """Return a runner of `boss`, who may pay, elect, lend and wait for a receipt."""
    agent = make_boss(SCRIPT, pay, elect, lend, receipt)
    return Runner(agent, store=store, clock=clock, **options)


def all_keys(store: Store) -> list[str]:
    """Return all keys of a store but that of the probe."""
    keys = asyncio.run(store.keys(""))
    return [key for key in keys if not key.startswith("probe/")]


def assert_only_tombstone(store: Store, where: object = None) -> None:
    """Check that one object is left, without title, requester and labels."""
    [key] = all_keys(store)
    assert key.startswith("runs/r1/v/"), where
    body = asyncio.run(store.read(key))
    assert ZSTD_MAGIC not in body
    for text in (b"jane", b"finance", b"example"):
        assert text not in body.lower(), where


@pytest.fixture
def store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock.now)


# What is left ---------------------------------------------------------------------


def start_waiting(store: Store, clock: ManualClock) -> Suspended:
    """Start a run that waits, with labels, a message and a signal."""
    runner = make_runner(store, clock)
    outcome = runner.start(
        "go", run_id="r1", labels=LABELS, title="Pay Jane", by="ann@example.com"
    )
    assert isinstance(outcome, Suspended)
    runner.send("r1", "for jane")
    runner.signal("r1", "receipt", {"for": "jane"})
    return outcome


def test_erased_run_leaves_a_tombstone_and_a_marker(
    store: MemoryStore, clock: ManualClock
) -> None:
    """The marker goes with the sweep a day later, and the tombstone stays."""
    start_waiting(store, clock)
    receipt = make_runner(store, clock).erase("r1")

    # A wait, five markers, two labels, and two keys of the run.
    assert (
        ErasedRun(
            run_id="r1",
            erased_at=clock.now(),
            versions=2,
            arrivals=2,
            keys=receipt.keys,
        )
        == receipt
    )
    assert receipt.keys >= 6
    [marker, tombstone] = all_keys(store)
    assert marker.startswith("markers/")
    assert tombstone == layout.version_key("r1", 3)

    clock.seconds += DAY + 1
    assert {} == make_runner(store, clock).sweep().errors
    assert_only_tombstone(store)
    clock.seconds += DAY + 1
    assert 0 == make_runner(store, clock).sweep().runs_checked


def test_every_method_says_that_the_run_was_erased(
    store: MemoryStore, clock: ManualClock
) -> None:
    outcome = start_waiting(store, clock)
    wait_id = outcome.waits[0].id
    runner = make_runner(store, clock)
    runner.erase("r1")
    before = all_keys(store)

    calls: list[Callable[[], object]] = [
        lambda: runner.start("go", run_id="r1"),
        lambda: runner.start("other", run_id="r1", work=False),
        lambda: runner.adopt(outcome.continuation, run_id="r1"),
        lambda: runner.resume("r1"),
        lambda: runner.look("r1"),
        lambda: runner.look("r1", version=1),
        lambda: runner.wait(wait_id),
        lambda: runner.decide(wait_id, Approve(by="kim")),
        lambda: runner.send("r1", "hello"),
        lambda: runner.signal("r1", "receipt"),
        lambda: runner.cancel("r1"),
        lambda: runner.audit("r1"),
    ]
    for call in calls:
        with pytest.raises(errors.RunErased, match="run r1 was erased on 2026-01-01"):
            call()
        assert before == all_keys(store)
    assert [] == list(runner.waiting())
    assert [] == list(runner.runs())
    assert [] == list(runner.runs(label="team=finance"))


def test_repeated_erase_returns_an_empty_receipt(
    store: MemoryStore, clock: ManualClock
) -> None:
    start_waiting(store, clock)
    runner = make_runner(store, clock)
    first = runner.erase("r1")
    clock.seconds += 60

    assert ErasedRun(run_id="r1", erased_at=first.erased_at) == runner.erase("r1")


def test_erase_needs_no_agents(store: MemoryStore, clock: ManualClock) -> None:
    start_waiting(store, clock)
    assert 2 == Runner([], store=store, clock=clock).erase("r1").versions


def test_unknown_run_cannot_be_erased(store: MemoryStore, clock: ManualClock) -> None:
    with pytest.raises(errors.RunNotFound):
        make_runner(store, clock).erase("r1")
    assert [] == all_keys(store)


def test_claimed_run_is_busy(store: MemoryStore, clock: ManualClock) -> None:
    """Until the claim ends by the store's time, whatever this machine's clock says."""
    busy: list[errors.RunBusy] = []

    other = AsyncRunner([], store=store, clock=clock)

    @tool(idempotent=True)
    async def work() -> str:
        """Work."""
        with pytest.raises(errors.RunBusy, match="run r1 is busy") as caught:
            await other.erase("r1")
        busy.append(caught.value)
        return "done"

    script: Script = {"go": [[("work", {})], "end"]}
    runner = Runner(make_boss(script, work), store=store, clock=clock)
    assert isinstance(runner.start("go", run_id="r1"), Finished)
    assert timedelta(seconds=30) == busy[0].until - clock.now()
    assert [] == [key for key in all_keys(store) if key.startswith("markers/")]
    assert 3 == runner.erase("r1").versions


def test_damaged_run_is_erased_with_all_its_keys(
    store: MemoryStore, clock: ManualClock
) -> None:
    """Its labels and waits are listed, because no version names them."""
    start_waiting(store, clock)
    make_runner(store, clock).start("go", run_id="r10", labels=LABELS)
    kept = [key for key in all_keys(store) if "r10" in key]
    key = layout.version_key("r1", 2)
    asyncio.run(store.delete(key))
    asyncio.run(store.create(key, b"damaged"))

    make_runner(store, clock).erase("r1")
    clock.seconds += DAY + 1
    Runner([], store=store, clock=clock).sweep()

    left = [key for key in all_keys(store) if "r10" not in key]
    assert [layout.version_key("r1", 3)] == left
    assert set(kept) <= set(all_keys(store))


# Crashes ---------------------------------------------------------------------------


def start_voting(store: Store, clock: ManualClock) -> None:
    """Start a run whose last voter dies before the decision of the votes."""
    runner = make_runner(store, clock)
    wait_id = single_wait(runner.start("vote", run_id="r1", labels=LABELS)).id
    runner.decide(wait_id, Approve(by="kim"))
    dies = faults.on("create", faults.crashed("before"), prefix="runs/r1/in/d-")
    with suppress(faults.Crash):
        make_runner(faults.FaultyStore(store, dies), clock).decide(
            wait_id, Approve(by="jane", reason="for jane")
        )


def start_listening(store: Store, clock: ManualClock) -> None:
    """Start a run twice: the first worker dies after it listed its wait."""
    dies = faults.on("create", faults.crashed("after"), prefix="events/")
    with suppress(faults.Crash):
        make_runner(faults.FaultyStore(store, dies), clock).start(
            "wait", run_id="r1", labels=LABELS
        )
    clock.seconds += 60
    assert isinstance(make_runner(store, clock).resume("r1"), Suspended)
    listed = [key for key in all_keys(store) if "/w-" in key]
    assert 2 == len(listed), "a worker listed a wait that no version names"


@pytest.mark.parametrize("prepare", [start_voting, start_listening])
def test_erase_finds_what_a_dead_process_left(
    store: MemoryStore, clock: ManualClock, prepare: Callable[..., None]
) -> None:
    """At once: the marker of the erasure stays beside the tombstone, and no more."""
    prepare(store, clock)
    make_runner(store, clock).erase("r1")

    [marker, tombstone] = all_keys(store)
    assert marker.startswith("markers/")
    assert tombstone.startswith("runs/r1/v/")
    clock.seconds += DAY + 1
    assert {} == make_runner(store, clock).sweep().errors
    assert_only_tombstone(store)


def test_sweep_finds_a_wait_that_was_listed_after_the_erasure(
    store: MemoryStore, clock: ManualClock
) -> None:
    """Its worker was frozen, and died right after it listed the wait."""
    start_listening(store, clock)
    listed = {
        key: asyncio.run(store.read(key)) for key in all_keys(store) if "/w-" in key
    }
    make_runner(store, clock).erase("r1")
    for key, body in listed.items():
        asyncio.run(store.create(key, body))

    clock.seconds += DAY + 1
    assert {} == make_runner(store, clock).sweep().errors
    assert_only_tombstone(store)


def test_tombstone_has_no_digest_of_an_event(
    store: MemoryStore, clock: ManualClock
) -> None:
    """Anyone could compare it with the digest of a guessed name."""
    start_listening(store, clock)
    make_runner(store, clock).erase("r1")

    [key] = [each for each in all_keys(store) if each.startswith("runs/")]
    tombstone = TOMBSTONE.decode(asyncio.run(store.read(key)), key)
    kept = {each.partition("/")[0] for each in tombstone.late_keys}
    assert {"index", "waits"} == kept


class FreezingStore(ForwardingStore):
    """A store whose process freezes before one operation, while others act.

    With `commits`, it makes several changes in one operation. With `dies`, it dies
    after the operation.
    """

    def __init__(
        self,
        store: Store,
        number: int,
        while_frozen: Callable[[], Awaitable[object]],
        *,
        commits: bool = False,
        dies: bool = False,
    ) -> None:
        super().__init__(store)
        self._number, self._while_frozen = number, while_frozen
        self._dies = dies
        self.sent = 0
        self.commit = self._commit if commits else None

    async def _commit(self, changes: Changes) -> Committed:
        await self._freeze_once()
        commit = present(committer(self.inner))
        return self._die_once(await commit(changes))

    def _die_once(self, result: T) -> T:
        if self._dies and self.sent >= self._number:
            raise faults.Crash
        return result

    async def _freeze_once(self) -> None:
        self.sent += 1
        if self.sent == self._number:
            await self._while_frozen()

    async def create(self, key: str, body: bytes) -> datetime | None:
        await self._freeze_once()
        return self._die_once(await super().create(key, body))

    async def read(self, key: str) -> bytes:
        await self._freeze_once()
        return self._die_once(await super().read(key))

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        await self._freeze_once()
        return self._die_once(await super().keys(prefix, after, limit))

    async def delete(self, key: str) -> None:
        await self._freeze_once()
        await super().delete(key)
        self._die_once(None)


def frozen_operations() -> range:
    """Return the numbers of the operations before which a process freezes."""
    return range(1, 40)


async def erase_later(
    store: Store, clock: ManualClock, *, after_takeover: bool
) -> None:
    """Erase the run after the claim of the frozen process; start it if need be.

    After a takeover, the frozen process creates a version that the erasure deleted.
    """
    clock.seconds += 31
    agent = make_boss(SCRIPT, pay, elect, lend, receipt)
    runner = AsyncRunner(agent, store=store, clock=clock)
    try:
        if after_takeover:
            with suppress(errors.RunErased):  # by the frozen process
                await runner.resume("r1")
        await runner.erase("r1")
    except errors.RunNotFound:
        # The frozen process is about to start the run, as this process does.
        await runner.start("go", run_id="r1", labels=LABELS)
        await runner.erase("r1")


def check_zombie(name: str, *, commits: bool, after_takeover: bool, dies: bool) -> None:
    """Freeze a process before each of its operations while its run is erased."""
    prepare, act = ZOMBIES[name]
    for number in frozen_operations():
        clock = ManualClock()
        store = MemoryStore(clock.now)
        if prepare is not None:
            prepare(store, clock)
        erase = partial(erase_later, store, clock, after_takeover=after_takeover)
        frozen = FreezingStore(store, number, erase, commits=commits, dies=dies)
        with suppress(ContinuationsError, faults.Crash):
            act(make_runner(frozen, clock))
        if frozen.sent < number:
            assert number > (1 if commits else 3)
            return
        other = Runner([], store=store, clock=clock)
        with pytest.raises(errors.RunErased):
            other.look("r1")
        if not dies:
            assert [] == list(other.waiting()), number
            assert [] == list(other.runs()), number
        for days in (1, 1, 1, 40):  # after the deadline of a wait
            clock.seconds += days * DAY + 1
            assert {} == other.sweep().errors, number
        assert_only_tombstone(store, number)
    pytest.fail("the process did not end")


def approve(store: MemoryStore, clock: ManualClock) -> None:
    runner = make_runner(store, clock)
    outcome = expect(runner.start("go", run_id="r1", labels=LABELS), Suspended)
    runner.decide(outcome.waits[0].id, Approve(by="kim"))


def start_only(store: MemoryStore, clock: ManualClock) -> None:
    make_runner(store, clock).start("go", run_id="r1", labels=LABELS)


def decide_first(runner: Runner) -> object:
    """Approve the first wait of the run."""
    return runner.decide(runner.look("r1").waits[0].id, Approve(by="kim"))


Prepare: TypeAlias = "Callable[[MemoryStore, ManualClock], object] | None"
Act: TypeAlias = "Callable[[Runner], object]"
ZOMBIES: dict[str, tuple[Prepare, Act]] = {
    "starts": (None, lambda r: r.start("go", run_id="r1", labels=LABELS)),
    "listens": (None, lambda r: r.start("wait", run_id="r1", labels=LABELS)),
    "has a deadline": (None, lambda r: r.start("late", run_id="r1", labels=LABELS)),
    "enqueues": (None, lambda r: r.start("go", run_id="r1", work=False)),
    "starts and ends": (None, lambda r: r.start("hello", run_id="r1", labels=LABELS)),
    "resumes": (approve, lambda r: r.resume("r1")),
    "sweeps": (approve, lambda r: r.sweep()),
    "decides": (start_only, decide_first),
    "sends": (start_only, lambda r: r.send("r1", "jane")),
    "signals": (start_only, lambda r: r.signal("r1", "receipt", "jane")),
    "cancels": (start_only, lambda r: r.cancel("r1")),
    "erases": (start_only, lambda r: r.erase("r1")),
}


@pytest.mark.parametrize("after_takeover", [False, True])
@pytest.mark.parametrize(
    ("commits", "dies"), [(False, False), (True, False), (True, True)]
)
@pytest.mark.parametrize("name", ZOMBIES)
def test_frozen_process_brings_nothing_back(
    name: str, *, commits: bool, after_takeover: bool, dies: bool
) -> None:
    """Its store makes one change at a time, or several; it goes on, or dies."""
    check_zombie(name, commits=commits, after_takeover=after_takeover, dies=dies)


# Prune -----------------------------------------------------------------------------


def test_prune_erases_runs_that_ended_long_ago(
    store: MemoryStore, clock: ManualClock
) -> None:
    runner = make_runner(store, clock)
    runner.start("hello", run_id="old-1", labels=LABELS)
    runner.start("go", run_id="live")
    clock.seconds += 3600
    runner.start("hello", run_id="old-2")
    clock.seconds += 10 * DAY
    runner.start("hello", run_id="new")

    found = runner.prune(older_than=timedelta(days=10), dry_run=True)
    assert (("old-1", "old-2"), ()) == (found.run_ids, found.erased)
    assert 4 == len(list(runner.runs()))

    pruned = runner.prune(older_than=timedelta(days=10, seconds=1))
    assert ("old-1",) == pruned.run_ids
    assert ["old-1"] == [each.run_id for each in pruned.erased]
    assert {} == pruned.errors
    assert {"live", "old-2", "new"} == {row.run_id for row in runner.runs()}
    with pytest.raises(errors.RunErased):
        runner.look("old-1")


def test_prune_goes_on_after_the_error_of_one_run(
    store: MemoryStore, clock: ManualClock
) -> None:
    runner = make_runner(store, clock)
    for name in ("a", "b", "c"):
        runner.start("hello", run_id=name)
    clock.seconds += 2 * DAY
    key = layout.version_key("b", 2)
    asyncio.run(store.delete(key))
    asyncio.run(store.create(key, b"damaged"))

    pruned = runner.prune(older_than=timedelta(days=1))

    assert ["a", "c"] == sorted(each.run_id for each in pruned.erased)
    assert ["b"] == list(pruned.errors)


@pytest.mark.parametrize(
    "older_than",
    [timedelta(), timedelta(days=-1), timedelta(days=999_999), 90, True],
)
def test_prune_needs_a_positive_timedelta(
    store: MemoryStore, clock: ManualClock, older_than: Any
) -> None:
    with pytest.raises(
        errors.InvalidInput, match="older_than must be a positive timedelta"
    ):
        make_runner(store, clock).prune(older_than=older_than)


class KeepsRuns(ForwardingStore):
    """A store whose rights do not allow to delete under runs/."""

    async def delete(self, key: str) -> None:
        """Remove a key, or refuse."""
        if key.startswith("runs/"):
            raise Denied(key, "no right")
        await super().delete(key)


def test_process_without_the_right_to_delete_hides_no_run(
    store: MemoryStore, clock: ManualClock
) -> None:
    """A tombstone would hide the run, and leave its bodies."""
    waiting = start_waiting(store, clock)
    before = all_keys(store)
    worker = make_runner(KeepsRuns(store), clock)

    for _ in range(2):
        with pytest.raises(errors.StoreDenied, match="r1 was not erased"):
            worker.erase("r1")

    proof = layout.deletion_probe_key("r1")
    assert sorted([*before, proof]) == all_keys(store)
    assert waiting.waits[0].id == worker.look("r1").waits[0].id
    make_runner(store, clock).erase("r1")
    assert proof not in all_keys(store)
