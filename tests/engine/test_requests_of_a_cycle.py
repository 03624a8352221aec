"""The requests and the work of a start, a turn, a decision and a resume."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from continuations import (
    Agent,
    Answer,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Finished,
    Outcome,
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
from continuations_storage.faults import FaultyStore, on, refused
from continuations_storage.thread_pool import DaemonThreadPool, PoolCall
from tests.clocks import ManualClock, ShiftedClock
from tests.crash_points import every_crash
from tests.engine import agent_builders
from tests.engine.agent_builders import make_boss, text_tool
from tests.outcomes import expect
from tests.scripts import Line, Script, call
from tests.stores import StoreThatReadsAhead, StoreWithListingTime

SCRIPT: Script = {
    "pay": [[call("pay", cents=5)], "end"],
    "pay twice": [[call("pay", cents=5), call("pay", cents=6)], "end"],
    "late": [[call("late")], "end"],
}
paid: list[int] = []


pay = text_tool("pay", "paid {cents}", {"cents": int}, into=paid, approval=True)
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


# Requests that follow one another ---------------------------------------------


APPROVALS = 10
SEQUENCE_SCRIPT: Script = {
    "go": [[call("pay", what=str(number)) for number in range(APPROVALS)], "end"]
}


class RoundStore(FaultyStore):
    """A store that replies in rounds: to all requests that are under way at once.

    Attributes:
        rounds: The operations of each round.
    """

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.rounds: list[list[str]] = []
        self._waiting: list[asyncio.Event] = []

    async def _perform(
        self, verb: Any, key: str, effect: Callable[[int], Awaitable[Any]]
    ) -> Any:
        turn = asyncio.Event()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            # The others of this round are sent before the event loop is idle.
            asyncio.get_running_loop().call_later(0.02, self._reply)
            self.rounds.append([])
        self.rounds[-1].append(f"{verb} {key}")
        await turn.wait()
        return await super()._perform(verb, key, effect)

    def _reply(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.set()


@pytest.mark.parametrize(
    ("first_calls", "loading"), [([], [11]), ([[call("note")]], [3, 10])]
)
def test_resume_with_ten_approvals_takes_nine_or_ten_rounds(
    first_calls: list[Line], loading: list[int], clock: ManualClock
) -> None:
    """Neither reads nor deletes follow one another one by one.

    Version 2 can have no decision yet, so all of them are read beside it. Later, the
    version says which decisions are new, so they are read after it.
    """
    script: Script = {"go": [*first_calls, *SEQUENCE_SCRIPT["go"]]}
    store = StoreWithListingTime(clock)

    @tool(approval=True)
    async def pay(what: str) -> str:
        """Pay."""
        return f"paid {what}"

    @tool
    async def note() -> str:
        """Note."""
        return "noted"

    def runner(store: Store) -> Runner:
        return agent_builders.make_runner(script, pay, note, store=store, clock=clock)

    outcome = expect(runner(store).start("go", run_id="r1"), Suspended)
    clerk = Runner([], store=store, clock=clock)
    for wait in outcome.waits:
        clerk.decide(wait.id, Approve(by="kim"))

    rounds = RoundStore(store)
    assert isinstance(runner(rounds).resume("r1"), Finished)

    # The listing, the version and the decisions. Then the claim, and a listing. The
    # results and the cancel request. The last look. The end, and the deletes of wait
    # objects. The key of the ended run, and the delete of its live key. The deletes of
    # markers: a crash before them must not hide the run.
    expected = [1, *loading, 1, 1, 2, 1, 11, 2, 10]
    assert expected == [len(each) for each in rounds.rounds]
    assert [] == asyncio.run(store.keys("markers/"))
    assert [] == asyncio.run(store.keys("waits/"))


def test_ten_deadlines_take_as_many_rounds_as_one() -> None:
    """Their markers are made at once, and their expiries are recorded at once."""
    rounds: list[tuple[int, int]] = []
    for count in (1, APPROVALS):
        clock = ManualClock()
        store = StoreWithListingTime(clock)

        @tool(approval=ApprovalPolicy(expires_after=60))
        async def pay(what: str) -> str:
            """Pay."""
            return f"paid {what}"

        calls = [call("pay", what=str(number)) for number in range(count)]
        counted = RoundStore(store)
        runner = agent_builders.make_runner(
            {"go": [calls, "end"]}, pay, store=counted, clock=clock
        )
        assert isinstance(runner.start("go", run_id="r1"), Suspended)
        started = len(counted.rounds)
        clock.seconds += 61

        ended = expect(runner.resume("r1"), Finished)

        results = agent_builders.root_tool_results(ended)
        assert count == len([text for text in results if text.startswith("EXPIRED")])
        rounds.append((started, len(counted.rounds) - started))

    assert rounds[0] == rounds[1]


def test_second_approval_is_read_ahead_only_by_a_process_that_knows_the_run() -> None:
    """Both processes read the same objects; the one that kept the run needs less time.

    The decision that was applied before is not read again.
    """
    requests: list[list[str]] = []
    rounds: list[int] = []
    for keeps_process in (True, False):
        clock = ManualClock()
        store = RoundStore(StoreWithListingTime(clock))

        @tool(approval=True)
        async def pay(what: str) -> str:
            """Pay."""
            return f"paid {what}"

        script: Script = {
            "go": [[call("pay", what="1")], [call("pay", what="2")], "end"]
        }
        worker = agent_builders.make_runner(script, pay, store=store, clock=clock)
        clerk = Runner([], store=store, clock=clock)
        outcome = worker.start("go", run_id="r1")
        for _ in range(2):
            assert isinstance(outcome, Suspended)
            clerk.decide(outcome.waits[0].id, Approve(by="kim"))
            if not keeps_process:
                worker = agent_builders.make_runner(
                    script, pay, store=store, clock=clock
                )
            store.operations.clear()
            store.rounds.clear()
            outcome = worker.resume("r1")

        assert isinstance(outcome, Finished)
        reads = [each.key for each in store.operations if each.verb == "read"]
        assert 1 == sum("/in/d-" in key for key in reads)
        requests.append(sorted(each.verb for each in store.operations))
        rounds.append(len(store.rounds))

    kept, cold = requests
    assert kept == cold
    assert rounds[0] == rounds[1] - 1


def test_decision_that_cannot_be_read_ahead_is_read_again(clock: ManualClock) -> None:
    """The requests beside the version decide nothing: an error there is no error."""
    store = FaultyStore(StoreWithListingTime(clock))

    @tool(approval=True)
    async def pay(what: str) -> str:
        """Pay."""
        return f"paid {what}"

    script: Script = {"go": [[call("pay", what="1")], "end"]}
    worker = agent_builders.make_runner(script, pay, store=store, clock=clock)
    outcome = expect(worker.start("go", run_id="r1"), Suspended)
    Runner([], store=store, clock=clock).decide(outcome.waits[0].id, Approve(by="kim"))

    store.plan = on("read", refused(), prefix="runs/r1/in/d-")
    ended = expect(worker.resume("r1"), Finished)

    assert ["paid 1"] == agent_builders.root_tool_results(ended)


# A store whose listings tell the time -----------------------------------------


PAYMENTS: Script = {"go": [[call("pay", what="x")], "end"]}


def make_payment_runner(store: Store, clock: ManualClock, paid: list[str]) -> Runner:
    """Return a runner whose one tool needs a yes."""
    pay = text_tool("pay", "paid", {"what": str}, into=paid, approval=True)
    return agent_builders.make_runner(PAYMENTS, pay, store=store, clock=clock)


def start_and_approve(store: Store, clock: ManualClock, paid: list[str]) -> None:
    """Start a run and have it approved, in processes of their own."""
    outcome = make_payment_runner(store, clock, paid).start("go", run_id="r1")
    assert isinstance(outcome, Suspended)
    Runner([], store=store, clock=clock).decide(outcome.waits[0].id, Approve(by="kim"))


def request_counts(store: FaultyStore) -> dict[str, int]:
    """Return how often each verb was asked; deletes are free, so they do not count."""
    verbs = [operation.verb for operation in store.operations]
    return {verb: verbs.count(verb) for verb in ("create", "read", "keys")}


def test_approval_cycle_has_the_documented_request_counts() -> None:
    """At most 15 requests from the suspension to the end, and a key for its day."""
    clock, paid = ManualClock(), list[str]()
    inner = StoreWithListingTime(clock)
    starting, deciding, resuming = (FaultyStore(inner) for _ in range(3))

    outcome = make_payment_runner(starting, clock, paid).start("go", run_id="r1")
    assert isinstance(outcome, Suspended)
    clerk = Runner([], store=deciding, clock=clock)
    clerk.decide(outcome.waits[0].id, Approve(by="kim"))
    assert isinstance(make_payment_runner(resuming, clock, paid).resume("r1"), Finished)

    # A marker, version 1, the key of a live run, the suspended version, its wait; a
    # listing after the claim and one after the suspension.
    assert {"create": 5, "read": 0, "keys": 2} == request_counts(starting)
    # The wait; a marker, the decision.
    assert {"create": 2, "read": 1, "keys": 0} == request_counts(deciding)
    # The listing, the version, the decision; the claim, the listing; the result and a
    # read of the cancel request; the look at the inbox. The end and the key of its day.
    assert {"create": 4, "read": 3, "keys": 3} == request_counts(resuming)


def test_wrong_clock_is_detected_by_the_first_listing() -> None:
    """Nothing is written, and nothing runs."""
    clock, paid = ManualClock(), list[str]()
    store = StoreWithListingTime(clock)
    start_and_approve(store, clock, paid)
    for seconds in (-60, 60):
        off = ManualClock()
        off.seconds = clock.seconds + seconds
        watched = FaultyStore(store)

        with pytest.raises(ClockOff):
            make_payment_runner(watched, off, paid).resume("r1")

        assert {"create": 0, "read": 2, "keys": 1} == request_counts(watched)
    assert [] == paid
    assert isinstance(make_payment_runner(store, clock, paid).resume("r1"), Finished)


def test_sweeps_alone_finish_a_run_after_a_crash_at_every_operation() -> None:
    """Also where no guard marker was created."""
    for point in every_crash("before", "after", more_than=9):
        clock, paid = ManualClock(), list[str]()
        store = StoreWithListingTime(clock)
        start_and_approve(store, clock, paid)
        with point.process(store) as dying:
            make_payment_runner(dying, clock, paid).resume("r1")

        ended = sweep_to_end(store, clock, paid)

        assert isinstance(ended, Finished), point
        assert ["x"] == paid, point


def sweep_to_end(store: Store, clock: ManualClock, paid: list[str]) -> Outcome:
    """Only sweep; answer an unknown outcome truthfully."""
    for _ in range(4):
        clock.seconds += 120
        make_payment_runner(store, clock, paid).sweep()
        clerk = Runner([], store=store, clock=clock)
        for summary in list(clerk.waiting()):
            verdict = Answer("paid", by="kim") if paid else Approve(by="kim")
            clerk.decide(summary.id, verdict)
    assert [] == asyncio.run(store.keys("waits/"))
    assert [] == asyncio.run(store.keys("markers/"))
    return make_payment_runner(store, clock, paid).resume("r1")
