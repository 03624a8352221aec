"""The requests and the work of a start, a turn, a decision and a resume."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Runner,
    Suspended,
    tool,
)
from continuations.core.messages import Message
from continuations.core.model_protocol import ModelRequest
from continuations.errors import AlreadyDecided, ClockOff, StoreUnavailable
from continuations.ledger import layout
from continuations.models.interface import ModelReply
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import FileStore, MemoryStore, Store
from continuations_storage.contract import Changes, Committed, Page
from continuations_storage.errors import Inconclusive, OutOfTime, Unavailable
from continuations_storage.thread_pool import DaemonThreadPool, PoolCall
from tests.clocks import ManualClock, ShiftedClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import make_boss, text_tool
from tests.outcomes import expect
from tests.scripts import Script, call
from tests.stores import StoreThatReadsAhead

SCRIPT: Script = {
    "pay": [[call("pay", cents=5)], "end"],
    "pay twice": [[call("pay", cents=5), call("pay", cents=6)], "end"],
    "late": [[call("late")], "end"],
}
paid: list[int] = []


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    paid.append(cents)
    return f"paid {cents}"


late = text_tool(
    "late", "not late", approval=ApprovalPolicy(expires_after=timedelta(days=2))
)


class Shop:
    """A store, its clock, and machines whose clocks may be off."""

    def __init__(self) -> None:
        paid.clear()
        self.clock = ManualClock()
        self.store = StoreThatReadsAhead(self.clock.now)

    def machine(
        self,
        seconds_off: float = 0,
        *,
        store: Any = None,
        clock: ShiftedClock | None = None,
    ) -> Runner:
        clock = clock or ShiftedClock(self.clock, timedelta(seconds=seconds_off))
        boss = make_boss(SCRIPT, pay, late)
        return Runner(boss, store=store or self.store, clock=clock)

    def suspended(self, task: str = "pay", run: str = "r") -> Suspended:
        """Start a run that waits."""
        outcome = expect(self.machine().start(task, run_id=run), Suspended)
        self.store.requests.clear()
        return outcome

    def replace(self, **verbs: Callable[..., Any]) -> None:
        vars(self.store).update(verbs)

    def verbs(self) -> list[str]:
        """Return and forget the verbs of the requests."""
        verbs = [verb for verb, _ in self.store.requests]
        self.store.requests.clear()
        return verbs

    def keys(self, prefix: str) -> list[str]:
        return asyncio.run(self.store.keys(prefix))


@pytest.fixture
def shop() -> Shop:
    return Shop()


def lose_reply(
    shop: Shop,
    *,
    is_stored: bool,
    then: Callable[[], object] = lambda: None,
) -> None:
    """Let the next commit be inconclusive, and do something then."""
    original = shop.store.commit

    async def commit(changes: Changes) -> Committed:
        shop.replace(commit=original)
        if is_stored:
            await original(changes)
        then()
        raise Inconclusive(changes.key, "lost")

    shop.replace(commit=commit)


def test_cycle_makes_nine_requests_one_after_another(shop: Shop) -> None:
    """The claim and the end of a start; the decision; and five of the resume."""
    runner = shop.machine()
    runner.start("pay", run_id="first")  # with the probe
    shop.verbs()

    outcome = expect(runner.start("pay", run_id="r"), Suspended)
    assert ["commit", "commit"] == shop.verbs()
    runner.decide(outcome.waits[0].id, Approve(by="kim"))
    assert ["read", "commit"] == shop.verbs()
    assert isinstance(runner.resume("r"), Finished)
    assert ["keys", "commit", "commit", "keys", "commit"] == shop.verbs()
    assert [] == [key for key in shop.keys("markers/") if key.endswith("@r")]


def test_other_decisions_are_read_beside_the_listing(shop: Shop) -> None:
    for wait in shop.suspended("pay twice").waits:
        shop.machine().decide(wait.id, Approve(by="kim"))
    shop.store.requests.clear()

    assert isinstance(shop.machine().resume("r"), Finished)

    reads = [key for verb, key in shop.store.requests if verb == "read"]
    assert 1 == sum("/in/d-" in key for key in reads)
    assert not any("/v/" in key for key in reads)
    assert [5, 6] == sorted(paid)


def test_body_of_another_key_is_not_taken_for_the_version(shop: Shop) -> None:
    """A store may have read nothing, or the body of another version."""
    wait = shop.suspended().waits[0]
    shop.machine().decide(wait.id, Approve(by="kim"))
    original = shop.store.keys_with_bodies

    async def keys_with_bodies(*listing: Any) -> Page:
        page = await original(*listing)
        page.bodies = {layout.version_key("r", 1): b"old", "x": b""}
        return page

    shop.replace(keys_with_bodies=keys_with_bodies)

    assert isinstance(shop.machine().resume("r"), Finished)
    assert [5] == paid


@pytest.mark.parametrize("off", [3600.0, -3600.0, 8.0, -8.0])
def test_machine_with_a_wrong_clock_starts_nothing(shop: Shop, off: float) -> None:
    """The store compares the clocks before it writes the version."""
    shop.suspended(run="other")
    before = shop.keys("")

    with pytest.raises(ClockOff):
        shop.machine(off).start("pay", run_id="r")

    assert before == shop.keys("")
    assert isinstance(shop.machine().start("pay", run_id="r"), Suspended)


@pytest.mark.parametrize("off", [7.0, -7.0])
def test_machine_within_a_quarter_of_a_claim_starts(shop: Shop, off: float) -> None:
    shop.suspended(run="other")

    assert isinstance(shop.machine(off).start("pay", run_id="r"), Suspended)
    assert ["commit", "commit"] == shop.verbs()[-2:]


def test_slow_request_of_a_start_falls_back_to_a_guard_of_its_own(shop: Shop) -> None:
    """It comes after its times, and the clocks agree."""
    shop.suspended(run="other")
    original = shop.store.commit

    async def commit(changes: Changes) -> Committed:
        if changes.between is not None:
            shop.clock.seconds += 20
        return await original(changes)

    shop.replace(commit=commit)
    assert isinstance(shop.machine().start("pay", run_id="r"), Suspended)

    verbs = [verb for verb in shop.verbs() if verb in {"create", "commit"}]
    assert ["commit", "create", "commit"] == verbs[:3]
    assert [] == shop.keys("markers/")


@pytest.mark.parametrize("off", [30.0, -30.0])
def test_decision_has_the_time_of_the_store_if_the_clocks_differ(
    shop: Shop, off: float
) -> None:
    """The marker comes first, and tells the time."""
    wait = shop.suspended().waits[0]

    decision = shop.machine(off).decide(wait.id, Approve(by="kim"))

    assert ["read", "commit", "create", "commit"] == shop.verbs()
    assert shop.clock.now() == decision.at
    assert isinstance(shop.machine().resume("r"), Finished)
    assert [] == shop.keys("markers/")


def test_deadline_counts_by_the_time_of_the_store(shop: Shop) -> None:
    """Such a decision needs that time first."""
    wait = shop.suspended("late").waits[0]

    shop.machine().decide(wait.id, Approve(by="kim"))

    assert ["read", "create", "commit"] == shop.verbs()


@pytest.mark.parametrize("is_stored", [True, False])
def test_lost_reply_of_a_decision_is_no_error(shop: Shop, is_stored: bool) -> None:
    """The store could not find out whether it was made: it is made again."""
    wait = shop.suspended().waits[0]
    lose_reply(shop, is_stored=is_stored)

    decision = shop.machine().decide(wait.id, Approve(by="kim"))

    assert "approve" == decision.kind
    assert isinstance(shop.machine().resume("r"), Finished)
    assert [5] == paid
    assert [] == shop.keys("markers/") + shop.keys("waits/")


def test_second_decider_leaves_no_marker(shop: Shop) -> None:
    wait = shop.suspended().waits[0]
    first, second = shop.machine(), shop.machine()
    original = shop.store.commit

    async def commit(changes: Changes) -> Committed:
        shop.replace(commit=original)
        await asyncio.to_thread(first.decide, wait.id, Approve(by="kim"))
        return await original(changes)

    shop.replace(commit=commit)
    with pytest.raises(AlreadyDecided):
        second.decide(wait.id, Deny(reason="no", by="ann"))

    assert 1 == len(shop.keys("markers/"))
    assert isinstance(shop.machine().resume("r"), Finished)
    assert [] == shop.keys("markers/")


def test_store_that_is_down_keeps_the_wait_open(shop: Shop) -> None:
    wait = shop.suspended().waits[0]

    async def commit(changes: Changes) -> Committed:
        raise OutOfTime(changes.key)

    async def create(key: str, _: bytes) -> None:
        raise Inconclusive(key, "down")

    shop.replace(commit=commit, create=create)
    with pytest.raises(Exception, match="may or may not be stored"):
        shop.machine().decide(wait.id, Approve(by="kim"))
    assert [wait.id] == [each.id for each in shop.machine().look("r").waits]


def test_decider_that_dies_leaves_a_decision_with_its_marker() -> None:
    """Or neither of them: a sweep finds the run, or its wait is open."""
    for point in every_crash("before", "after", more_than=2, step=1):
        shop = Shop()
        wait = shop.suspended().waits[0]
        with point.process(shop.store) as dying:
            shop.machine(store=dying).decide(wait.id, Approve(by="kim"))

        swept = shop.machine().sweep()
        if not any("/in/d-" in key for key in shop.keys("runs/r/")):
            assert not swept.resumed
            shop.machine().decide(wait.id, Approve(by="kim"))
            swept = shop.machine().sweep()
        assert ["r"] == [outcome.run_id for outcome in swept.resumed]
        assert [5] == paid
        assert [] == shop.keys("markers/") + shop.keys("waits/")


def test_starter_that_dies_leaves_a_run_with_its_guard() -> None:
    """Or nothing: there is no run that no sweep finds."""
    for point in every_crash("before", "after", more_than=4, step=1):
        shop = Shop()
        shop.suspended(run="other")
        with point.process(shop.store) as dying:
            shop.machine(store=dying).start("pay", run_id="r")

        shop.clock.seconds += 120
        shop.machine().sweep()
        shop.clock.seconds += 7200  # also the markers of a run that never was
        shop.machine().sweep()
        if shop.keys("runs/r/v/"):
            assert [] == shop.keys("markers/")
            [wait] = shop.machine().look("r").waits
            assert layout.wait_key(wait.id) in shop.keys("waits/")


@pytest.mark.parametrize("is_stored", [True, False])
def test_lost_reply_of_a_start_is_no_error(shop: Shop, is_stored: bool) -> None:
    shop.suspended(run="other")
    lose_reply(shop, is_stored=is_stored)

    assert isinstance(shop.machine().start("pay", run_id="r"), Suspended)

    verbs = [verb for verb in shop.verbs() if verb in {"create", "commit"}]
    assert ["create", "commit", "commit"] == verbs[-3:]
    assert 2 == len(shop.keys("runs/r/v/"))
    assert [] == shop.keys("markers/")


def test_machine_whose_clock_is_set_after_a_lost_reply_keeps_the_guard(
    shop: Shop,
) -> None:
    """The version is stored, so a sweep must find the run."""
    shop.suspended(run="other")
    clock = ShiftedClock(shop.clock, timedelta())
    set_clock = partial(setattr, clock, "_offset", timedelta(hours=1))
    lose_reply(shop, is_stored=True, then=set_clock)

    with pytest.raises(ClockOff):
        shop.machine(clock=clock).start("pay", run_id="r")

    assert ["r"] == [key.rpartition("@")[2] for key in shop.keys("markers/")]


def test_unavailable_store_starts_nothing(shop: Shop) -> None:
    shop.suspended(run="other")
    before = shop.keys("")

    async def commit(changes: Changes) -> Committed:
        raise Unavailable(changes.key)

    shop.replace(commit=commit)
    with pytest.raises(StoreUnavailable):
        shop.machine().start("pay", run_id="r")
    assert before == shop.keys("")


# The work of one cycle --------------------------------------------------------


# A task costs three rounds of the event loop. One commit of a run that takes its claim,
# one that keeps it, two model calls, one tool and their neighbours need these.
_MAX_TASKS = 17
# Ten creates and eight deletes. Those that wait at the same time share a thread.
_MAX_THREAD_CALLS = 18


async def _one_cycle(runner: AsyncRunner, run_id: str) -> None:
    outcome = expect(await runner.start("Pay 500.", run_id=run_id), Suspended)
    await runner.decide(outcome.waits[0].id, Approve(by="kim"))
    assert isinstance(await runner.resume(run_id), Finished)


def _runner(store: Store) -> AsyncRunner:
    @tool(approval=True)
    async def pay(cents: int) -> str:
        """Pay an amount."""
        return f"Paid {cents}."

    model = ScriptedModel([ToolCall("pay", {"cents": 500}), "It is paid."])
    return AsyncRunner(Agent("payer", tools=[pay], model=model), store=store)


async def test_cycle_makes_few_tasks() -> None:
    """An operation that has no neighbour runs in the task of its caller."""

    runner = _runner(MemoryStore())
    await _one_cycle(runner, "first")
    made: list[str] = []

    def factory(
        loop: asyncio.AbstractEventLoop, coro: Any, **more: Any
    ) -> asyncio.Task[Any]:
        made.append(coro.__qualname__)
        return asyncio.Task(coro, loop=loop, **more)

    asyncio.get_running_loop().set_task_factory(factory)
    await _one_cycle(runner, "second")

    assert len(made) <= _MAX_TASKS, made


async def test_cycle_makes_few_calls_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads and listings need no thread."""
    made: list[str] = []
    start = DaemonThreadPool.start

    def counted(self: DaemonThreadPool, call: PoolCall) -> None:
        made.append(self.name)
        start(self, call)

    runner = _runner(FileStore(tmp_path))
    await _one_cycle(runner, "first")
    monkeypatch.setattr(DaemonThreadPool, "start", counted)
    await _one_cycle(runner, "second")

    assert made.count("continuations-file") <= _MAX_THREAD_CALLS, made


# The work of one turn ---------------------------------------------------------


# Turns before the first counted one, and counted turns. By then, the methods of values
# that each turn makes are compiled (`value_class`).
_WARM_UP, _COUNTED = 40, 8


class CountingModel:
    """Calls the tool in every turn, and counts function calls between requests."""

    name = "counting"

    def __init__(self) -> None:
        self.turns = 0
        self.calls = 0

    def _count(self, _frame: object, event: str, _arg: object) -> None:
        self.calls += event in ("call", "c_call")

    async def reply(self, request: ModelRequest) -> ModelReply:
        """Return the next reply; a turn is all work from one reply to the next."""
        self.turns += 1
        self.request = request
        if self.turns == _WARM_UP:
            sys.setprofile(self._count)
        if self.turns == _WARM_UP + _COUNTED:
            sys.setprofile(None)
            return ModelReply(
                message=Message.from_mapping({"role": "assistant", "content": "end"})
            )
        function = {"name": "note", "arguments": '{"number": 1}'}
        call = {"id": f"c{self.turns}", "type": "function", "function": function}
        data = {"role": "assistant", "content": None, "tool_calls": [call]}
        return ModelReply(message=Message.from_mapping(data))


def conversation(count: int) -> list[dict[str, Any]]:
    """Return a conversation of about as many messages, with tool calls."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Save notes."}]
    while len(messages) < count:
        call = {
            "id": f"old_{len(messages)}",
            "type": "function",
            "function": {"name": "note", "arguments": "{}"},
        }
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        result = {"role": "tool", "tool_call_id": call["id"], "content": "saved"}
        messages.append(result)
    return messages


def python_calls_per_turn(message_count: int, *, read_only: bool) -> float:
    """Return the function calls of a durable turn after so many messages."""

    async def note(number: int) -> str:
        """Save a note."""
        return f"saved {number}"

    model = CountingModel()
    agent = Agent(
        "notes",
        tools=[tool(note, read_only=read_only)],
        model=model,
        max_turns=None,
    )

    async def scenario() -> None:
        runner = AsyncRunner(agent, store=MemoryStore())
        assert isinstance(await runner.start(conversation(message_count)), Finished)

    try:
        asyncio.run(scenario())
    finally:
        sys.setprofile(None)
    assert len(model.request.messages) >= message_count
    return model.calls / _COUNTED


# Just above the calls of Python 3.11; a change that needs more says why. Waits of
# frames, the rows of a run, the requests of operators and threads took 6 %, and unread
# messages and instructions of threads took 1 %.
@pytest.mark.parametrize(
    ("read_only", "limit"), [(True, 2020), (False, 2650)], ids=["read_only", "ordinary"]
)
def test_python_calls_of_a_turn_do_not_grow_with_the_messages(
    *, read_only: bool, limit: int
) -> None:
    """At 2,000 messages a turn makes as many calls as at 200, and 20 more at most."""
    # On a busy machine, timers of the run add calls to some turns: the least counts.
    few, many = (
        min(python_calls_per_turn(count, read_only=read_only) for _ in range(2))
        for count in (200, 2000)
    )

    assert 100 < few <= limit
    assert many <= few + 20
