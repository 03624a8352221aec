"""Signals: each ends one wait, the oldest first, and none is lost or taken twice."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any, Literal

import pytest

from continuations import (
    Agent,
    Answer,
    Failed,
    Finished,
    Outcome,
    Runner,
    Suspended,
    tool,
    wait_for,
)
from continuations.core.rows import event_matching
from continuations.core.rows.decisions import Decision
from continuations.errors import InvalidInput, RunBusy, RunNotFound
from continuations.ledger.arrivals import run_signals
from continuations.ledger.decisions.decisions import record_decision
from continuations.ledger.objects import Objects
from continuations.tools import Tool, ToolWait
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import remaining_keys
from tests.engine.agent_builders import make_boss, root_tool_results
from tests.outcomes import expect, only_wait
from tests.sampling import sample
from tests.scripts import call


def make_receipt(type_: Any = None, **options: Any) -> Tool[..., Any]:
    """Return a tool that waits for the event `receipt`."""

    @tool(idempotent=True)
    def receipt(trip: str) -> ToolWait[Any]:
        """Wait for a receipt."""
        effect_log.append_effect("receipt", trip)
        return wait_for("receipt", type_, **options)

    return receipt


TWO_AT_ONCE: Any = {
    "go": [[call("receipt", trip="Rome"), call("receipt", trip="Oslo")], "end"]
}
ONE: Any = {"go": [[call("receipt", trip="Rome")], "end"]}
ONE_AFTER_ANOTHER: Any = {
    "go": [[call("receipt", trip="Rome")], [call("receipt", trip="Oslo")], "end"]
}


def make_runner(script: Any = ONE, receipt: Tool[..., Any] | None = None) -> Runner:
    """Return a runner on a store of its own."""
    clock = ManualClock()
    agent = make_boss(script, receipt or make_receipt())
    return Runner(agent, store=MemoryStore(clock.now), clock=clock)


def results(outcome: Outcome) -> list[Any]:
    """Return the results of the tools of the root agent."""
    return list(root_tool_results(outcome))


def test_a_signal_ends_the_oldest_wait_for_its_name() -> None:
    """Each of two waits takes one signal, in the order of the calls."""
    runner = make_runner(TWO_AT_ONCE)
    assert isinstance(runner.start("go", run_id="r"), Suspended)

    assert 1 == runner.signal("r", "receipt", "one", by="shop")
    left = only_wait(runner.resume("r"))
    assert 2 == runner.signal("r", "receipt", {"no": 2})
    end = expect(runner.resume("r"), Finished)

    assert ["one", '{"no":2}'] == results(end)
    assert {"trip": "Oslo"} == left.arguments
    # The two calls run at the same time, so either one may be first in the log.
    assert ["receipt Oslo", "receipt Rome"] == sorted(effect_log.names())


def test_signals_before_their_waits_are_kept_in_their_order() -> None:
    """Signals that no wait takes stay, also over versions and other names."""
    runner = make_runner(ONE_AFTER_ANOTHER)
    runner.start("go", run_id="r", work=False)
    for name, data in (("other", 0), ("receipt", 1), ("receipt", 2)):
        runner.signal("r", name, data)

    end = expect(runner.resume("r"), Finished)

    assert ["1", "2"] == results(end)


def test_a_signal_does_not_queue_behind_an_unread_message() -> None:
    """A message waits for the end of the calls; the signal does not."""
    runner = make_runner()
    runner.start("go", run_id="r")
    runner.send("r", "Hurry.")
    runner.signal("r", "receipt", "here")

    end = expect(runner.resume("r"), Finished)

    assert ["here"] == results(end)


def test_a_sweep_delivers_a_signal_and_leaves_no_marker() -> None:
    """No process needs to know the run; other names cost one look."""
    runner = make_runner()
    runner.start("go", run_id="r")
    runner.signal("r", "other")
    [outcome] = runner.sweep().resumed
    assert isinstance(outcome, Suspended)
    assert 0 == runner.sweep().runs_checked

    runner.signal("r", "receipt", "here")
    [outcome] = runner.sweep().resumed

    assert isinstance(outcome, Finished)
    assert [] == remaining_keys(runner.store)


def test_data_that_does_not_fit_opens_the_wait_again_with_a_note() -> None:
    """The deadline stays; the next signal that fits ends the wait."""
    runner = make_runner(ONE, make_receipt(int, within=timedelta(hours=1)))
    outcome = expect(runner.start("go", run_id="r"), Suspended)
    [before] = outcome.waits
    runner.signal("r", "receipt", "seven")
    outcome = expect(runner.resume("r"), Suspended)
    [after] = outcome.waits
    assert before.id != after.id
    assert before.deadline == after.deadline
    assert "Signal 1 does not fit" in (after.note or "")

    runner.signal("r", "receipt", 7)
    end = expect(runner.resume("r"), Finished)

    assert ["7"] == results(end)


def test_a_decision_that_came_first_leaves_the_signal_to_the_next_wait() -> None:
    """The first decision of a wait wins, and the signal is not lost."""
    runner = make_runner(ONE_AFTER_ANOTHER)
    outcome = expect(runner.start("go", run_id="r"), Suspended)
    runner.decide(outcome.waits[0].id, Answer("by hand"))
    runner.signal("r", "receipt", "by signal")

    end = runner.resume("r")

    assert ["by hand", "by signal"] == results(end)


def test_a_signal_counts_by_its_time_and_not_by_that_of_the_worker() -> None:
    """A signal before the deadline ends the wait; a later one does not."""
    for late in (False, True):
        clock = ManualClock()
        receipt = make_receipt(within=timedelta(minutes=1))
        store = MemoryStore(clock.now)
        runner = Runner(make_boss(ONE, receipt), store=store, clock=clock)
        runner.start("go", run_id="r")
        clock.seconds += 61 if late else 59
        runner.signal("r", "receipt", "here")
        clock.seconds += 100

        end = expect(runner.resume("r"), Finished)

        assert late == ("ERROR" in results(end)[0])


def test_a_repeated_id_is_one_signal() -> None:
    """Processes that repeat a call at the same time send one signal."""
    runner = make_runner(TWO_AT_ONCE)
    runner.start("go", run_id="r")
    numbers: list[int] = []

    def repeat() -> None:
        numbers.append(runner.signal("r", "receipt", 1, id="mail-7"))

    threads = [threading.Thread(target=repeat) for _ in range(8)]
    for thread in threads:
        thread.start()
    runner.signal("r", "receipt", 2)
    for thread in threads:
        thread.join(60)

    assert 8 == len(numbers)
    assert 1 == len(set(numbers))
    assert {"1", "2"} == set(results(runner.resume("r")))
    assert 2 == len(effect_log.effects())


@pytest.mark.parametrize("name", ["", " ", 5, None, "x" * 201])
def test_an_invalid_name_is_refused(name: Any) -> None:
    runner = make_runner()
    runner.start("go", run_id="r")

    with pytest.raises(InvalidInput, match="name must be"):
        runner.signal("r", name)


def test_signals_that_nothing_takes_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run keeps a bounded number of names in its versions."""
    monkeypatch.setattr(run_signals, "MAX_KEPT_SIGNALS", 3)
    assert 100 == event_matching.MAX_KEPT_SIGNALS
    runner = make_runner()
    runner.start("go", run_id="r")
    for number in range(3):
        runner.signal("r", "other", number)
        runner.resume("r")

    with pytest.raises(InvalidInput, match="keeps 3 signals with the name 'other'"):
        runner.signal("r", "other", 3)


def test_signals_that_nothing_takes_do_not_keep_out_the_awaited_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit counts for each name; an open wait is never kept from its signal."""
    monkeypatch.setattr(run_signals, "MAX_KEPT_SIGNALS", 2)
    monkeypatch.setattr(run_signals, "MAX_KEPT_IN_ALL", 4)
    runner = make_runner()
    runner.start("go", run_id="r")
    for name in ("other", "other", "third", "third"):
        runner.signal("r", name)

    with pytest.raises(InvalidInput, match="keeps 2 signals with the name 'other'"):
        runner.signal("r", "other")
    with pytest.raises(InvalidInput, match="keeps 4 signals that"):
        runner.signal("r", "fourth")
    runner.signal("r", "receipt", "paper")

    assert isinstance(runner.resume("r"), Finished)


def test_a_run_that_has_ended_accepts_no_signal() -> None:
    runner = make_runner()
    runner.start("go", run_id="r")
    runner.cancel("r")

    with pytest.raises(InvalidInput, match="does not accept signals"):
        runner.signal("r", "receipt")


def test_a_signal_that_two_processes_gave_to_two_waits_counts_once() -> None:
    """Two workers with different views record it; the versions use it up once."""
    runner = make_runner(TWO_AT_ONCE)
    outcome = expect(runner.start("go", run_id="r"), Suspended)
    runner.signal("r", "receipt", "one")
    for number, wait in enumerate(outcome.waits):
        decision = Decision(
            id=f"0{number}",
            wait_id=wait.id,
            kind="answer",
            at=wait.created_at,
            digest=wait.digest,
            value='"one"',
            signal=1,
        )
        asyncio.run(record_decision(Objects(runner.store), decision))

    reopened = only_wait(runner.resume("r"))
    assert "Signal 1 went to another wait." == reopened.note
    assert reopened.id not in {wait.id for wait in outcome.waits}
    runner.signal("r", "receipt", "two")

    assert ["one", "two"] == sorted(results(runner.resume("r")))


def test_an_adopted_run_counts_its_signals_from_1() -> None:
    """The signals that the other run kept stay in the store of that run."""
    runner = make_runner()
    runner.start("go", run_id="r")
    runner.signal("r", "other")
    outcome = expect(runner.resume("r"), Suspended)
    other = make_runner()
    other.adopt(outcome.continuation, run_id="r2")

    assert 1 == other.signal("r2", "receipt", "here")

    assert ["here"] == results(other.resume("r2"))


def signal_all(runner: Runner) -> None:
    """Send three signals, each with an id, as a caller that repeats its calls."""
    for number in range(3):
        name = "other" if number == 0 else "receipt"
        try:
            runner.signal("r1", name, number, id=f"s{number}")
        except InvalidInput:  # the run has both signals, and has ended
            return


def scenario(runner: Runner, clock: ManualClock, *, sweeps: bool) -> Outcome | None:
    """Start the run, signal it, and work on it until it ends."""
    for _ in range(20):
        try:
            outcome: Outcome | None = None
            if not sweeps:
                outcome = runner.resume("r1")
            else:
                clock.seconds += 120
                assert {} == runner.sweep().errors
                if runner.look("r1").status in {"finished", "failed"}:
                    outcome = runner.resume("r1")
        except RunNotFound:
            outcome = runner.start("go", run_id="r1")
        except RunBusy:
            clock.seconds += 31
            continue
        if isinstance(outcome, Finished | Failed):
            return outcome
        signal_all(runner)
    raise AssertionError(list(runner.waiting(kinds=["event"])))


@pytest.mark.parametrize("sweeps", [False, True])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("script", [ONE_AFTER_ANOTHER, TWO_AT_ONCE])
def test_a_crash_at_every_operation_loses_and_doubles_no_signal(
    script: Any, moment: Literal["before", "after"], *, sweeps: bool
) -> None:
    """Each wait takes one signal, in order, and no key is left behind.

    Parallel calls that run again after a crash may open their waits in either order.
    """

    def agent() -> Agent:
        return make_boss(script, make_receipt())

    clock = ManualClock()
    undisturbed = FaultyStore(MemoryStore(clock.now))
    runner = Runner(agent(), store=undisturbed, clock=clock)
    assert ["1", "2"] == results(_ended(scenario(runner, clock, sweeps=False)))
    deaths = 0
    turn = (moment == "after") + 2 * sweeps
    numbers = sample(range(1, len(undisturbed.operations) + 1), 16, 4 * turn)
    for number in numbers:
        clock = ManualClock()
        inner = MemoryStore(clock.now)
        dying = FaultyStore(inner, at(number, crashed(moment)))
        try:
            scenario(Runner(agent(), store=dying, clock=clock), clock, sweeps=False)
        except Crash:
            deaths += 1

        runner = Runner(agent(), store=inner, clock=clock)
        end = _ended(scenario(runner, clock, sweeps=sweeps))

        where = f"{moment} {number}: {dying.operations[-1]}"
        taken = results(end)
        assert ["1", "2"] == (sorted(taken) if script is TWO_AT_ONCE else taken), where
        for _ in range(3):
            clock.seconds += 3600
            runner.sweep()
        assert [] == remaining_keys(inner), where
    assert deaths > len(numbers) // 2


def _ended(outcome: Outcome | None) -> Finished[Any]:
    assert isinstance(outcome, Finished)
    return outcome
