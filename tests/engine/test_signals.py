"""Signals: each ends one wait, the oldest first; they have ids, and can be dropped."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from datetime import timedelta
from threading import Thread
from typing import Any, Literal

import pytest

from continuations import (
    Agent,
    Answer,
    Approve,
    AsyncRunner,
    Failed,
    Finished,
    Identity,
    Outcome,
    Replied,
    Runner,
    Suspended,
    tool,
    wait_for,
)
from continuations.core.rows import event_matching
from continuations.core.rows.decisions import Decision
from continuations.errors import Corrupt, InvalidInput, RunBusy, RunNotFound
from continuations.ledger.arrivals import run_signals
from continuations.ledger.arrivals.arrival_logs import MESSAGES, SIGNALS
from continuations.ledger.arrivals.run_signals import NAMES_FROM
from continuations.ledger.decisions.decisions import record_decision
from continuations.ledger.objects import Objects
from continuations.ledger.repair.integrity import Finding, check_integrity
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.serve.http.api import HttpApi, Request
from continuations.tools import Tool, ToolWait
from continuations.wire.arrivals import SIGNAL_ID, FirstNumber
from continuations_storage import MemoryStore, Store
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests import effect_log
from tests.clocks import ManualClock
from tests.crash_points import every_crash, remaining_keys
from tests.engine.agent_builders import (
    make_boss,
    root_tool_results,
    text_tool,
    wait_tool,
)
from tests.engine.test_thread_cost import CountingStore
from tests.hostile.editable_store import EditableStore
from tests.outcomes import expect, single_wait
from tests.sampling import sample
from tests.scripts import call
from tests.serve.console.console_client import ConsoleClient
from tests.serve.console.test_rewind_page import form_of, get, post
from tests.serve.http.api_fixture import verify_bearer


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
    left = single_wait(runner.resume("r"))
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
    runner.decide(single_wait(runner.start("go", run_id="r")).id, Answer("by hand"))
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

    reopened = single_wait(runner.resume("r"))
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


# Ids --------------------------------------------------------------------------


@tool
def receive() -> object:
    """Wait for the signal."""
    return wait_for("paid")


def _runner(store: Store) -> Runner:
    model = ScriptedModel([ToolCall("receive"), "done"])
    agent = Agent("clerk", tools=[receive], model=model)
    return Runner(agent, store=store, clock=ManualClock())


def _signal_keys(store: MemoryStore) -> list[str]:
    return asyncio.run(store.keys(SIGNALS.prefix("r")))


def test_the_hundredth_signal_with_an_id_costs_what_the_second_does() -> None:
    """Neither a new signal nor a repeat reads the earlier ones.

    Behind many new signals, one reads the newest of them. A repeat reads the signal
    that it finds.
    """
    store = CountingStore()
    runner = _runner(store)
    runner.start("go", run_id="r")
    costs: dict[int, int] = {}
    for number in range(1, 101):
        store.reset()
        assert number == runner.signal("r", f"n{number}", id=f"s{number}")
        costs[number] = store.requests["read"]
    assert costs[100] - 1 <= costs[2] <= costs[1] + 1
    for number in (1, 50, 100):
        store.reset()
        assert number == runner.signal("r", f"n{number}", id=f"s{number}")
        assert store.requests["read"] <= costs[2] + 1


def test_a_crash_at_every_operation_leaves_one_signal_after_a_repeat() -> None:
    """The key of the id comes first; another signal may take its number."""
    for point in every_crash("before", "after", more_than=3):
        store = MemoryStore(ManualClock().now)
        _runner(store).start("go", run_id="r")
        with point.process(store) as dying:
            _runner(dying).signal("r", "paid", 1, id="a")
        _runner(store).signal("r", "other", 2, id="b")
        first = _runner(store).signal("r", "paid", 1, id="a")
        assert first == _runner(store).signal("r", "paid", 1, id="a"), point
        assert 2 == len(_signal_keys(store)), point
        assert isinstance(_runner(store).resume("r"), Finished), point


def test_a_damaged_key_of_an_id_posts_nothing() -> None:
    """A key that names a number far away would make a gap."""
    store = MemoryStore(ManualClock().now)
    runner = _runner(store)
    runner.start("go", run_id="r")
    key = SIGNALS.id_key("r", "id:a")
    asyncio.run(store.create(key, SIGNAL_ID.encode(FirstNumber(7), "r")))

    with pytest.raises(Corrupt, match="at least number 7, and run r has 0 of them"):
        runner.signal("r", "paid", id="a")
    assert [] == _signal_keys(store)


def _run_with_ids(store: MemoryStore) -> tuple[Runner, list[str]]:
    """Return a runner, and the keys of ids of a signal to it and of a message."""
    runner = _runner(store)
    runner.start("go", run_id="r")
    runner.signal("r", "paid", 1, id="a")
    thread = runner.thread(key="k")
    ticket = thread.post("hello", id="m")
    return runner, [
        SIGNALS.id_key("r", "id:a"),
        MESSAGES.id_key(ticket.run_id, "id:m"),
    ]


@pytest.mark.parametrize("which", [0, 1])
def test_check_of_a_run_reads_the_keys_of_its_ids(which: int) -> None:
    """A damaged one is found; it does not block the run."""
    store = EditableStore()
    _, keys = _run_with_ids(store)
    key = keys[which]
    run_id = key.split("/")[1]
    assert not _findings(store, run_id)

    store.replace_body(key, store.bodies[key][:-1])

    (finding,) = _findings(store, run_id)
    assert (key, "damaged", False) == (finding.key, finding.kind, finding.blocks_run)


def _findings(store: MemoryStore, run_id: str) -> list[Finding]:
    return list(asyncio.run(check_integrity(Objects(store), run_id)).findings)


def test_erasure_deletes_the_keys_of_ids() -> None:
    store = MemoryStore(ManualClock().now)
    runner, keys = _run_with_ids(store)
    for key in keys:
        assert [key] == asyncio.run(store.keys(key))

        runner.erase(key.split("/")[1])

        assert [] == asyncio.run(store.keys(key))


def test_many_kept_signals_do_not_make_a_signal_dearer() -> None:
    """The newest one has the names of those before it, of which no worker knows yet."""
    store = CountingStore()
    runner = _runner(store)
    runner.start("go", run_id="r")
    requests: list[int] = []
    for number in range(150):
        store.reset()
        runner.signal("r", f"n{number % 2}", id=f"s{number}" if number % 3 else None)
        requests.append(store.requests.total())
    few = requests[1]
    assert max(requests[17:]) <= few + 1
    assert max(requests) <= few + NAMES_FROM

    store.reset()
    runner.signal("r", "another")
    assert store.requests.total() <= few + 1


def test_names_of_new_signals_are_counted_exactly() -> None:
    """Also if a worker took some of them in, and some were dropped."""
    runner = _runner(MemoryStore(ManualClock().now))
    runner.start("go", run_id="r")
    for number in range(90):
        runner.signal("r", f"n{number % 2}")
    runner.resume("r")
    for number in range(90, 190):
        runner.signal("r", f"n{number % 2}")
    assert 95 == runner.drop_signals("r", name="n0")
    runner.resume("r")
    for number in range(100):
        assert 191 + number == runner.signal("r", "n0")
    with pytest.raises(InvalidInput, match="keeps 100 signals with the name 'n0'"):
        runner.signal("r", "n0")
    for number in range(5):
        runner.signal("r", "n1", number)
    with pytest.raises(InvalidInput, match="keeps 100 signals with the name 'n1'"):
        runner.signal("r", "n1")


def test_signals_that_come_at_the_same_moment_keep_their_names() -> None:
    """A signal that lost a number has also the name of the one that took it."""
    store = MemoryStore(ManualClock().now)
    _runner(store).start("go", run_id="r")
    first, second = _runner(store), _runner(store)

    def send(runner: Runner) -> None:
        for _ in range(40):
            runner.signal("r", "a")

    threads = [Thread(target=send, args=(each,)) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(20):
        first.signal("r", "a")
    with pytest.raises(InvalidInput, match="keeps 100 signals with the name 'a'"):
        first.signal("r", "a")


def test_a_repeat_after_a_crash_begins_behind_the_signals_that_it_read() -> None:
    """The key of the id was written, and many signals were sent before the repeat."""
    store = CountingStore()
    runner = _runner(store)
    runner.start("go", run_id="r")
    key = SIGNALS.id_key("r", "id:a")
    asyncio.run(store.create(key, SIGNAL_ID.encode(FirstNumber(1), "r")))
    for number in range(1, 31):
        runner.signal("r", f"n{number}")
    store.reset()
    assert 31 == runner.signal("r", "paid", id="a")
    assert 3 == store.requests["create"]  # the id again, a marker and the signal


# Signals that no wait has taken -----------------------------------------------


receipt = wait_tool("receipt", lambda: wait_for("receipt"), ToolWait[Any])
pay = text_tool("pay", "paid", approval=True)


def make_agent() -> Agent[Any]:
    """Return an agent that asks before it pays, and then waits for a receipt."""
    calls = [ToolCall("pay", {}), ToolCall("receipt", {})]
    return Agent("boss", tools=[pay, receipt], model=ScriptedModel([*calls, "end"]))


def make_dropping_runner(store: Any = None) -> Runner:
    return Runner(make_agent(), store=store or MemoryStore())


def names_of(runner: Runner, run_id: str = "r1") -> list[str]:
    """Return the names of the signals that no wait has taken."""
    return [each.name for each in runner.signals(run_id)]


@pytest.mark.parametrize("taken_in", [False, True])
def test_signals_are_listed_and_dropped_by_their_name(*, taken_in: bool) -> None:
    """It makes no difference whether a worker has taken them in."""
    runner = make_dropping_runner()
    runner.start("go", run_id="r1")
    for number, name in enumerate(("other", "receipt", "other", "third")):
        runner.signal("r1", name, {"number": number}, by="mail")
    if taken_in:
        runner.resume("r1")

    listed = runner.signals("r1")
    assert [1, 2, 3, 4] == [each.number for each in listed]
    assert {"number": 2} == listed[2].data
    assert "mail" == listed[2].by

    assert 2 == runner.drop_signals("r1", name="other", by="kim", reason="wrong name")
    assert ["receipt", "third"] == names_of(runner)
    assert 0 == runner.drop_signals("r1", name="other", by="kim")
    runner.signal("r1", "other", "later")
    assert ["receipt", "third", "other"] == names_of(runner)
    assert 3 == runner.drop_signals("r1", by="lee")
    assert [] == runner.signals("r1")

    lines = [each for each in runner.audit("r1") if each.verdict == "drop"]
    assert ["kim", "lee"] == [each.by for each in lines]
    assert "wrong name" == lines[0].reason
    assert ["other to number 3", "signals to number 5"] == [each.rule for each in lines]


def test_dropped_signal_ends_no_wait_and_another_one_does() -> None:
    runner = make_dropping_runner()
    waiting = expect(runner.start("go", run_id="r1"), Suspended)
    runner.signal("r1", "receipt", "wrong")
    runner.drop_signals("r1", name="receipt")
    runner.decide(waiting.waits[0].id, Approve())
    assert isinstance(runner.resume("r1"), Suspended)

    runner.signal("r1", "receipt", "right")

    ended = expect(runner.resume("r1"), Finished)
    results = [m for m in ended.continuation.root.messages if m["role"] == "tool"]
    assert ["paid", "right"] == [each["content"] for each in results]


def test_drop_that_takes_an_awaited_signal_in_leaves_a_marker() -> None:
    """Its own marker goes with the version. A sweep ends the wait nevertheless."""
    runner = make_dropping_runner()
    runner.decide(single_wait(runner.start("go", run_id="r1")).id, Approve())
    runner.resume("r1")
    runner.signal("r1", "receipt", "paper")
    runner.signal("r1", "other")

    assert 1 == runner.drop_signals("r1", name="other")

    [swept] = runner.sweep().resumed
    assert isinstance(swept, Finished)
    assert [] == asyncio.run(runner.store.keys("markers/"))


def test_full_run_accepts_signals_again_after_a_drop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This is what the error advises; no wait for the new name is open."""
    monkeypatch.setattr(run_signals, "MAX_KEPT_SIGNALS", 3)
    monkeypatch.setattr(run_signals, "MAX_KEPT_IN_ALL", 3)
    runner = make_dropping_runner()
    runner.start("go", run_id="r1")
    for name in ("a", "b", "c"):
        runner.signal("r1", name)
    with pytest.raises(InvalidInput, match=r"Drop those .* with drop_signals\(\)"):
        runner.signal("r1", "receipt")

    runner.drop_signals("r1", name="a")

    assert 4 == runner.signal("r1", "receipt")


def test_running_worker_drops_signals_that_come_with_the_request() -> None:
    """The run goes on, in the same process, with its later requests."""
    store = MemoryStore()
    dropped: list[int] = []

    @tool
    def work() -> str:
        """Work, while an operator drops signals."""
        other = Runner([], store=store)
        other.signal("r1", "a")
        other.signal("r1", "b")
        dropped.append(other.drop_signals("r1", name="a"))
        dropped.append(len(other.signals("r1")))
        return "worked"

    model = ScriptedModel([ToolCall("work", {}), "end"])
    runner = Runner(Agent("boss", tools=[work], model=model), store=store)

    outcome = expect(runner.start("go", run_id="r1"), Finished)

    assert [1, 1] == dropped
    assert ["b"] == [each.name for each in outcome.continuation.run_state.run.signals]


def test_signals_of_a_thread_are_dropped() -> None:
    model = ScriptedModel(lambda _request: "Yes.")
    runner = Runner(Agent("boss", model=model), store=MemoryStore())
    run_id = runner.thread(key="k").send("hello").run_id
    runner.signal(run_id, "other")

    assert 1 == runner.drop_signals(run_id)

    assert [] == runner.signals(run_id)
    assert isinstance(runner.thread(key="k").send("again"), Replied)


def test_rewind_brings_no_dropped_signal_back() -> None:
    runner = make_dropping_runner()
    assert isinstance(runner.start("go", run_id="r1"), Suspended)
    runner.signal("r1", "receipt")
    runner.resume("r1")
    version = runner.look("r1").version
    runner.drop_signals("r1")

    runner.rewind("r1", version)

    assert [] == runner.signals("r1")


@pytest.mark.parametrize(
    "wrong", [{"name": ""}, {"name": 5}, {"by": ""}, {"reason": 5}]
)
def test_invalid_argument_drops_nothing(wrong: dict[str, Any]) -> None:
    runner = make_dropping_runner()
    runner.start("go", run_id="r1")
    runner.signal("r1", "other")

    with pytest.raises(InvalidInput):
        runner.drop_signals("r1", **wrong)

    assert ["other"] == names_of(runner)


def test_ended_and_missing_runs_are_errors() -> None:
    runner = make_dropping_runner()
    runner.start("go", run_id="r1")
    runner.cancel("r1")
    with pytest.raises(InvalidInput, match="it is cancelled"):
        runner.drop_signals("r1")
    for act in (runner.signals, runner.drop_signals):
        with pytest.raises(RunNotFound):
            act("r2")


def _act(runner: Runner) -> None:
    try:
        assert isinstance(runner.start("go", run_id="r1"), Suspended)
    except RunBusy:
        return
    if runner.audit("r1"):
        return
    runner.signal("r1", "a", id="1")
    runner.signal("r1", "b", id="2")
    runner.drop_signals("r1", name="a")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_crash_at_every_operation_drops_all_or_nothing(
    moment: Literal["before", "after"],
) -> None:
    """A recorded request counts, and signals of another name stay."""
    clock = ManualClock()
    undisturbed = FaultyStore(MemoryStore(clock.now))
    _act(Runner(make_agent(), store=undisturbed, clock=clock))
    count = len(undisturbed.operations)
    for number in sample(range(1, count + 1), 8, int(moment == "after")):
        clock = ManualClock()
        inner = MemoryStore(clock.now)
        dying = FaultyStore(inner, at(number, crashed(moment)))
        where = f"{moment} {number}"
        try:
            _act(Runner(make_agent(), store=dying, clock=clock))
        except Crash:
            where = f"{moment} {number}: {dying.operations[-1]}"
        clock.seconds += 120
        runner = Runner(make_agent(), store=inner, clock=clock)
        runner.start("go", run_id="r1")
        asked = [each for each in runner.audit("r1") if each.verdict == "drop"]
        sent = [each.reason for each in runner.audit("r1") if each.verdict == "signal"]
        expected = [name for name in sent if name != "a" or not asked]
        for _ in range(3):
            assert expected == names_of(runner), where
            clock.seconds += 3600
            assert {} == runner.sweep().errors
        row = runner.look("r1").run_state.run
        assert expected == [each.name for each in row.signals], where
        found = asyncio.run(inner.keys("markers/"))
        # The marker of a request that was never stored may be left.
        found = [key for key in found if asked or "-o-" not in key]
        assert [] == [key for key in found if "/e-" not in key], where


# Doors -----------------------------------------------------------------------------


async def test_http_lists_and_drops_signals() -> None:
    """The data needs the right `read`, and a drop the right `cancel`."""
    rights = {"view"}

    def can(_person: Identity, act: str, _run: str | None) -> bool:
        return act in rights

    runner = AsyncRunner(make_agent(), store="memory:")
    api = HttpApi(runner, verify=verify_bearer, can=can)
    headers = {"content-type": "application/json", "authorization": "Bearer kim"}

    async def ask(method: str, path: str, **fields: Any) -> tuple[int, Any]:
        body = json.dumps(fields).encode() if method == "POST" else b""
        request = Request(method=method, path=path, headers=headers, body=body)
        response = await api.handle(request)
        return response.status, json.loads(response.body)

    await runner.start("go", run_id="r1")
    await runner.signal("r1", "other", "private", by="mail")
    await runner.signal("r1", "third")
    status, listed = await ask("GET", "/runs/r1/signals")
    assert 200 == status
    assert ["other", "third"] == [each["name"] for each in listed["signals"]]
    assert "private" not in str(listed)
    rights.add("read")
    _, listed = await ask("GET", "/runs/r1/signals")
    assert "private" == listed["signals"][0]["data"]

    drop = "/runs/r1/signals/drop"
    assert 403 == (await ask("POST", drop, name="other"))[0]
    rights.add("cancel")
    assert 400 == (await ask("POST", drop, by="lee"))[0]
    dropped = await ask("POST", drop, name="other", reason="wrong")
    assert (200, {"run_id": "r1", "dropped": 1}) == dropped
    assert ["third"] == [each.name for each in await runner.signals("r1")]
    [line] = [each for each in await runner.audit("r1") if each.verdict == "drop"]
    assert ("kim", "http", "wrong") == (line.by, line.door, line.reason)


def test_console_shows_the_names_and_drops_them() -> None:
    """Without the right to cancel there is no button."""
    runner = AsyncRunner(make_agent(), store="memory:")

    def can(_person: Identity, act: str, _run: str | None) -> bool:
        return act == "view"

    async def prepare() -> None:
        await runner.start("go", run_id="r1")
        for name in ("o<ther", "o<ther", "third"):
            await runner.signal("r1", name, "private")

    asyncio.run(prepare())
    client = ConsoleClient(runner)
    page = get(client, "/runs/r1/actions")
    assert "o&lt;ther</b>: 2 signals" in page.text
    assert "private" not in page.text
    assert '<button class="btn" type="submit">Drop' in page.text
    limited = get(ConsoleClient(runner, {"can": can}), "/runs/r1/actions").text
    assert "2 signals" in limited
    assert ">Drop<" not in limited

    form = {**form_of(page), "name": "o<ther"}
    assert 303 == post(client, "/runs/r1/signals", form).status_code

    assert ["third"] == [each.name for each in asyncio.run(runner.signals("r1"))]
    assert not re.search("o&lt;ther", get(client, "/runs/r1/actions").text)
