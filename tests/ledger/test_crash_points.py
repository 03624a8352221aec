"""Crash before and after every storage call, repeat the operation, check the promises.

After a crash, an operation is done or not done. A thing that is done has a marker, so
that a sweep finds it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import product

import pytest

from continuations.core.rows.decisions import Answer, Approve, Decision, Deny, Verdict
from continuations.errors import AlreadyDecided
from continuations.ledger import layout, markers
from continuations.ledger.arrivals.arrivals import read_arrivals, read_cancel_request
from continuations.ledger.arrivals.inbox import post, record_cancel_request
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.decisions.decisions import decide, find_open_wait
from continuations.ledger.index import waits
from continuations.ledger.objects import Objects
from continuations.ledger.store_clock import StoreClock
from continuations.ledger.versions import Versions
from continuations.wire.arrivals import InboxMessage
from continuations_storage import MemoryStore
from continuations_storage.faults import Crash, FaultyStore, Moment, at, crashed
from tests.ledger.fake_clock import MOMENT, FakeClock, make_ulid, seconds_after_start
from tests.ledger.runs import (
    RUN,
    all_keys,
    make_cancel_request,
    make_inbox_message,
    make_wait,
    make_wait_id,
    store_suspended_run,
    with_message,
)
from tests.outcomes import present

StoreAction = Callable[[Objects], Awaitable[object]]
StoreFactory = Callable[[], Awaitable[MemoryStore]]

MAX_REQUESTS = 12
MOMENTS: tuple[Moment, Moment] = ("before", "after")


async def crash_at(
    store: MemoryStore, action: StoreAction, number: int, moment: Moment
) -> bool:
    """Run an action that crashes at a storage call; return whether it did."""
    try:
        await action(Objects(FaultyStore(store, at(number, crashed(moment)))))
    except Crash:
        return True
    return False


async def stores_after_crashes(
    made: StoreFactory, action: StoreAction
) -> list[tuple[tuple[int, Moment], MemoryStore]]:
    """Yield the store after each possible crash of an action."""
    left: list[tuple[tuple[int, Moment], MemoryStore]] = []
    for number, moment in product(range(1, MAX_REQUESTS), MOMENTS):
        store = await made()
        if await crash_at(store, action, number, moment):
            left.append(((number, moment), store))
    assert left, "the deed asks the store for nothing"
    assert max(number for (number, _), _ in left) < MAX_REQUESTS - 1
    return left


async def drop_done_markers(store: MemoryStore) -> list[str]:
    """Delete the markers that are not needed, as a sweep does; return the others."""
    objects = Objects(store)
    newest = await Versions(objects, RUN).load_newest()
    standing: list[str] = []
    clock = StoreClock(FakeClock(seconds_after_start(10**6)))
    for marker in (await markers.read_due(objects, clock)).due:
        if markers.is_needed(marker, newest.number, newest.state):
            standing.append(marker.key)
        else:
            await objects.delete(marker.key)
    return standing


# Deciding -----------------------------------------------------------------------


def decide_action(verdict: Verdict, number: int, wait: str) -> StoreAction:
    return lambda objects: decide(
        objects, wait, verdict, now=MOMENT, decision_id=make_ulid(number, MOMENT)
    )


async def store_with_wait(kind: str) -> MemoryStore:
    """Return a store with a run that has one open wait."""
    store = MemoryStore()
    wait = make_wait(1, "unknown") if kind == "unknown" else make_wait(1)
    await store_suspended_run(Objects(store), wait, announce_waits=kind != "hidden")
    return store


async def check_wait(store: MemoryStore, wait: str) -> Decision | None:
    """Check what must hold at any time; return the decision, or None."""
    objects = Objects(store)
    decision = await read_decision(objects, wait)
    standing = await drop_done_markers(store)
    if decision is None:
        # Open: a decider finds the wait, by its object or by its version.
        found = present(await find_open_wait(objects, wait))
        assert wait == found.id
        return None
    # Decided but not read: a sweep finds the run by the marker of this decision.
    assert decision.marker in standing
    return decision


DECISION_CASES: list[tuple[str, Verdict, Verdict]] = [
    ("shown", Approve(by="kim"), Deny(by="jo")),
    ("shown", Approve(by="kim", arguments={"cents": 1}), Approve(by="kim")),
    ("shown", Deny(by="kim"), Approve(by="jo")),
    ("hidden", Approve(by="kim"), Deny(by="jo")),
    ("unknown", Answer(value=None), Answer(value=0)),
]


def wait_id_of(kind: str) -> str:
    return make_wait_id(1, "unknown") if kind == "unknown" else make_wait_id(1)


@pytest.mark.parametrize(("kind", "verdict", "other"), DECISION_CASES)
async def test_decide_repeated_after_any_crash_records_one_decision(
    kind: str, verdict: Verdict, other: Verdict
) -> None:
    """The decision is recorded or the wait is open; a repeat records it."""
    wait = wait_id_of(kind)

    deed = decide_action(verdict, 1, wait)
    for point, store in await stores_after_crashes(lambda: store_with_wait(kind), deed):
        # Given the store after the crash
        stood = await check_wait(store, wait)

        # When the client repeats the request
        again = await decide(
            Objects(store),
            wait,
            verdict,
            now=seconds_after_start(1),
            decision_id=make_ulid(2),
        )

        # Then its decision is recorded with a marker, and no wait is listed
        assert again == await check_wait(store, wait), point
        assert stood in (None, again), point
        assert [] == await all_keys(Objects(store), layout.WAITS_PREFIX), point

        # And another decider gets that decision
        with pytest.raises(AlreadyDecided) as caught:
            await decide_action(other, 3, wait)(Objects(store))
        assert again == caught.value.decision


@pytest.mark.parametrize(("kind", "verdict", "other"), DECISION_CASES)
async def test_other_decision_after_any_crash_loses_to_a_recorded_one(
    kind: str, verdict: Verdict, other: Verdict
) -> None:
    """A second decision succeeds only if the first was not recorded."""
    wait = wait_id_of(kind)

    deed = decide_action(verdict, 1, wait)
    for point, store in await stores_after_crashes(lambda: store_with_wait(kind), deed):
        stood = await check_wait(store, wait)
        try:
            reading: object = await decide_action(other, 2, wait)(Objects(store))
        except AlreadyDecided as error:
            reading = error.decision
        recorded = await check_wait(store, wait)

        assert recorded is not None, point
        assert recorded == reading, point
        assert stood in (None, recorded), point
        assert make_ulid(2 if stood is None else 1) == recorded.id, point


@pytest.mark.parametrize(("kind", "verdict", "_"), DECISION_CASES)
async def test_decide_survives_two_crashes(
    kind: str, verdict: Verdict, _: Verdict
) -> None:
    wait = wait_id_of(kind)

    for (first, one), (second, two) in product(
        product(range(1, 8), MOMENTS), product(range(1, 8), MOMENTS)
    ):
        store = await store_with_wait(kind)
        died = await crash_at(store, decide_action(verdict, 1, wait), first, one)
        died &= await crash_at(store, decide_action(verdict, 2, wait), second, two)
        if not died:
            continue
        stood = await check_wait(store, wait)
        again = await decide_action(verdict, 3, wait)(Objects(store))

        assert again == await check_wait(store, wait)
        assert stood in (None, again)
        assert [] == await all_keys(Objects(store), layout.WAITS_PREFIX)


@pytest.mark.parametrize("kind", ["shown", "hidden"])
async def test_crash_of_a_losing_decider_keeps_the_first_decision(kind: str) -> None:
    """This holds also while the loser deletes its own marker."""
    wait = make_wait_id(1)

    async def decided() -> MemoryStore:
        store = await store_with_wait(kind)
        await decide_action(Deny(by="jo"), 9, wait)(Objects(store))
        # The winner crashed before it removed the wait's object.
        await waits.create(Objects(store), [make_wait(1)])
        return store

    async def loses(objects: Objects) -> None:
        with pytest.raises(AlreadyDecided):
            await decide_action(Approve(by="kim"), 1, wait)(objects)

    for point, store in await stores_after_crashes(decided, loses):
        recorded = await check_wait(store, wait)
        assert recorded is not None, point
        assert make_ulid(9) == recorded.id, point
        await loses(Objects(store))
        assert recorded == await check_wait(store, wait), point
        assert [] == await all_keys(Objects(store), layout.WAITS_PREFIX), point


async def test_recreate_missing_waits_survives_any_crash() -> None:
    """The wait is listed, or is found by its id."""
    wait = make_wait(1)

    async def recreate(objects: Objects) -> None:
        await waits.recreate_missing(objects, [wait])

    for _, store in await stores_after_crashes(
        lambda: store_with_wait("hidden"), recreate
    ):
        assert await check_wait(store, wait.id) is None
        await recreate(Objects(store))
        assert [layout.wait_key(wait.id)] == await all_keys(
            Objects(store), layout.WAITS_PREFIX
        )


# Posting ------------------------------------------------------------------------


async def check_inbox(store: MemoryStore) -> tuple[InboxMessage, ...]:
    """Check what must hold of an inbox at any time; return its messages."""
    newest = await Versions(Objects(store), RUN).load_newest()
    messages = (
        await read_arrivals(Objects(store), newest.state, all_messages=True)
    ).inbox_messages
    standing = await drop_done_markers(store)

    assert list(range(1, len(messages) + 1)) == [each.number for each in messages]
    for each in messages:
        assert each.marker in standing
    return messages


@pytest.mark.parametrize("there", [0, 1, 2])
async def test_post_repeated_after_any_crash_keeps_numbers_dense(there: int) -> None:
    """A message is posted with its marker, or is not posted."""

    async def made() -> MemoryStore:
        store = await store_with_wait("shown")
        for number in range(there):
            await post(Objects(store), RUN, make_inbox_message(10 + number))
        return store

    for point, store in await stores_after_crashes(
        made, lambda objects: post(objects, RUN, make_inbox_message(1))
    ):
        before = await check_inbox(store)
        assert len(before) in (there, there + 1), point

        again = await post(Objects(store), RUN, make_inbox_message(2))

        assert (*before, again) == await check_inbox(store), point


async def test_post_that_lost_its_number_survives_any_crash() -> None:
    """If another message took the number, the next one is tried."""
    for number, moment in product(range(1, MAX_REQUESTS), MOMENTS):
        store = await store_with_wait("shown")

        async def rival(objects: MemoryStore = store) -> None:
            await post(Objects(objects), RUN, make_inbox_message(9))

        faulty = FaultyStore(store, at(number, crashed(moment)))
        objects = Objects(_RivalStore(faulty, rival))
        try:
            await post(objects, RUN, make_inbox_message(1))
        except Crash:
            pass
        else:
            assert 2 == len(await check_inbox(store))
            assert 2 == len(await drop_done_markers(store))
        texts = [each.message.content for each in await check_inbox(store)]
        assert texts in ([], ["letter 9"], ["letter 9", "letter 1"])


class _RivalStore:
    """A store in which a rival acts once, right after the first listing."""

    def __init__(
        self, inner: FaultyStore, rival: Callable[[], Awaitable[None]]
    ) -> None:
        self.inner = inner
        self.rival: Callable[[], Awaitable[None]] | None = rival
        self.create = inner.create
        self.read = inner.read
        self.delete = inner.delete
        self.probe = inner.probe

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        """List, then let the rival act."""
        found = await self.inner.keys(prefix, after, limit)
        if self.rival is not None:
            rival, self.rival = self.rival, None
            await rival()
        return found


# Cancelling -----------------------------------------------------------------------


@pytest.mark.parametrize("there", [False, True])
async def test_cancel_repeated_after_any_crash_keeps_the_first_request(
    *, there: bool
) -> None:
    """The first recorded request is kept and has its marker."""

    async def made() -> MemoryStore:
        store = await store_with_wait("shown")
        if there:
            await record_cancel_request(Objects(store), RUN, make_cancel_request(9))
        return store

    for point, store in await stores_after_crashes(
        made,
        lambda objects: record_cancel_request(objects, RUN, make_cancel_request(1)),
    ):
        stood = await read_cancel_request(Objects(store), RUN)
        if stood is not None:
            assert stood.marker in await drop_done_markers(store), point

        again = await record_cancel_request(Objects(store), RUN, make_cancel_request(2))

        assert again == await read_cancel_request(Objects(store), RUN), point
        assert again.marker in await drop_done_markers(store), point
        assert stood in (None, again), point
        assert not there or make_ulid(9) == again.id, point


async def test_repeated_cancel_request_survives_any_crash() -> None:
    """A repeat with the same id does not delete its own marker."""

    async def made() -> MemoryStore:
        store = await store_with_wait("shown")
        await record_cancel_request(Objects(store), RUN, make_cancel_request(1))
        return store

    for point, store in await stores_after_crashes(
        made,
        lambda objects: record_cancel_request(objects, RUN, make_cancel_request(1)),
    ):
        stood = await read_cancel_request(Objects(store), RUN)
        assert stood is not None, point
        assert stood.marker in await drop_done_markers(store), point


# Appending ------------------------------------------------------------------------


async def test_append_is_atomic_at_any_crash() -> None:
    """After a crash, the run has the old state or the new one."""

    async def made() -> MemoryStore:
        store = MemoryStore()
        versions = Versions(Objects(store), RUN)
        loaded = await store_suspended_run(Objects(store))
        for number in range(2, 7):
            state = with_message(loaded.state, f"message {number}")
            loaded = await versions.append(loaded, state, at=MOMENT)
        return store

    async def appends(objects: Objects) -> None:
        versions = Versions(objects, RUN)
        loaded = await versions.load_newest()
        state = with_message(loaded.state, "the next")
        state = replace(state, run=replace(state.run, status="running"))
        await versions.append(loaded, state, at=MOMENT)

    numbers: set[int] = set()
    for point, store in await stores_after_crashes(made, appends):
        newest = await Versions(Objects(store), RUN).load_newest()
        numbers.add(newest.number)
        new = newest.number == 7
        assert new == (newest.state.run.status == "running"), point
        last = newest.state.logs["f1"].messages[-1].content
        assert ("the next" if new else "message 6") == last, point

        await appends(Objects(store))
        again = await Versions(Objects(store), RUN).load_newest()
        assert newest.number + 1 == again.number, point
    assert {6, 7} == numbers
