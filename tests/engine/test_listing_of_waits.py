"""The listing of open waits: expired ones are marked, and few requests are needed."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Runner,
    Suspended,
    external,
    sleep,
    tool,
)
from continuations.core.ulid import encode_ulid
from continuations.errors import ModelError, WaitExpired
from continuations.ledger.index import waits_without_object
from continuations.ledger.index.waits_without_object import find_runs_awaiting_models
from continuations.ledger.objects import Objects, pieces
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import FileStore, MemoryStore, filesystem
from continuations_storage.contract import PAGE_SIZE, Page
from tests.clocks import OffsetClock
from tests.engine.agent_builders import text_tool, wait_tool
from tests.engine.shared_store import SharedStore
from tests.outcomes import expect
from tests.stores import OneByOneStore, StoreWithListingTime


class CountingStore(OneByOneStore):
    """Counts listings and reads, and how many reads run at the same time."""

    def __init__(self, *, tells_last_page: bool = False) -> None:
        super().__init__()
        self.listings: list[str] = []
        self.reads = self.active_reads = self.most_active_reads = 0
        self._tells_last_page = tells_last_page

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> Page:
        self.listings.append(prefix)
        page = Page(await super().keys(prefix, after, limit))
        if self._tells_last_page and page:
            page.is_last = not await super().keys(prefix, page[-1], 1)
        return page

    async def read(self, key: str) -> bytes:
        self.reads += 1
        self.active_reads += 1
        self.most_active_reads = max(self.most_active_reads, self.active_reads)
        await asyncio.sleep(0)
        self.active_reads -= 1
        return await super().read(key)


@tool(approval=ApprovalPolicy(expires_after=timedelta(hours=1)))
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


note = text_tool("note", "{text}", {"text": str}, approval=True)


def make_runner(
    store: Any, *calls: ToolCall, clock: OffsetClock | None = None
) -> Runner:
    """Return a runner whose agent makes calls that need an approval."""
    model = ScriptedModel([list(calls), "done"])
    agent = Agent("clerk", tools=[pay, note], model=model)
    return Runner(agent, store=store, clock=clock)


PAY = ToolCall("pay", {"cents": 5})
NOTE = ToolCall("note", {"text": "a"})


# Expired waits


def test_wait_after_its_deadline_is_listed_as_expired() -> None:
    """The list says what `decide` would say, also if no sweep ran since."""
    clock = OffsetClock()
    runner = make_runner("memory:", PAY, NOTE, clock=clock)
    outcome = expect(runner.start("go", run_id="r"), Suspended)
    with_deadline, without = (wait.id for wait in outcome.waits)
    assert {with_deadline: False, without: False} == states(runner)

    clock.offset_seconds = 3601

    assert {with_deadline: True, without: False} == states(runner)
    with pytest.raises(WaitExpired):
        runner.decide(with_deadline, Approve(by="kim"))
    runner.decide(without, Approve(by="kim"))


def test_expired_wait_that_a_sweep_could_not_process_stays_expired() -> None:
    """The sweep dates the deadline's marker later; the deadline has passed anyway."""
    clock = OffsetClock()
    store = MemoryStore()
    runner = make_runner(store, PAY, clock=clock)
    runner.start("go", run_id="r")
    clock.offset_seconds = 3601
    postpone_markers(store)

    assert [True] == list(states(runner).values())


def test_expired_wait_is_not_listed_after_a_sweep() -> None:
    clock = OffsetClock()
    runner = make_runner("memory:", PAY, clock=clock)
    runner.start("go", run_id="r")
    clock.offset_seconds = 3601
    runner.sweep()

    assert {} == states(runner)


def test_time_of_the_store_decides_whether_a_wait_is_expired() -> None:
    """A clerk's machine that is a year ahead does not show open waits as expired."""
    here = OffsetClock()
    store = StoreWithListingTime(here)
    make_runner(store, PAY, clock=here).start("go", run_id="r")
    ahead = Runner([], store=store, clock=OffsetClock(365 * 86400))

    assert [False] == list(states(ahead).values())


def states(runner: Runner) -> dict[str, bool]:
    return {summary.id: summary.expired for summary in runner.waiting()}


def postpone_markers(store: MemoryStore) -> None:
    async def scenario() -> None:
        for key in await store.keys("markers/"):
            due, rest = key.removeprefix("markers/").split("-", 1)
            name, run = rest.split("@")
            await store.create(f"markers/{int(due) + 86_000_000}-{name}01@{run}", b"")
            await store.delete(key)

    asyncio.run(scenario())


# Requests


def test_listing_costs_one_request_more_for_all_deadlines() -> None:
    store = CountingStore()
    runner = make_runner(store, PAY)
    runner.start("go", run_id="r")
    store.listings.clear()

    assert 1 == len(list(runner.waiting()))
    assert ["waits/", "markers/"] == store.listings


def test_listing_without_waits_costs_one_request() -> None:
    store = CountingStore()

    assert [] == list(Runner([], store=store).waiting())
    assert ["waits/"] == store.listings


def test_no_page_is_requested_after_the_last_one() -> None:
    """2,000 waits are two full pages; a store that says so needs no third request."""
    store = CountingStore(tells_last_page=True)
    put_waits(store, 2 * PAGE_SIZE)
    store.listings.clear()

    assert 2 * PAGE_SIZE == len(list(Runner([], store=store).waiting()))
    assert ["waits/", "markers/", "waits/"] == store.listings


def put_waits(store: MemoryStore, count: int) -> list[str]:
    async def scenario() -> list[str]:
        keys = [
            f"waits/approval-{encode_ulid(n, bytes(10))}@r-{n % 7}"
            for n in range(count)
        ]
        for key in keys:
            await store.create(key, b"")
        return keys

    return asyncio.run(scenario())


def test_waits_with_arguments_are_read_in_parallel() -> None:
    store = CountingStore()
    calls = [ToolCall("note", {"text": str(n)}) for n in range(60)]
    runner = make_runner(store, *calls)
    runner.start("go", run_id="r")
    store.reads = 0

    waits = list(runner.open_waits())

    assert sorted(str(n) for n in range(60)) == sorted(
        wait.arguments["text"] for wait in waits
    )
    assert [each.id for each in runner.waiting()] == [wait.id for wait in waits]
    assert 60 == store.reads
    assert 50 == store.most_active_reads


def test_wait_that_is_decided_during_the_listing_is_left_out() -> None:
    class Deciding(CountingStore):
        async def read(self, key: str) -> bytes:
            if key == first:
                await self.delete(key)
            return await super().read(key)

    store = Deciding()
    first = ""
    runner = make_runner(store, NOTE, ToolCall("note", {"text": "b"}))
    runner.start("go", run_id="r")
    first = f"waits/{next(iter(runner.waiting())).id}"

    (left,) = runner.open_waits()
    assert first != f"waits/{left.id}"


# Files


@pytest.fixture
def many_waits(tmp_path: Path) -> Path:
    """A store with 5,000 waits and 5,000 other files among them."""
    folder = tmp_path / "waits"
    folder.mkdir()
    for number in range(5000):
        name = f"approval-{encode_ulid(number, bytes(10))}@r"
        (folder / name).touch()
        (folder / f"junk-{number}").touch()
    return tmp_path


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the list of the folders that are read from now on."""
    found: list[Any] = []
    real = os.scandir

    def scandir(path: Any) -> Any:
        found.append(path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    return found


def test_long_listing_on_files_reads_the_folder_once(
    many_waits: Path, scanned: list[Any]
) -> None:
    scanned.clear()
    count = len(list(Runner([], store=FileStore(many_waits)).waiting()))

    assert 5000 == count
    assert 1 == len(scanned)  # the folder of markers does not exist


def test_long_listing_calls_few_functions_where_it_is_iterated(
    many_waits: Path,
) -> None:
    """No function is called for each wait, and ten thousand names need six calls."""
    events: list[tuple[str, str]] = []
    sys.setprofile(lambda frame, event, _: events.append((event, frame.f_code.co_name)))
    try:
        waits = list(Runner([], store=FileStore(many_waits)).waiting())
    finally:
        sys.setprofile(None)

    assert 5000 == len(waits)
    assert 6 == events.count(("call", "run_until_complete"))
    assert len(events) < 5000


async def test_long_listing_on_files_does_not_hold_the_event_loop(
    many_waits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the first names are read in the thread of the event loop."""
    threads: list[str] = []
    real = filesystem.sorted_names

    def noted(entries: list[Any], *args: Any) -> list[str]:
        threads.append(threading.current_thread().name)
        assert len(entries) <= 2000
        return real(entries, *args)

    monkeypatch.setattr(filesystem, "sorted_names", noted)

    runner = AsyncRunner([], store=FileStore(many_waits))
    assert 5000 == len([each async for each in runner.waiting()])
    here, *others = threads
    assert "continuations-file" != here
    assert {"continuations-file"} == set(others)


@pytest.fixture
def many_markers(tmp_path: Path) -> Path:
    """A store with one wait, and 5,000 files that are no markers."""
    for folder in ("waits", "markers"):
        (tmp_path / folder).mkdir()
    (tmp_path / "waits" / f"approval-{encode_ulid(1, bytes(10))}@r").touch()
    for number in range(5000):
        (tmp_path / "markers" / f"0junk-{number}").touch()
    return tmp_path


def test_junk_among_the_markers_is_read_once(
    many_markers: Path, scanned: list[Any]
) -> None:
    scanned.clear()
    runner = Runner([], store=FileStore(many_markers))

    assert 1 == len(list(runner.waiting()))
    assert 2 == len(scanned)  # the waits and the markers
    scanned.clear()
    runner.sweep()
    assert 2 == len(scanned)  # the due markers and those that are dated too late


async def test_long_page_is_processed_in_pieces() -> None:
    """Other tasks run between two pieces of a page."""
    page = [str(number) for number in range(4 * PAGE_SIZE + 1)]
    order: list[int] = []

    async def other() -> None:
        for _ in range(3):
            order.append(0)
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for piece in pieces(page):
        order.append(len(piece))  # noqa: PERF401 - the other task appends, too
    await task
    assert [2 * PAGE_SIZE, 0, 2 * PAGE_SIZE, 0, 1, 0] == order


def test_waits_with_arguments_on_files_are_read_in_few_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups: list[int] = []
    real = FileStore.read_many

    async def read_many(self: FileStore, keys: Sequence[str]) -> list[bytes | None]:
        groups.append(len(keys))
        return await real(self, keys)

    monkeypatch.setattr(FileStore, "read_many", read_many)
    calls = [ToolCall("note", {"text": str(n)}) for n in range(60)]
    runner = make_runner(FileStore(tmp_path), *calls)
    runner.start("go", run_id="r")

    assert 60 == len(list(runner.open_waits()))
    assert [50, 10] == groups


def test_waits_without_objects_are_listed_between_the_others() -> None:
    """They are rows of their runs: the markers of their deadlines name the runs."""
    shared = SharedStore()
    question = shared.suspend("r1")
    limited = ModelError("status 429", retryable=True)
    agent = Agent("hr", model=ScriptedModel([limited]))
    runner = shared.machine(agents=agent, model_retry_time=0)
    models = [
        wait.id
        for name in ("r2", "r3")
        for wait in runner.start("go", run_id=name).continuation.waits
    ]

    def ids(*kinds: str, after: str = "") -> list[str]:
        return [wait.id for wait in runner.waiting(kinds=kinds, after=after)]

    assert sorted(models) == ids("model")
    assert sorted([question, *models]) == ids("approval", "model", "timer")
    first, *others = sorted(models)
    assert others == ids("approval", "model", after=first)
    assert [question] == ids("approval", "question") == ids("approval")
    opened = list(runner.open_waits(kinds=["model", "approval"]))
    assert sorted([question, *models]) == [wait.id for wait in opened]
    assert [False, False] == [each.expired for each in runner.waiting(kinds=["model"])]
    shared.clock.seconds += 100
    assert [True, True] == [each.expired for each in runner.waiting(kinds=["model"])]


# Runs that wait for their models


nap = wait_tool("nap", lambda: sleep(timedelta(hours=1)), Any)


def start_limited(store: Any, *run_ids: str) -> None:
    limited = ModelError("status 429", retryable=True)
    agent = Agent("hr", model=ScriptedModel([limited]))
    runner = Runner(agent, store=store, model_retry_time=0)
    for run_id in run_ids:
        assert isinstance(runner.start("go", run_id=run_id), Suspended)


def start_napping(store: Any, run_id: str) -> None:
    model = ScriptedModel([ToolCall("nap"), "done"])
    runner = Runner(Agent("clerk", tools=[nap], model=model), store=store)
    assert isinstance(runner.start("go", run_id=run_id), Suspended)


def awaiting_models(store: MemoryStore) -> tuple[tuple[str, ...], bool]:
    found = asyncio.run(find_runs_awaiting_models(Objects(store)))
    return found.run_ids, found.has_more


def test_runs_that_wait_for_their_models_are_found_among_other_waits() -> None:
    store = MemoryStore()
    make_runner(store, PAY, NOTE).start("go", run_id="r")
    start_napping(store, "t")
    start_limited(store, "m2", "m1")

    found, has_more = awaiting_models(store)

    assert {"m1", "m2"} == {*found}
    assert not has_more


@pytest.mark.parametrize(
    ("call", "listings"), [(NOTE, ["markers/"]), (PAY, ["markers/", "waits/"])]
)
def test_search_for_models_lists_waits_only_beside_deadlines_and_loads_no_run(
    call: ToolCall, listings: list[str]
) -> None:
    """The deadline of a listed wait is not one of a model."""
    store = CountingStore()
    make_runner(store, call).start("go", run_id="r")
    store.listings.clear()
    store.reads = 0

    assert ((), False) == awaiting_models(store)
    assert (listings, 0) == (store.listings, store.reads)


def test_search_for_models_loads_a_bounded_number_of_runs(
    monkeypatch: pytest.MonkeyPatch, store: MemoryStore
) -> None:
    """Timers and waits for models look alike in the keys; the next deadlines count."""
    monkeypatch.setattr(waits_without_object, "MAX_LOADED", 2)
    for name in ("t1", "t2"):
        start_napping(store, name)
    start_limited(store, "m1")

    assert (("m1",), True) == awaiting_models(store)


# Waits without an object ------------------------------------------------------


scan = wait_tool("scan", lambda: external("scan", str, within=3600))
nap_long = wait_tool("nap", lambda: sleep(3600))
pay_once = text_tool("pay", "paid", approval=True)


def _runner(name: str) -> Runner:
    model = ScriptedModel([ToolCall(name, {}), "Done."])
    agent = Agent("clerk", tools=[scan, nap_long, pay_once], model=model)
    return Runner(agent, store=f"memory:lists of rows, {name}")


def test_wait_with_object_and_deadline_is_listed_once() -> None:
    """A list of timers reads the runs, and their other waits have been listed."""
    runner = _runner("scan")
    runner.start("go", run_id="r1")

    kinds = ["external", "timer"]
    assert ["external"] == [wait.kind for wait in runner.waiting(kinds=kinds)]
    assert ["external"] == [wait.kind for wait in runner.open_waits(kinds=kinds)]


def test_pause_of_a_run_without_deadlines_is_listed() -> None:
    runner = _runner("pay")
    runner.start("go", run_id="r1")
    runner.pause("r1", by="kim")
    runner.resume("r1")

    assert ["operator"] == [wait.kind for wait in runner.waiting(kinds=["operator"])]
    runner.unpause("r1", by="kim")
    runner.resume("r1")
    assert [] == list(runner.waiting(kinds=["operator"]))


def test_pause_is_listed_beside_a_timer() -> None:
    runner = _runner("nap")
    runner.start("go", run_id="r1")
    runner.pause("r1", by="kim")
    runner.resume("r1")

    for kinds in (["operator"], ["operator", "timer"], ["timer"]):
        listed = [wait.kind for wait in runner.waiting(kinds=kinds)]
        assert sorted(kinds) == sorted(listed)
