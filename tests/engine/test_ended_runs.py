"""Runs that have ended or that a worker gives up: nothing is written or left later."""

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
    Model,
    Runner,
    Suspended,
    Wait,
)
from continuations.errors import (
    Cancelled,
    InvalidInput,
    ModelError,
    RunBusy,
    RunNotFound,
)
from continuations.events import RunEnded, RunEvent
from continuations.ledger import layout
from continuations.ledger.arrivals.arrivals import read_cancel_request
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.objects import Objects
from continuations.models.interface import ModelReply, ModelRequest, PendingReply
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import (
    Crash,
    FaultyStore,
    Moment,
    at,
    crashed,
    on,
    refused,
)
from tests import effect_log, scripts
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine import payment_agent
from tests.engine.agent_builders import make_boss, text_tool
from tests.engine.payment_agent import (
    PAY_SCRIPT,
    make_pay_tool,
    make_payment_runner,
    start_and_get_wait,
)
from tests.engine.shared_store import SharedStore
from tests.ledger.interleaving import InterleavingStore
from tests.outcomes import expect, present, single_wait
from tests.own_task import cancel_own_task
from tests.sampling import sample
from tests.scripts import Script, call
from tests.stores import StoreWithListingTime


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


# Runs that a worker gives up --------------------------------------------------


pay_once = text_tool(
    "pay", "paid", logs=True, approval=ApprovalPolicy(expires_after=30 * 86_400)
)
SCRIPT: Script = {
    "go": [[call("pay"), call("child", input="C")], "end"],
    "C": ["child ended"],
}


class Released(SharedStore):
    """A store in which a test looks at the markers that are left."""

    def reasons(self) -> list[tuple[str, int]]:
        """Return the letter and the due time of each marker, in seconds from now."""
        now_ms = int(self.clock.now().timestamp() * 1000)
        parsed = [layout.parse_marker(key) for key in self.markers()]
        return [
            (each.reason, (each.due_ms - now_ms) // 1000 if each.due_ms else 0)
            for each in parsed
            if each is not None
        ]


def test_markers_go_with_the_end_after_a_model_error() -> None:
    """Also those of the decided wait, whose deadline is a month away."""
    shared = Released()
    broken: Script = {"go": [[call("pay")], ModelError("down")]}
    runner = shared.machine(agents=make_boss(broken, pay_once))
    runner.decide(single_wait(runner.start("go", run_id="r")).id, Approve())
    with pytest.raises(ModelError):
        runner.resume("r")
    assert [("r", 60)] == shared.reasons()

    mended: Script = {"go": [[call("pay")], "end"]}
    outcome = shared.machine(agents=make_boss(mended, pay_once)).resume("r")

    assert isinstance(outcome, Finished)
    assert [] == shared.keys("markers/", "waits/")
    assert ["pay "] == effect_log.names()


def test_each_failed_try_doubles_the_delay_until_there_is_progress() -> None:
    """By resume as well as by sweep; a reply of the model begins a new count."""
    shared = Released()
    failing: Script = {"go": [ModelError("down")]}
    runner = shared.machine(agents=make_boss(failing, pay_once))
    with pytest.raises(ModelError):
        runner.start("go", run_id="r")
    for seconds in (120, 240, 480):
        with pytest.raises(ModelError):
            runner.resume("r")
        assert [("r", seconds)] == shared.reasons()

    partly: Script = {"go": [[call("missing_tool")], ModelError("down")]}
    with pytest.raises(ModelError):
        shared.machine(agents=make_boss(partly, pay_once)).resume("r")

    assert [("r", 60)] == shared.reasons()


def test_cancelled_start_publishes_its_waits() -> None:
    """A person can decide at once, although another frame's turn was interrupted."""
    shared = Released()
    notified: list[Wait] = []
    replies = scripts.scripted_model(SCRIPT)

    class SlowModel:
        """Does not reply to the sub-agent."""

        name = "slow"

        async def reply(self, request: ModelRequest) -> ModelReply | PendingReply:
            if request.agent == "child":
                await asyncio.sleep(60)
            return await replies.reply(request)

    def runner(model: Model) -> AsyncRunner:
        child = Agent("child", model=model)
        boss = Agent("boss", tools=[pay_once, child], model=model)
        return shared.machine(agents=boss, notify=notified.append).async_runner

    async def start() -> None:
        async with asyncio.timeout(0.3):
            await runner(SlowModel()).start("go", run_id="r")

    with pytest.raises(TimeoutError):
        asyncio.run(start())

    # The wait is listed and notified, and the run can go on at once
    [listed] = shared.machine(agents=[]).waiting()
    assert [listed.id] == [wait.id for wait in notified]
    assert "suspended" == shared.machine(agents=[]).look("r").status
    assert [("r", 0)] == [each for each in shared.reasons() if each[0] != "e"]

    # And nothing is left after its end
    shared.machine(agents=[]).decide(listed.id, Approve())
    assert isinstance(asyncio.run(runner(replies).resume("r")), Finished)
    assert [] == shared.keys("markers/", "waits/")
    assert ["pay "] == effect_log.names()


def test_sweep_finds_a_run_whose_claim_is_kept_after_an_error() -> None:
    """The marker of the decision is the only guard of that claim."""
    cancels = True

    async def cancel_first() -> bool:
        return cancels and await cancel_own_task()

    report = text_tool("report", "reported", logs=True, approval=cancel_first)
    # Given a worker that stops under its claim, and cannot release the claim
    clock = ManualClock()
    store = StoreWithListingTime(clock)
    script: Script = {"go": [[call("pay")], [call("report")], "end"]}
    agent = make_boss(script, payment_agent.pay, report)
    runner = Runner(agent, store=store, clock=clock)
    runner.decide(single_wait(runner.start("go", run_id="r")).id, Approve())
    no_release = on("create", refused(), prefix="markers/0000000000000-r-")
    faulty = Runner(agent, store=FaultyStore(store, no_release), clock=clock)
    assert {"r"} == faulty.sweep().errors.keys()
    assert "running" == runner.look("r").status
    assert ["pay "] == effect_log.names()

    # When its claim is over
    cancels = False
    clock.seconds += 3600
    swept = runner.sweep()

    # Then a sweep finds the run, and no effect happens twice
    assert 1 == swept.runs_checked
    assert ["r"] == [each.run_id for each in swept.resumed if type(each) is Finished]
    assert ["pay ", "report "] == effect_log.names()
    assert [] == asyncio.run(store.keys("markers/"))
