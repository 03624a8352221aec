"""`serve_forever` on a store that reports new keys: it wakes soon, and not too often.

`test_worker_loop_pace` has the times of the loop itself.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    AsyncRunner,
    Deny,
    Runner,
    ask,
    tool,
    wait_for,
)
from continuations.engine.sweep import sweep_loop
from continuations.ledger import layout
from continuations.ledger.layout import Marker
from continuations.tools import ToolWait
from continuations_storage import (
    AlreadyExists,
    FileStore,
    MemoryStore,
    SQLiteStore,
    Store,
)
from continuations_storage.contract import Watch
from continuations_storage.faults import FaultyStore, ForwardingStore
from tests.outcomes import present, single_wait
from tests.run_environment import RunEnvironment, wait_until
from tests.scripts import Script, call, scripted_model

# Longer than a test: a run that moves earlier was reported.
NEVER = 3600.0


@pytest.fixture(autouse=True)
def no_look_soon_after_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the loop look at its interval and after reports only."""
    monkeypatch.setattr(sweep_loop, "_FIRST_PAUSE", NEVER)


@tool
async def question() -> ToolWait[str]:
    """Ask a person."""
    return ask("Which?")


@tool
async def price(article: str) -> ToolWait[int]:
    """Wait for a price."""
    return wait_for("price", int, key=article)


def asking_agent() -> Agent:
    """Return an agent that asks one question, or waits for a price."""
    script: Script = {
        "go": [[call("question")], "end"],
        "tea": [[call("price", article="tea")], "end"],
        "rum": [[call("price", article="rum")], "end"],
    }
    return Agent("boss", tools=[question, price], model=scripted_model(script))


class CountedStore(FaultyStore):
    """A view of a store that counts listings of markers and lost claims."""

    lost_claims = 0

    @property
    def looks(self) -> int:
        """How often the due markers were listed."""
        return sum(
            each.verb == "keys" and each.key == layout.MARKERS_PREFIX
            for each in self.operations
        )

    async def create(self, key: str, body: bytes) -> datetime | None:
        try:
            return await super().create(key, body)
        except AlreadyExists:
            self.lost_claims += "/v/" in key
            raise


@asynccontextmanager
async def serving(
    store: Store, agent: Agent | None = None, **options: Any
) -> AsyncGenerator[AsyncRunner]:
    """Run a worker loop of another machine in the block."""
    stop = asyncio.Event()
    runner = AsyncRunner(agent or asking_agent(), store=store)
    options.setdefault("interval", NEVER)
    task = asyncio.create_task(runner.serve_forever(stop=stop, **options))
    try:
        yield runner
    finally:
        stop.set()
        await task


async def start_waiting(store: Store, *run_ids: str) -> list[str]:
    other = AsyncRunner(asking_agent(), store=store)
    outcomes = [await other.start("go", run_id=run_id) for run_id in run_ids]
    return [single_wait(outcome).id for outcome in outcomes]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(2000):
        if await condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(condition)


async def until_finished(store: Store, *run_ids: str) -> None:
    looking = AsyncRunner([], store=store)

    async def are_finished() -> bool:
        looks = [await looking.look(run_id) for run_id in run_ids]
        return all(each.status == "finished" for each in looks)

    await until(are_finished)


# Another process ----------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["file", "sqlite"])
def test_runs_decided_in_other_processes_go_on_without_the_interval(
    tmp_path: Path, scheme: str
) -> None:
    """Four worker processes with an interval of an hour; each effect happens once."""
    url = f"{scheme}:{tmp_path / 'runs'}"
    environment = RunEnvironment(tmp_path, {"TEST_STORE": url})
    script: Script = {"go": [[call("pay", what="1")], "end"]}
    servers = [environment.spawn("serve", "3600", script=script) for _ in range(4)]
    run_ids = [f"r{number}" for number in range(6)]
    waits = [environment.start(script, run_id)["waits"][0] for run_id in run_ids]
    decider = Runner([], store=url)

    def all_ended() -> bool:
        return all(decider.look(each).status == "finished" for each in run_ids)

    for wait in waits:
        decider.decide(wait["id"], Approve(by="kim"))
    wait_until(all_ended)

    assert ["pay 1"] * 6 == environment.effect_names()
    for server in servers:
        server.send(signal.SIGTERM)
        assert {"served": True} == server.wait_for_result()


OPENERS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "files": lambda folder: FileStore(folder / "store"),
    "SQLite": lambda folder: SQLiteStore(folder / "store.db"),
}


@pytest.mark.parametrize("name", OPENERS)
async def test_workers_that_wake_together_lose_few_claims(
    name: str, tmp_path: Path
) -> None:
    """Each of four loops tries each run at most once or twice; one of them works."""
    inner = OPENERS[name](tmp_path)
    views = [CountedStore(inner) for _ in range(4)]
    run_ids = [f"r{number}" for number in range(5)]
    waits = await start_waiting(inner, *run_ids)
    decider = AsyncRunner([], store=inner)
    async with (
        serving(views[0]),
        serving(views[1]),
        serving(views[2]),
        serving(views[3]),
    ):
        await asyncio.sleep(0.05)
        for wait in waits:
            await decider.decide(wait, Answer("blue"))
            await asyncio.sleep(0.05)
        await until_finished(inner, *run_ids)

    assert sum(view.lost_claims for view in views) <= 3 * len(run_ids)
    # Versions: started, suspended, resumed with its turn, ended; none was made twice.
    numbers = [len(await inner.keys(layout.versions_prefix(each))) for each in run_ids]
    assert 1 == len(set(numbers)), numbers


@pytest.mark.parametrize("name", OPENERS)
async def test_every_arrival_of_another_machine_wakes_the_loop(
    name: str, tmp_path: Path
) -> None:
    """Decisions, starts, messages, signals, events, cancellations and forks."""
    inner = OPENERS[name](tmp_path)
    other = AsyncRunner(asking_agent(), store=inner)
    decided, _, denied = await start_waiting(inner, "decided", "cancelled", "denied")
    for article in ("tea", "rum"):
        await other.start(article, run_id=article)
    async with serving(CountedStore(inner)):
        await asyncio.sleep(0.05)
        await other.decide(decided, Answer("blue"))
        await other.decide(denied, Deny(by="kim"))
        await other.start("go", run_id="stored", work=False)
        await other.cancel("cancelled")
        await other.publish("price", 3, key="tea")
        await other.signal("rum", "price", 4)
        message = await other.thread(key="t").post("go")
        await until_finished(inner, "decided", "denied", "tea", "rum")
        fork = await other.fork("decided", 1, run_id="forked")

        async def have_moved() -> bool:
            moved = ("stored", fork, message.run_id)
            looks = [await other.look(run_id) for run_id in moved]
            cancelled = await other.look("cancelled")
            return all(each.waits for each in looks) and cancelled.status == "cancelled"

        await until(have_moved)


# Reports that cannot be trusted -------------------------------------------------


class UnreliableStore(ForwardingStore):
    """A store whose watch waits as a function of the test says."""

    def __init__(self, inner: Store, wait: Any) -> None:
        super().__init__(inner)
        self._wait = wait

    def watch(self, prefix: str) -> AbstractAsyncContextManager[Watch] | None:
        assert prefix == layout.DUE_NOW_PREFIX
        return self._watching()

    @asynccontextmanager
    async def _watching(self) -> AsyncGenerator[Any]:
        yield self

    async def wait(self, seconds: float) -> bool:
        reported: bool = await self._wait(seconds)
        return reported


async def lose(seconds: float) -> bool:
    """Report nothing."""
    await asyncio.sleep(seconds)
    return False


async def fail(_: float) -> bool:
    raise ConnectionError


async def report_at_once(_: float) -> bool:
    return True


async def end_early(_: float) -> bool:
    """Report nothing, and do not sleep."""
    return False


@pytest.mark.parametrize("wait", [lose, fail, report_at_once, end_early])
async def test_without_good_reports_the_loop_looks_at_its_interval(
    wait: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A lost report costs an interval, and no report makes a busy loop."""
    inner = MemoryStore()
    [decided] = await start_waiting(inner, "r1")
    store = CountedStore(UnreliableStore(inner, wait))
    async with serving(store, interval=0.2):
        await asyncio.sleep(0.05)
        await AsyncRunner([], store=inner).decide(decided, Answer("blue"))
        await until_finished(inner, "r1")
        before = store.looks
        await asyncio.sleep(0.5)
        looks = store.looks - before

    # 25 in half a second after 20 ms each, or 2 after 0.2 s each.
    assert looks <= (30 if wait is report_at_once else 6)
    assert ("cannot report" in caplog.text) == (wait is fail)


async def test_cancelled_loop_closes_its_watch() -> None:
    opened: list[str] = []

    class ToldStore(ForwardingStore):
        def watch(self, prefix: str) -> AbstractAsyncContextManager[Watch] | None:
            inner = present(super().watch(prefix))

            @asynccontextmanager
            async def told() -> AsyncGenerator[Watch]:
                async with inner as watch:
                    opened.append("begin")
                    try:
                        yield watch
                    finally:
                        opened.append("end")

            return told()

    before = asyncio.all_tasks()
    runner = AsyncRunner(asking_agent(), store=ToldStore(MemoryStore()))
    task = asyncio.create_task(runner.serve_forever())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ["begin", "end"] == opened
    assert before == asyncio.all_tasks()


# The number of looks ------------------------------------------------------------


@pytest.mark.parametrize("name", OPENERS)
async def test_own_work_of_a_loop_wakes_it_only_for_what_is_due(
    name: str, tmp_path: Path
) -> None:
    """Versions, claims and deadlines make no looks."""
    store = CountedStore(OPENERS[name](tmp_path))
    script: Script = {"go": [*[[call("step", number=n)] for n in range(30)], "end"]}

    @tool
    async def step(number: int) -> str:
        """Take a step."""
        return str(number)

    agent = Agent("boss", tools=[step], model=scripted_model(script))
    async with serving(store, agent) as runner:
        await runner.start("go", run_id="r1", work=False)
        await until_finished(store.inner, "r1")
        await asyncio.sleep(0.5)

    # The first one, and those of the start and of its release.
    assert store.looks <= 5


async def test_marker_whose_decision_never_comes_costs_a_few_looks() -> None:
    """The process died between the two. The run is looked at for a third of a second.

    Then reports about other runs cost nothing for this one.
    """
    inner = MemoryStore()
    waits = await start_waiting(inner, "abandoned", *(f"r{n}" for n in range(5)))
    ulid = layout.parse_wait_id(waits[0]).ulid
    store = CountedStore(inner)
    async with serving(store):
        await asyncio.sleep(0.05)
        marker = Marker(layout.DUE_NOW, "d", ulid, "0" * 8, "abandoned")
        await inner.create(marker.key, b"")
        await asyncio.sleep(0.6)
        listings = partial(requests_of, store, layout.run_prefix("abandoned"))
        first = listings()
        for wait in waits[1:]:
            await AsyncRunner([], store=inner).decide(wait, Answer("blue"))
        await until_finished(inner, *(f"r{n}" for n in range(5)))
        later = listings() - first

    # Six looks with four requests each; the last one has some more.
    assert 6 <= first <= 6 * 4 + 8
    assert 0 == later


def requests_of(store: CountedStore, prefix: str) -> int:
    """Return the number of requests for keys with a prefix."""
    return sum(each.key.startswith(prefix) for each in store.operations)
