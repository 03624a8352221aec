"""A run that has ended is never written again, and functions clean up at its end."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pytest

from continuations import (
    Agent,
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Deny,
    Failed,
    Finished,
    Runner,
    Suspended,
)
from continuations.errors import Cancelled, InvalidInput, RunBusy, RunNotFound
from continuations.events import RunEnded, RunEvent
from continuations.ledger.arrivals.arrivals import read_cancel_request
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.objects import Objects
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import Crash, FaultyStore, Moment, at, crashed
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.agent_builders import make_boss, text_tool
from tests.engine.payment_agent import (
    PAY_SCRIPT,
    make_pay_tool,
    make_payment_runner,
    start_and_get_wait,
)
from tests.ledger.interleaving import InterleavingStore
from tests.outcomes import expect, present
from tests.sampling import sample
from tests.scripts import call


def cancelled_run_runner(store: MemoryStore) -> Runner:
    """Return a runner whose run `r1` was cancelled while it waited."""
    runner = make_payment_runner(store=store)
    start_and_get_wait(runner)
    assert "cancelled" == runner.cancel("r1", reason="Enough.").status
    return runner


def finished_run_runner(store: MemoryStore) -> Runner:
    """Return a runner whose run `r1` has come to its end."""
    runner = make_payment_runner(store=store)
    runner.decide(start_and_get_wait(runner).id, Approve())
    assert isinstance(runner.resume("r1"), Finished)
    return runner


@pytest.mark.parametrize(
    "make_ended_runner", [cancelled_run_runner, finished_run_runner]
)
def test_cancel_of_an_ended_run_writes_nothing(
    make_ended_runner: Callable[[MemoryStore], Runner], store: MemoryStore
) -> None:
    """Neither a cancel request nor a marker is created."""
    status = make_ended_runner(store).look("r1").status
    watched = FaultyStore(store)

    again = Runner([], store=watched).cancel("r1", reason="Too late.", by="lou")

    assert status == again.status
    assert {"keys", "read"} >= {each.verb for each in watched.operations}


@pytest.mark.parametrize(
    "make_ended_runner", [cancelled_run_runner, finished_run_runner]
)
def test_message_to_an_ended_run_is_rejected(
    make_ended_runner: Callable[[MemoryStore], Runner], store: MemoryStore
) -> None:
    """No agent would read it, so the sender gets an error."""
    make_ended_runner(store)
    watched = FaultyStore(store)

    with pytest.raises(InvalidInput, match="does not accept messages"):
        Runner([], store=watched).send("r1", "Are you there?")

    assert {"keys", "read"} == {each.verb for each in watched.operations}


def test_a_run_that_ends_while_it_is_cancelled_has_one_end() -> None:
    """The end that is committed first is the end for every process."""
    ends = set[str]()
    for number in range(1, 30):
        # Given an approved run that another process resumes right before a request
        store, clock = MemoryStore(), ManualClock()
        runner = make_payment_runner(store=store, clock=clock)
        runner.decide(start_and_get_wait(runner).id, Approve())
        other = AsyncRunner(
            make_boss(PAY_SCRIPT, make_pay_tool()), store=store, clock=clock
        )
        interleaved = InterleavingStore(store, number, partial(other.resume, "r1"))

        # When it is cancelled
        result = Runner([], store=interleaved, clock=clock).cancel(
            "r1", reason="Enough."
        )

        # Then every process sees the same end, which is the last version
        if interleaved.request_count < number:
            assert {"cancelled", "finished"} == ends
            return
        ends.add(result.status)
        newest = runner.look("r1")
        assert (newest.status, newest.version) == (result.status, result.version), (
            number
        )
        statuses = [
            runner.look("r1", version=each).status
            for each in range(1, newest.version + 1)
        ]
        assert {"running", "suspended"} >= set(statuses[:-1]), number
        # And a sweep leaves no marker and no wait object
        clock.seconds += 120
        runner.sweep()
        assert [] == asyncio.run(store.keys("markers/"))
        assert [] == asyncio.run(store.keys("waits/"))
    pytest.fail("it was never left alone")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_sweep_carries_out_a_recorded_cancel_request(moment: Moment) -> None:
    """The process may die right after recording it; before that, nothing happens."""
    followed = 0
    for point in every_crash(moment, more_than=5):
        # Given a run that waits, and a process that dies while it cancels the run
        store, clock = MemoryStore(), ManualClock()
        runner = make_payment_runner(store=store, clock=clock)
        wait = start_and_get_wait(runner)
        with point.process(store) as dying:
            Runner([], store=dying, clock=clock).cancel("r1", reason="Enough.")
        cancel_requested = (
            asyncio.run(read_cancel_request(Objects(store), "r1")) is not None
        )

        # When only sweeps come
        clock.seconds += 120
        assert {} == runner.sweep().errors

        # Then the run is cancelled if the request was recorded, else it can continue
        if cancel_requested:
            followed += 1
            assert "cancelled" == runner.look("r1").status, point
            with pytest.raises(Cancelled):
                runner.decide(wait.id, Approve())
        else:
            runner.decide(wait.id, Approve())
            assert isinstance(runner.resume("r1"), Finished), point
            # Its marker was for a cancel request that was never recorded.
            runner.sweep()
        assert [] == asyncio.run(store.keys("markers/")), point
        assert [] == asyncio.run(store.keys("waits/")), point
    assert followed > 1


def test_wait_that_is_closed_by_cancel_records_the_reason(store: MemoryStore) -> None:
    """The decision of the wait alone, without the run, has the reason."""
    runner = make_payment_runner(store=store)
    wait = start_and_get_wait(runner)
    runner.cancel("r1", reason="Enough.", by="kim")

    made = present(asyncio.run(read_decision(Objects(store), wait.id)))

    assert ("cancel", "Enough.", wait.digest) == (made.kind, made.reason, made.digest)


@pytest.mark.parametrize(
    ("reason", "message"),
    [(None, "pay was denied"), ("", "pay was denied"), ("No.", "pay was denied: No.")],
)
def test_failed_run_contains_the_reason_of_the_denial(
    reason: str | None, message: str
) -> None:
    """The message invents no reason."""
    runner = make_payment_runner(ApprovalPolicy(on_denied="stop"))
    runner.decide(start_and_get_wait(runner).id, Deny(reason=reason))

    outcome = expect(runner.resume("r1"), Failed)

    assert message == outcome.error.message


def test_late_decision_in_a_failed_run_does_not_say_that_it_was_cancelled() -> None:
    """One denied call ends the run, and closes the wait of the call beside it."""
    pay = make_pay_tool(ApprovalPolicy(on_denied="stop"))
    script = {"go": [[call("pay", cents=1), call("pay", cents=2)]]}
    runner = Runner(make_boss(script, pay), store=MemoryStore())
    outcome = expect(runner.start("go", run_id="r1"), Suspended)
    runner.decide(outcome.waits[0].id, Deny(by="kim"))
    failed = expect(runner.resume("r1"), Failed)
    assert "denied" == failed.error.code

    with pytest.raises(Cancelled) as raised:
        runner.decide(outcome.waits[1].id, Approve())

    closed = "its call or run r1 was cancelled, or the run has failed or was repaired"
    assert closed in str(raised.value)
    assert "continuations audit r1" in str(raised.value)


# Functions at the end ---------------------------------------------------------


ENDED = {"finished", "failed", "cancelled"}
pay = text_tool("pay", "paid {cents}", {"cents": int}, approval=True)


class Cleaner:
    """The two functions of the recipe; `at_once` and `later` count their calls."""

    def __init__(self) -> None:
        self.at_once: Counter[str] = Counter()
        self.later: Counter[str] = Counter()

    def on_event(self, event: RunEvent) -> None:
        """Clean up after a run that this process ends."""
        if isinstance(event, RunEnded):
            self.at_once[event.run_id] += 1

    def clean_up_the_rest(self, runner: Runner[Any]) -> None:
        """Clean up after runs that another process ended."""
        for run in runner.runs():
            done = self.at_once[run.run_id] + self.later[run.run_id]
            if run.status in ENDED and not done:
                self.later[run.run_id] += 1


def _runner(store: Store, clock: ManualClock, cleaner: Cleaner | None) -> Runner[Any]:
    model = ScriptedModel([ToolCall("pay", {"cents": 5}), "Done."])
    agent = Agent("clerk", tools=[pay], model=model)
    on_event = None if cleaner is None else cleaner.on_event
    return Runner(agent, store=store, clock=clock, on_event=on_event)


def _run_to_end(runner: Runner[Any], clock: ManualClock) -> None:
    while True:
        try:
            outcome = runner.resume("r1")
        except RunNotFound:
            outcome = runner.start("go", run_id="r1")
        except RunBusy:
            clock.seconds += 31
            continue
        if not isinstance(outcome, Suspended):
            assert isinstance(outcome, Finished)
            return
        for wait in outcome.waits:
            runner.decide(wait.id, Approve(by="kim"))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_cleaning_up_survives_a_crash_at_every_storage_operation(
    moment: Literal["before", "after"],
) -> None:
    """At most once at the end, exactly once with the job, which looks first."""
    undisturbed = FaultyStore(MemoryStore())
    cleaner, clock = Cleaner(), ManualClock()
    _run_to_end(_runner(undisturbed, clock, cleaner), clock)
    assert ({"r1": 1}, {}) == (cleaner.at_once, cleaner.later)

    lost = 0
    for number in sample(range(1, len(undisturbed.operations) + 1), 1):
        cleaner, clock = Cleaner(), ManualClock()
        inner = MemoryStore(clock.now)
        dying = FaultyStore(inner, at(number, crashed(moment)))
        with pytest.raises(Crash):
            _run_to_end(_runner(dying, clock, cleaner), clock)
        # The work of the process that died stays done.
        other = _runner(inner, clock, cleaner)
        _run_to_end(other, clock)
        clock.seconds += 3600
        other.sweep()
        assert cleaner.at_once["r1"] <= 1
        lost += not cleaner.at_once["r1"]

        cleaner.clean_up_the_rest(other)
        cleaner.clean_up_the_rest(other)

        assert 1 == cleaner.at_once["r1"] + cleaner.later["r1"], number

    # The recipe needs its second function.
    assert bool(lost) == (moment == "after")


def test_the_job_cleans_up_after_runs_that_other_processes_end() -> None:
    """One is cancelled without agents, one ends in a process without the function."""
    store, cleaner, clock = MemoryStore(), Cleaner(), ManualClock()
    runner = _runner(store, clock, cleaner)
    runner.start("go", run_id="cancelled")
    Runner([], store=store, clock=clock).cancel("cancelled")
    _run_to_end(_runner(store, clock, None), clock)
    runner.start("go", run_id="waiting")
    assert not cleaner.at_once

    cleaner.clean_up_the_rest(runner)

    assert {"cancelled": 1, "r1": 1} == cleaner.later


def test_a_sweep_tells_of_the_run_that_it_ends() -> None:
    """The same function hears of it, in the process that sweeps."""
    store, cleaner, clock = MemoryStore(), Cleaner(), ManualClock()
    outcome = expect(_runner(store, clock, None).start("go", run_id="r1"), Suspended)
    Runner([], store=store, clock=clock).decide(outcome.waits[0].id, Approve())

    _runner(store, clock, cleaner).sweep()

    assert {"r1": 1} == cleaner.at_once


def test_a_failing_function_changes_no_run(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: RunEvent) -> None:
        raise LookupError(event.run_id)

    agent = Agent("clerk", model=ScriptedModel(["Done."]))
    with caplog.at_level(logging.ERROR):
        outcome = Runner(agent, store="memory:", on_event=fail).start("go")

    assert isinstance(outcome, Finished)
    assert "on_event raised" in caplog.text
