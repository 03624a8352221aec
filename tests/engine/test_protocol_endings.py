"""What has ended is left alone: no line of it is written, or made, once more."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from continuations import (
    ApprovalPolicy,
    Approve,
    AsyncRunner,
    Cancelled,
    Deny,
    Failed,
    Finished,
    InvalidInput,
    Runner,
)
from continuations.ledger.arrivals import read_cancellation, read_decision
from continuations.ledger.objects import Objects
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, at, crashed
from tests.engine.offices import Clock, boss
from tests.engine.payers import PAY, office, payer, waiting
from tests.ledger.visits import VisitedStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations_storage.faults import Moment


def stopped(store: MemoryStore) -> Runner:
    """Return a runner whose run `r1` was cancelled while it waited."""
    runner = office(store=store)
    waiting(runner)
    assert "cancelled" == runner.cancel("r1", reason="Enough.").status
    return runner


def finished(store: MemoryStore) -> Runner:
    """Return a runner whose run `r1` has come to its end."""
    runner = office(store=store)
    runner.decide(waiting(runner).id, Approve())
    assert isinstance(runner.resume("r1"), Finished)
    return runner


@pytest.mark.parametrize("made", [stopped, finished])
def test_cancelling_what_has_ended_writes_nothing(
    made: Callable[[MemoryStore], Runner],
) -> None:
    """R-F6: no wish to end it, and no marker that somebody would have to follow."""
    store = MemoryStore()
    status = made(store).look("r1").status
    watched = FaultyStore(store)

    again = Runner([], store=watched).cancel("r1", reason="Too late.", by="lou")

    assert status == again.status
    assert {"keys", "read"} >= {each.verb for each in watched.operations}


@pytest.mark.parametrize("made", [stopped, finished])
def test_a_message_to_what_has_ended_is_refused_and_not_kept(
    made: Callable[[MemoryStore], Runner],
) -> None:
    """Section 5 "Inbox": nobody will read it, and its sender is told so."""
    store = MemoryStore()
    made(store)
    watched = FaultyStore(store)

    with pytest.raises(InvalidInput, match="will not be read"):
        Runner([], store=watched).send("r1", "Are you there?")

    assert {"keys", "read"} == {each.verb for each in watched.operations}


def test_a_run_that_ends_while_it_is_cancelled_has_one_end() -> None:
    """R-F6: whenever the other process comes, what it finished stays finished."""
    ends = set[str]()
    for number in range(1, 30):
        # Given an approved run that another process resumes right before a request
        store, clock = MemoryStore(), Clock()
        runner = office(store=store, clock=clock)
        runner.decide(waiting(runner).id, Approve())
        other = AsyncRunner(boss(PAY, payer()), store=store, clock=clock)
        visited = VisitedStore(store, number, partial(other.resume, "r1"))

        # When it is cancelled
        told = Runner([], store=visited, clock=clock).cancel("r1", reason="Enough.")

        # Then all are told of the same end, which is the last version
        if visited.requests < number:
            assert {"cancelled", "finished"} == ends
            return
        ends.add(told.status)
        stands = runner.look("r1")
        assert (stands.status, stands.version) == (told.status, told.version), number
        statuses = [
            runner.look("r1", version=each).status
            for each in range(1, stands.version + 1)
        ]
        assert {"running", "suspended"} >= set(statuses[:-1]), number
        # And nothing of it is left to be looked at, once somebody swept
        clock.seconds += 120
        runner.sweep()
        assert [] == asyncio.run(store.keys("markers/"))
        assert [] == asyncio.run(store.keys("waits/"))
    pytest.fail("it was never left alone")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_wish_to_cancel_that_was_recorded_is_followed_by_a_sweep(
    moment: Moment,
) -> None:
    """R-F6, R-A3: whoever wished it may die right after; before that nothing is."""
    followed = 0
    for number in range(1, 30):
        # Given a run at a wait, and somebody who dies while cancelling it
        store, clock = MemoryStore(), Clock()
        runner = office(store=store, clock=clock)
        wait = waiting(runner)
        dying = FaultyStore(store, at(number, crashed(moment)))
        with suppress(Crash):
            Runner([], store=dying, clock=clock).cancel("r1", reason="Enough.")
        if not dying.dead:
            assert followed > 3
            return
        wished = asyncio.run(read_cancellation(Objects(store), "r1")) is not None

        # When only sweeps come
        clock.seconds += 120
        assert {} == runner.sweep().failed

        # Then it is cancelled if that was recorded, and can go on as before if not
        if wished:
            followed += 1
            assert "cancelled" == runner.look("r1").status, number
            with pytest.raises(Cancelled):
                runner.decide(wait.id, Approve())
        else:
            runner.decide(wait.id, Approve())
            assert isinstance(runner.resume("r1"), Finished), number
            # Its marker stood for a wish that might still have come.
            runner.sweep()
        assert [] == asyncio.run(store.keys("markers/")), number
        assert [] == asyncio.run(store.keys("waits/")), number
    pytest.fail("it was never left alone")


def test_what_is_closed_with_its_run_says_why() -> None:
    """R-F6: the record of the wait, by itself, without the run."""
    store = MemoryStore()
    runner = office(store=store)
    wait = waiting(runner)
    runner.cancel("r1", reason="Enough.", by="kim")

    made = asyncio.run(read_decision(Objects(store), wait.id))

    assert made is not None
    assert ("cancel", "Enough.", wait.digest) == (made.kind, made.reason, made.digest)


@pytest.mark.parametrize(
    ("reason", "told"),
    [(None, "pay was denied"), ("", "pay was denied"), ("No.", "pay was denied: No.")],
)
def test_a_run_that_a_denial_ends_says_why_if_somebody_did(
    reason: str | None, told: str
) -> None:
    """X-02: and makes up nothing where nobody gave a reason."""
    runner = office(ApprovalPolicy(on_denied="stop"))
    runner.decide(waiting(runner).id, Deny(reason=reason))

    outcome = runner.resume("r1")

    assert isinstance(outcome, Failed)
    assert told == outcome.error.message
