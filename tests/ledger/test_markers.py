"""Markers: created before the guarded object, listed by time, deleted when done."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from continuations.core.rows.run import ENDED_STATUSES, RunStatus
from continuations.core.rows.state import RunState
from continuations.ledger import layout, markers
from continuations.ledger.index.misdated_markers import redate_misdated
from continuations.ledger.layout import Marker
from continuations.ledger.objects import Objects
from continuations.ledger.store_clock import StoreClock
from continuations_storage import MemoryStore
from continuations_storage.contract import PAGE_SIZE, Page
from continuations_storage.faults import FaultyStore
from tests.ledger.fake_clock import MOMENT, FakeClock, make_ulid, seconds_after_start
from tests.ledger.runs import (
    RUN,
    all_keys,
    make_objects,
    make_state,
    make_wait,
    make_wait_id,
)

NONCE = make_ulid(7)


async def due_markers(objects: Objects, now: datetime) -> list[Marker]:
    """Return the markers that are due at a time."""
    clock = StoreClock(FakeClock(now))
    return [*(await markers.read_due(objects, clock)).due]


# Making and listing ---------------------------------------------------------


@pytest.mark.parametrize(
    ("marker", "kind", "target"),
    [
        (markers.guard(RUN, 12, MOMENT, NONCE), "g", "12"),
        (markers.for_release(RUN, 4, NONCE), "r", "4"),
        (markers.for_decision(make_wait_id(3), NONCE), "d", make_ulid(3)),
        (markers.deadline_marker(make_wait(3, deadline=MOMENT)), "e", make_ulid(3)),
        (markers.for_arrival(RUN, "m", 4, NONCE), "m", "4"),
        (markers.for_cancel_request(RUN, NONCE), "c", "0"),
    ],
)
def test_marker_key_has_time_kind_target_and_run(
    marker: Marker, kind: str, target: str
) -> None:
    assert (kind, target, RUN) == (marker.reason, marker.target, marker.run_id)
    timed = kind in "ge"
    assert (int(MOMENT.timestamp() * 1000) if timed else 0) == marker.due_ms
    assert marker == layout.parse_marker(marker.key)


def test_two_markers_of_one_kind_and_time_differ() -> None:
    one = markers.for_decision(make_wait_id(), make_ulid(1))
    two = markers.for_decision(make_wait_id(), make_ulid(2))

    assert one.key != two.key


def test_deadline_has_one_marker_in_every_process() -> None:
    """A worker, a sweep and a repair create the same key."""
    wait = make_wait(3, deadline=MOMENT)

    one, two = markers.deadline_marker(wait), markers.deadline_marker(replace(wait))

    assert one is not None
    assert one == two
    assert markers.deadline_marker(make_wait(3)) is None


async def test_due_markers_come_in_the_order_of_their_time() -> None:
    # Given markers that were made in any order
    objects = make_objects()
    for seconds in (30, -5, 0, 31, -3600, 29.999, 30.001):
        await markers.create(
            objects, markers.guard(RUN, 2, seconds_after_start(seconds), NONCE)
        )

    # When a sweep looks half a minute from now
    found = await due_markers(objects, seconds_after_start(30))

    # Then it sees the markers that are due, the oldest first
    begin = int(MOMENT.timestamp() * 1000)
    assert [-3_600_000, -5000, 0, 29_999, 30_000] == [
        marker.due_ms - begin for marker in found
    ]


async def test_marker_is_due_at_its_millisecond() -> None:
    objects = make_objects()
    marker = markers.guard(RUN, 2, MOMENT, NONCE)
    await markers.create(objects, marker)

    assert [] == await due_markers(objects, seconds_after_start(-0.001))
    assert [marker] == await due_markers(objects, MOMENT)


async def test_every_due_marker_is_found_among_thousands() -> None:
    """This holds also if a page is full, and while markers are deleted."""
    objects = make_objects()
    count = 2 * PAGE_SIZE + 7
    for number in range(count):
        marker = markers.guard(
            f"run-{number}", 1, seconds_after_start(number - count), NONCE
        )
        await markers.create(objects, marker)
    await markers.create(
        objects, markers.guard("later", 1, seconds_after_start(9), NONCE)
    )

    found = await markers.read_due(objects, StoreClock(FakeClock()))
    for marker in found.due:
        await objects.delete(marker.key)

    assert (count, 9) == (len(found.due), found.seconds_to_next)
    assert 1 == len(await all_keys(objects))


class StoreThatTellsTheEnd(MemoryStore):
    """A store whose pages say whether more keys follow, as those of S3 do."""

    async def keys(self, prefix: str, after: str = "", limit: int = 1000) -> list[str]:
        found = await super().keys(prefix, after, limit + 1)
        page = Page(found[:limit])
        page.is_last = len(found) <= limit
        return page


@pytest.mark.parametrize("seconds", [-1, 10 * 86_400], ids=["due", "far away"])
async def test_full_page_that_is_the_last_one_costs_one_listing(seconds: int) -> None:
    """Markers that are due, and deadlines after more than a day."""
    store = FaultyStore(StoreThatTellsTheEnd())
    objects, clock = make_objects(store), StoreClock(FakeClock())
    due = seconds_after_start(seconds)
    for number in range(PAGE_SIZE):
        marker = markers.deadline_marker(make_wait(number, deadline=due))
        assert marker is not None
        await markers.create(objects, marker)
    store.operations.clear()

    found = (await markers.read_due(objects, clock)).due
    assert len(found) == (PAGE_SIZE if seconds < 0 else 0)
    assert 0 == await redate_misdated(objects, clock, NONCE)

    assert ["keys", "keys"] == [each.verb for each in store.operations]


async def test_only_due_markers_are_listed() -> None:
    """A million timers of next year cost a sweep one page."""
    objects = make_objects()
    await markers.create(objects, markers.guard(RUN, 1, MOMENT, NONCE))
    for number in range(PAGE_SIZE):
        marker = markers.guard(
            RUN, number + 2, seconds_after_start(1e6 + number), NONCE
        )
        await markers.create(objects, marker)

    assert 1 == len(await due_markers(objects, MOMENT))


@pytest.mark.parametrize(
    "name", ["x", ".DS_Store", "0000000000001-g-abc-n@jane", "1-g-1-n@jane"]
)
async def test_foreign_key_among_markers_is_ignored(name: str) -> None:
    objects = make_objects()
    await objects.create(f"markers/{name}", b"")
    marker = markers.guard(RUN, 1, MOMENT, NONCE)
    await markers.create(objects, marker)

    assert [marker] == await due_markers(objects, MOMENT)


async def test_make_returns_the_store_time() -> None:
    objects = make_objects(MemoryStore(lambda: seconds_after_start(3)))
    marker = markers.guard(RUN, 1, MOMENT, NONCE)

    assert seconds_after_start(3) == await markers.create(objects, marker)


async def test_create_is_idempotent() -> None:
    """A repeat with the same id and time has the same key."""
    objects = make_objects()
    marker = markers.for_decision(make_wait_id(), NONCE)
    await markers.create(objects, marker)
    await markers.create(objects, marker)

    assert [marker.key] == await all_keys(objects)


async def test_postponed_marker_stays_if_the_corrected_one_is_the_same() -> None:
    """The clock of the machine is set while the marker is created."""
    clock = FakeClock()

    class StoreThatSetsTheClock(MemoryStore):
        async def create(self, key: str, body: bytes) -> datetime | None:
            clock.wall = seconds_after_start(-3600)
            return await super().create(key, body)

    objects = make_objects(StoreThatSetsTheClock(lambda: MOMENT))
    marker = markers.guard(RUN, 2, MOMENT, NONCE)

    later = await markers.postpone(objects, StoreClock(clock), marker)

    assert [later.key] == await all_keys(objects)


# Whether one stands ---------------------------------------------------------


def run_at_wait(status: RunStatus = "suspended", *, inbox: int = 0) -> RunState:
    """Return a run with open wait 1 that has read some messages."""
    state = make_state(make_wait(1), status=status)
    return replace(state, run=replace(state.run, last_inbox_number=inbox))


def marker_of(kind: str, target: str) -> Marker:
    return Marker(1, kind, target, "n", RUN)


@pytest.mark.parametrize(
    ("marker", "number", "run_state", "needed"),
    [
        # A guard is needed until its number exists, and while the run is claimed.
        (marker_of("g", "5"), 4, run_at_wait(), True),
        (marker_of("g", "5"), 5, run_at_wait(), False),
        (marker_of("g", "5"), 6, run_at_wait(), False),
        (marker_of("g", "5"), 4, run_at_wait("running"), True),
        (marker_of("g", "5"), 5, run_at_wait("running"), True),
        (marker_of("g", "5"), 9, run_at_wait("running"), True),
        # The markers of a wait are needed while the wait is open.
        (marker_of("d", make_ulid(1)), 2, run_at_wait(), True),
        (marker_of("d", make_ulid(2)), 2, run_at_wait(), False),
        (marker_of("e", make_ulid(1)), 2, run_at_wait(), True),
        (marker_of("e", make_ulid(2)), 2, run_at_wait(), False),
        (marker_of("d", make_ulid(1)), 2, run_at_wait("running"), True),
        # A claim that took the arrival in does not need the marker for the arrival. It
        # may need it as its guard, so nothing is deleted while a run is claimed.
        (marker_of("d", make_ulid(2)), 2, run_at_wait("running"), False),
        (marker_of("m", "2"), 2, run_at_wait("running", inbox=2), False),
        (marker_of("m", "3"), 2, run_at_wait("running", inbox=2), True),
        # The marker of a message is needed until the message is read.
        (marker_of("m", "1"), 2, run_at_wait(), True),
        (marker_of("m", "3"), 2, run_at_wait(inbox=2), True),
        (marker_of("m", "2"), 2, run_at_wait(inbox=2), False),
        (marker_of("m", "1"), 2, run_at_wait(inbox=2), False),
        # The marker of a cancel request is needed until the run has ended.
        (marker_of("c", "0"), 2, run_at_wait(), True),
        (marker_of("r", "2"), 1, run_at_wait(), True),
        (marker_of("r", "2"), 2, run_at_wait(), True),
        (marker_of("r", "2"), 3, run_at_wait(), False),
    ],
)
def test_is_needed_for_each_kind_of_marker(
    marker: Marker, number: int, run_state: RunState, *, needed: bool
) -> None:
    assert needed == markers.is_needed(marker, number, run_state)


@pytest.mark.parametrize("status", sorted(ENDED_STATUSES))
@pytest.mark.parametrize("kind", "demcgr")
def test_no_marker_is_needed_after_the_run_has_ended(
    status: RunStatus, kind: str
) -> None:
    marker = marker_of(kind, "9" if kind in "gm" else make_ulid(1))

    assert not markers.is_needed(marker, 2, run_at_wait(status))


@pytest.mark.parametrize("kind", "demcgr")
def test_every_marker_is_needed_while_the_run_has_no_version(kind: str) -> None:
    """The process that starts the run will write version 1, or has crashed."""
    assert markers.is_needed(marker_of(kind, "1"), 0, None)
