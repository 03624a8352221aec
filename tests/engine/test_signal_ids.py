"""A signal with an id is found by its key, and a crash neither loses nor doubles it."""

from __future__ import annotations

import asyncio
from threading import Thread

import pytest

from continuations import Agent, Finished, Runner, tool, wait_for
from continuations.errors import Corrupt, InvalidInput
from continuations.ledger.arrivals.arrival_logs import MESSAGES, SIGNALS
from continuations.ledger.arrivals.run_signals import NAMES_FROM
from continuations.ledger.objects import Objects
from continuations.ledger.repair.integrity import Finding, check_integrity
from continuations.models.scripted import ScriptedModel, ToolCall
from continuations.wire.arrivals import SIGNAL_ID, FirstNumber
from continuations_storage import MemoryStore, Store
from tests.clocks import ManualClock
from tests.crash_points import every_crash
from tests.engine.test_thread_cost import CountingStore
from tests.hostile.editable_store import EditableStore


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
