"""The requests of a resume: how many, and how many follow one another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from continuations import (
    Answer,
    ApprovalPolicy,
    Approve,
    Finished,
    Outcome,
    Runner,
    Suspended,
    tool,
)
from continuations.errors import ClockOff
from continuations_storage import Store
from continuations_storage.faults import FaultyStore, on, refused
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine import agent_builders
from tests.outcomes import expect
from tests.scripts import Line, Script, call
from tests.stores import StoreWithListingTime

APPROVALS = 10
SCRIPT: Script = {
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
    script: Script = {"go": [*first_calls, *SCRIPT["go"]]}
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

    @tool(approval=True)
    def pay(what: str) -> str:
        """Pay."""
        paid.append(what)
        return "paid"

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
