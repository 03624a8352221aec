"""Markers: made before the thing they guard, listed by time, dropped when done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from continuations.core.run import ENDED, Status
from continuations.ledger import layout, markers
from continuations.ledger.layout import Marker
from continuations_storage import MemoryStore
from continuations_storage.contract import PAGE
from tests.ledger.machine import MOMENT, later, ulid_of
from tests.ledger.runs import RUN, a_table, a_wait, does, keys, objects, wait_id

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.table import Table
    from continuations.ledger.objects import Objects

NONCE = ulid_of(7)


async def due_at(place: Objects, now: datetime) -> list[Marker]:
    """Return the markers that are due at a time."""
    return [marker async for marker in markers.due(place, now)]


# Making and listing ---------------------------------------------------------


@pytest.mark.parametrize(
    ("marker", "letter", "what"),
    [
        (markers.guard(RUN, 12, MOMENT, NONCE), "g", "12"),
        (markers.of_decision(wait_id(3), MOMENT, NONCE), "d", ulid_of(3)),
        (markers.of_deadline(wait_id(3), MOMENT, NONCE), "e", ulid_of(3)),
        (markers.of_letter(RUN, 4, MOMENT, NONCE), "m", "4"),
        (markers.of_cancellation(RUN, MOMENT, NONCE), "c", "0"),
    ],
)
def test_a_marker_says_when_why_and_which_run(
    marker: Marker, letter: str, what: str
) -> None:
    assert (letter, what, RUN) == (marker.letter, marker.what, marker.run_id)
    assert int(MOMENT.timestamp() * 1000) == marker.due
    assert marker == layout.parse_marker(marker.key)


def test_two_markers_of_one_reason_and_moment_are_two() -> None:
    one = markers.of_decision(wait_id(), MOMENT, ulid_of(1))
    two = markers.of_decision(wait_id(), MOMENT, ulid_of(2))

    assert one.key != two.key


def test_due_markers_come_in_the_order_of_their_time() -> None:
    async def story() -> None:
        # Given markers that were made in any order
        place = objects()
        for seconds in (30, -5, 0, 31, -3600, 29.999, 30.001):
            await markers.make(place, markers.guard(RUN, 2, later(seconds), NONCE))

        # When a sweep looks half a minute from now
        found = await due_at(place, later(30))

        # Then it sees those that are due then, the oldest first
        begin = int(MOMENT.timestamp() * 1000)
        assert [-3_600_000, -5000, 0, 29_999, 30_000] == [
            marker.due - begin for marker in found
        ]

    does(story())


def test_a_marker_is_due_at_its_very_millisecond() -> None:
    async def story() -> None:
        place = objects()
        marker = markers.guard(RUN, 2, MOMENT, NONCE)
        await markers.make(place, marker)

        assert [] == await due_at(place, later(-0.001))
        assert [marker] == await due_at(place, MOMENT)

    does(story())


def test_every_due_marker_is_found_among_thousands() -> None:
    """R-E9: also when a page is full, and while they are being dropped."""

    async def story() -> None:
        place = objects()
        count = 2 * PAGE + 7
        for number in range(count):
            marker = markers.guard(f"run-{number}", 1, later(number - count), NONCE)
            await markers.make(place, marker)
        await markers.make(place, markers.guard("later", 1, later(9), NONCE))

        seen = 0
        async for marker in markers.due(place, MOMENT):
            seen += 1
            await place.delete(marker.key)

        assert count == seen
        assert 1 == len(await keys(place))

    does(story())


def test_only_the_due_ones_are_listed() -> None:
    """A million timers of next year cost a sweep one page."""

    async def story() -> None:
        place = objects()
        await markers.make(place, markers.guard(RUN, 1, MOMENT, NONCE))
        for number in range(PAGE):
            marker = markers.guard(RUN, number + 2, later(1e6 + number), NONCE)
            await markers.make(place, marker)

        assert 1 == len(await due_at(place, MOMENT))

    does(story())


@pytest.mark.parametrize(
    "name", ["x", ".DS_Store", "0000000000001-g-abc-n@jane", "1-g-1-n@jane"]
)
def test_a_foreign_key_among_the_markers_is_passed_over(name: str) -> None:
    async def story() -> None:
        place = objects()
        await place.create(f"markers/{name}", b"")
        marker = markers.guard(RUN, 1, MOMENT, NONCE)
        await markers.make(place, marker)

        assert [marker] == await due_at(place, MOMENT)

    does(story())


def test_making_tells_the_time_of_the_store() -> None:
    async def story() -> None:
        place = objects(MemoryStore(lambda: later(3)))
        marker = markers.guard(RUN, 1, MOMENT, NONCE)

        assert later(3) == await markers.make(place, marker)

    does(story())


def test_a_marker_that_is_there_is_made() -> None:
    """R-A2: a redelivery with its own id at its own time makes the same key."""

    async def story() -> None:
        place = objects()
        marker = markers.of_decision(wait_id(), MOMENT, NONCE)
        await markers.make(place, marker)
        await markers.make(place, marker)

        assert [marker.key] == await keys(place)

    does(story())


# Whether one stands ---------------------------------------------------------


def state(status: Status = "suspended", *, inbox: int = 0) -> Table:
    """Return a run that stands at wait 1 and has heard some messages."""
    table = a_table(a_wait(1), status=status)
    return replace(table, run=replace(table.run, inbox=inbox))


def of(letter: str, what: str) -> Marker:
    """Return a marker of a reason."""
    return Marker(1, letter, what, "n", RUN)


@pytest.mark.parametrize(
    ("marker", "number", "table", "stands"),
    [
        # A guard stands until its number is taken, and while the run is claimed.
        (of("g", "5"), 4, state(), True),
        (of("g", "5"), 5, state(), False),
        (of("g", "5"), 6, state(), False),
        (of("g", "5"), 4, state("running"), True),
        (of("g", "5"), 5, state("running"), True),
        (of("g", "5"), 9, state("running"), True),
        # Those of a wait stand while the wait is open.
        (of("d", ulid_of(1)), 2, state(), True),
        (of("d", ulid_of(2)), 2, state(), False),
        (of("e", ulid_of(1)), 2, state(), True),
        (of("e", ulid_of(2)), 2, state(), False),
        (of("d", ulid_of(1)), 2, state("running"), True),
        # Those of a message stand until it was heard.
        (of("m", "1"), 2, state(), True),
        (of("m", "3"), 2, state(inbox=2), True),
        (of("m", "2"), 2, state(inbox=2), False),
        (of("m", "1"), 2, state(inbox=2), False),
        # Of a cancellation and of "resume it": until the run has ended.
        (of("c", "0"), 2, state(), True),
        (of("r", "2"), 1, state(), True),
        (of("r", "2"), 2, state(), True),
        (of("r", "2"), 3, state(), False),
    ],
)
def test_what_a_marker_stands_for(
    marker: Marker, number: int, table: Table, *, stands: bool
) -> None:
    assert stands == markers.stands(marker, number, table)


@pytest.mark.parametrize("status", sorted(ENDED))
@pytest.mark.parametrize("letter", "demcgr")
def test_nothing_is_open_in_a_run_that_has_ended(status: Status, letter: str) -> None:
    marker = of(letter, "9" if letter in "gm" else ulid_of(1))

    assert not markers.stands(marker, 2, state(status))


@pytest.mark.parametrize("letter", "demcgr")
def test_all_stand_while_the_run_has_no_version(letter: str) -> None:
    """Its starter is about to write it, or died before."""
    assert markers.stands(of(letter, "1"), 0, None)
