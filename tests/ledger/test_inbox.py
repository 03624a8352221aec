"""Messages to a run in dense numbers, and the one wish to cancel it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from continuations.core import messages as said
from continuations.errors import FormatError, RunNotFound, StoreUnavailable
from continuations.ledger import layout
from continuations.ledger.arrivals import arrivals, read_cancellation
from continuations.ledger.inbox import cancel, post
from continuations.ledger.objects import Objects
from continuations.wire.records import Cancellation, Letter
from continuations_storage import MemoryStore
from continuations_storage.errors import Unavailable
from continuations_storage.faults import FaultyStore, on, refused
from tests.ledger.machine import MOMENT, later, ulid_of
from tests.ledger.runs import RUN, does, keys, objects, suspended_at
from tests.ledger.visits import VisitedStore


def letter(number: int) -> Letter:
    """Return a letter that is about to be posted."""
    message = said.user(f"letter {number}")
    return Letter(id=ulid_of(number), number=0, at=MOMENT, message=message, by="kim")


def wish(number: int, reason: str = "enough") -> Cancellation:
    """Return a wish to cancel."""
    return Cancellation(id=ulid_of(number), at=MOMENT, by="kim", reason=reason)


# Posting ------------------------------------------------------------------------


def test_letters_get_the_next_numbers() -> None:
    async def story() -> None:
        place = objects()
        for number in range(1, 12):
            posted = await post(place, RUN, letter(number))
            assert number == posted.number
        assert 1 == (await post(place, "another", letter(1))).number

    does(story())


def test_a_letter_comes_back_as_it_was_posted() -> None:
    async def story() -> None:
        place = objects()
        loaded = await suspended_at(place)
        posted = await post(place, RUN, letter(1))

        assert (posted,) == (await arrivals(place, loaded.table)).letters
        assert replace(letter(1), number=1, marker=posted.marker) == posted

    does(story())


def test_racing_posters_get_dense_numbers_and_nothing_is_lost() -> None:
    """Create the next, or try again; never clock-sorted names."""

    async def story() -> None:
        place = objects()
        loaded = await suspended_at(place)

        # When forty processes post at once
        posted = await asyncio.gather(
            *(post(place, RUN, letter(number)) for number in range(40))
        )

        # Then each has a number of its own, and every word is there
        assert list(range(1, 41)) == sorted(each.number for each in posted)
        came = (await arrivals(place, loaded.table)).letters
        assert {f"letter {n}" for n in range(40)} == {m.message.content for m in came}

        # And each has the marker that it names; those who lost a number left none
        assert {each.marker for each in posted} == set(await keys(place, "markers/"))

    does(story())


def test_one_letter_that_is_delivered_by_many_at_once_keeps_its_marker() -> None:
    """R-A2: the same letter, with its own id and time."""

    async def story() -> None:
        place = objects()
        loaded = await suspended_at(place)
        posted = await asyncio.gather(*(post(place, RUN, letter(1)) for _ in range(5)))

        came = (await arrivals(place, loaded.table)).letters
        standing = await keys(place, "markers/")
        assert {each.number for each in came} == {each.number for each in posted}
        assert {each.marker for each in came} == set(standing)

    does(story())


def test_the_marker_is_there_before_the_letter() -> None:
    async def story() -> None:
        store = FaultyStore(MemoryStore())
        posted = await post(Objects(store), RUN, letter(1))

        made = [each.key for each in store.operations if each.verb == "create"]
        assert [posted.marker, layout.letter(RUN, 1)] == made
        assert 3 == len(store.operations)

    does(story())


def test_the_marker_is_due_when_it_was_posted() -> None:
    async def story() -> None:
        posted = await post(objects(), RUN, replace(letter(1), at=later(5)))
        assert posted.marker is not None
        marker = layout.parse_marker(posted.marker)

        assert marker is not None
        assert int(later(5).timestamp() * 1000) == marker.due
        assert ("m", "1", RUN) == (marker.letter, marker.what, marker.run_id)

    does(story())


def test_a_store_that_is_away_posts_nothing() -> None:
    async def story() -> None:
        inner = MemoryStore()
        prefix = layout.arrivals(RUN)
        store = FaultyStore(inner, on("create", refused(Unavailable), prefix=prefix))
        with pytest.raises(StoreUnavailable):
            await post(Objects(store), RUN, letter(1))

        assert [] == await inner.keys(layout.arrivals(RUN))
        assert 1 == (await post(Objects(inner), RUN, letter(2))).number

    does(story())


def visited_by(rival: bytes | None) -> tuple[MemoryStore, VisitedStore]:
    """Return a store in which message 1 is put there by another, and how it looks.

    What the rival puts there comes right before our create; with `None` it comes and
    is erased with its run before we can look at it.
    """
    inner = MemoryStore()
    key = layout.letter(RUN, 1)

    async def comes() -> None:
        await inner.create(key, rival or b"")
        if rival is None:
            visits.number = visits.requests + 1
            visits.visitor = partial(inner.delete, key)

    visits = VisitedStore(inner, 3, comes)
    return inner, visits


def test_a_damaged_rival_is_told_and_nothing_is_posted_over_it() -> None:
    """R-E7: what stands under our number cannot be read, so nobody knows whose it is.

    No marker of ours is left, which would have the run looked at for nothing.
    """

    async def story() -> None:
        inner, visits = visited_by(b"damaged")
        with pytest.raises(FormatError):
            await post(Objects(visits), RUN, letter(1))

        place = Objects(inner)
        assert [layout.letter(RUN, 1)] == await keys(place)
        assert b"damaged" == await inner.read(layout.letter(RUN, 1))
        # The next one gets the next number.
        assert 2 == (await post(place, RUN, letter(1))).number

    does(story())


def test_a_run_that_is_erased_while_a_message_is_sent_is_not_found() -> None:
    """R-E9: it is not told as a success, nor as somebody else's message.

    No marker is left of it either, which every sweep would look at for ever.
    """

    async def story() -> None:
        inner, visits = visited_by(None)
        with pytest.raises(RunNotFound, match="erased") as caught:
            await post(Objects(visits), RUN, letter(1))

        assert RUN == caught.value.run_id
        assert [] == await keys(Objects(inner))

    does(story())


# Cancelling ---------------------------------------------------------------------


def test_of_many_wishes_the_first_stands_and_all_are_told_which() -> None:
    """R-F6: idempotent, create-only."""

    async def story() -> None:
        place = objects()
        told = await asyncio.gather(
            *(
                cancel(place, RUN, wish(number, f"reason {number}"))
                for number in range(9)
            )
        )

        first = await read_cancellation(place, RUN)
        assert first is not None
        assert [first] * 9 == told
        assert [first.marker] == await keys(place, "markers/")

    does(story())


def test_a_wish_is_told_by_whom_and_why() -> None:
    async def story() -> None:
        place = objects()
        made = await cancel(place, RUN, wish(1))

        assert replace(wish(1), marker=made.marker) == made
        assert made == await read_cancellation(place, RUN)
        assert await read_cancellation(place, "another") is None

    does(story())


def test_the_marker_is_there_before_the_wish() -> None:
    async def story() -> None:
        store = FaultyStore(MemoryStore())
        made = await cancel(Objects(store), RUN, wish(1))

        assert [
            ("create", made.marker),
            ("create", layout.cancellation(RUN)),
        ] == [(each.verb, each.key) for each in store.operations]

    does(story())


def test_a_wish_that_is_delivered_twice_keeps_its_marker() -> None:
    """R-A2: the same wish, with its own id and time."""

    async def story() -> None:
        place = objects()
        first = await cancel(place, RUN, wish(1))
        again = await cancel(place, RUN, wish(1))

        assert first == again
        assert [first.marker] == await keys(place, "markers/")

    does(story())
