"""What came to a run from outside: all of it, once, and only what is its own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from continuations.core import messages as said
from continuations.core.decisions import Answer, Approve, Deny
from continuations.errors import Corrupt, FormatError
from continuations.ledger import layout
from continuations.ledger.arrivals import (
    Arrivals,
    arrivals,
    decided_waits,
    read_cancellation,
    read_decision,
)
from continuations.ledger.decide import decide
from continuations.ledger.inbox import cancel, post
from continuations.ledger.objects import Objects
from continuations.wire.records import Cancellation, Letter, encode_decision
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.ledger.machine import MOMENT, ulid_of
from tests.ledger.runs import RUN, a_table, a_wait, does, moved, objects, suspended_at
from tests.ledger.visits import VisitedStore

if TYPE_CHECKING:
    from continuations.core.table import Table


def letter(number: int, text: str = "") -> Letter:
    """Return a letter that is about to be posted."""
    message = said.user(text or f"letter {number}")
    return Letter(id=ulid_of(number), number=0, at=MOMENT, message=message)


def wish(number: int = 1, reason: str | None = None) -> Cancellation:
    """Return a wish to cancel."""
    return Cancellation(id=ulid_of(number), at=MOMENT, by="kim", reason=reason)


def heard(table: Table, number: int) -> Table:
    """Return the run after it took in some messages."""
    return replace(table, run=replace(table.run, inbox=number))


def test_nothing_came() -> None:
    async def story() -> None:
        place = objects()
        loaded = await suspended_at(place, a_wait())

        assert Arrivals() == await arrivals(place, loaded.table)
        assert () == Arrivals().markers

    does(story())


def test_everything_that_came_is_there_with_its_markers() -> None:
    """R-B6: each of several decisions by its own wait."""

    async def story() -> None:
        # Given a run that stands at three waits
        place = objects()
        waits = [a_wait(1), a_wait(2, "unknown"), a_wait(3)]
        loaded = await suspended_at(place, *waits)

        # When two are decided, two messages are posted and it is cancelled
        yes = await decide(place, waits[0].id, Approve(), now=MOMENT, ulid=ulid_of(1))
        told = await decide(place, waits[1].id, Answer(0), now=MOMENT, ulid=ulid_of(2))
        first = await post(place, RUN, letter(1))
        second = await post(place, RUN, letter(2))
        wanted = await cancel(place, RUN, wish())

        # Then a worker sees all of it, and what points at it
        came = await arrivals(place, loaded.table)
        assert {waits[0].id: yes, waits[1].id: told} == came.decisions
        assert (first, second) == came.letters
        assert wanted == came.cancellation
        made = {key async for key in place.all_keys("markers/")}
        assert 5 == len(made)
        assert made == set(came.markers)

    does(story())


def test_what_was_taken_in_does_not_come_again() -> None:
    """R-A10: decisions of earlier waits and messages that were heard."""

    async def story() -> None:
        place = objects()
        wait = a_wait(1)
        await suspended_at(place, wait)
        await decide(place, wait.id, Approve(), now=MOMENT, ulid=ulid_of(1))
        for number in (1, 2, 3):
            await post(place, RUN, letter(number))

        # Given the state in which it took the decision and two letters in
        later = heard(a_table(a_wait(2)), 2)
        came = await arrivals(place, later)

        assert {} == came.decisions
        assert [3] == [each.number for each in came.letters]

    does(story())


def test_looking_costs_one_listing_and_a_read_for_each() -> None:
    async def story() -> None:
        store = FaultyStore(MemoryStore())
        place = Objects(store)
        waits = [a_wait(number) for number in range(1, 6)]
        loaded = await suspended_at(place, *waits)
        for number in (1, 2):
            await decide(
                place, waits[number].id, Deny(), now=MOMENT, ulid=ulid_of(number)
            )
        store.operations.clear()

        await arrivals(place, loaded.table)

        assert ["keys", "read", "read"] == [each.verb for each in store.operations]

    does(story())


def test_letters_come_in_their_order_beyond_nine() -> None:
    async def story() -> None:
        place = objects()
        loaded = await suspended_at(place)
        for number in range(1, 13):
            await post(place, RUN, letter(number))

        came = await arrivals(place, loaded.table)

        assert list(range(1, 13)) == [each.number for each in came.letters]
        assert "letter 12" == came.letters[11].message.content

    does(story())


def test_arrivals_of_a_run_with_a_longer_name_are_not_its_own() -> None:
    async def story() -> None:
        place = objects()
        loaded = await suspended_at(place)
        await suspended_at(place, run_id=RUN + "0")
        await cancel(place, RUN + "0", wish())
        await post(place, RUN + "0", letter(1))

        assert Arrivals() == await arrivals(place, loaded.table)

    does(story())


@pytest.mark.parametrize("name", [".DS_Store", "m-1", "m-x", "d-x", "cancel2"])
def test_a_foreign_key_is_passed_over(name: str) -> None:
    async def story() -> None:
        place = objects()
        loaded = await suspended_at(place, a_wait())
        await place.create(layout.arrivals(RUN) + name, b"")

        assert Arrivals() == await arrivals(place, loaded.table)

    does(story())


# Only its own ------------------------------------------------------------------


def test_a_decision_for_another_call_is_refused() -> None:
    """R-C1, R-C7: the digest of the decision is that of the wait."""

    async def story() -> None:
        place = objects()
        wait = a_wait()
        loaded = await suspended_at(place, wait)
        stands = await decide(place, wait.id, Approve(), now=MOMENT, ulid=ulid_of(1))

        # Given a version whose wait is for other arguments
        other = replace(wait, digest="f" * 64)
        table = replace(loaded.table, waits={wait.id: other})

        with pytest.raises(Corrupt) as caught:
            await arrivals(place, table)
        assert wait.id in str(caught.value)
        assert stands == await read_decision(place, wait.id)

    does(story())


def test_all_waits_that_were_ever_decided_are_told_and_nothing_else_is() -> None:
    """R-E9: their objects are removed once more; strangers' keys name no wait."""

    async def story() -> None:
        place = objects()
        waits = [a_wait(1), a_wait(2, "unknown"), a_wait(3)]
        await suspended_at(place, *waits)
        for wait in waits[:2]:
            await decide(place, wait.id, Deny(), now=MOMENT, ulid=ulid_of(1))
        await post(place, RUN, letter(1))
        await cancel(place, RUN, wish())
        await place.create(f"{layout.arrivals(RUN)}d-readme", b"")

        found = await decided_waits(place, RUN)

        assert sorted(wait.id for wait in waits[:2]) == sorted(found)

    does(story())


def test_a_decision_that_goes_before_it_is_read_is_no_decision() -> None:
    """R-C5, R-E7: it was listed, and nobody can say what it was; that is told."""

    async def story() -> None:
        inner = MemoryStore()
        wait = a_wait()
        loaded = await suspended_at(Objects(inner), wait)
        await decide(Objects(inner), wait.id, Approve(), now=MOMENT, ulid=ulid_of(1))
        key = layout.decision(wait.id)
        visits = VisitedStore(inner, 2, partial(inner.delete, key))

        with pytest.raises(Corrupt) as caught:
            await arrivals(Objects(visits), loaded.table)
        assert (RUN, wait.id) == (caught.value.run_id, caught.value.wait_id)

    does(story())


def test_a_letter_that_goes_before_it_is_read_is_told_by_its_run() -> None:
    """R-E7: an error of ours, so that a sweep goes on with the other runs."""

    async def story() -> None:
        inner = MemoryStore()
        loaded = await suspended_at(Objects(inner), a_wait())
        await post(Objects(inner), RUN, letter(1))
        gone = partial(inner.delete, layout.letter(RUN, 1))
        visits = VisitedStore(inner, 2, gone)

        with pytest.raises(Corrupt, match="gone") as caught:
            await arrivals(Objects(visits), loaded.table)
        assert RUN == caught.value.run_id

    does(story())


def test_a_decision_under_another_waits_key_is_refused() -> None:
    """R-C8: a Yes for one call is no Yes for another."""

    async def story() -> None:
        store = MemoryStore()
        place = Objects(store)
        one, two = a_wait(1), a_wait(2)
        loaded = await suspended_at(place, one, two)
        await decide(place, one.id, Approve(), now=MOMENT, ulid=ulid_of(1))
        await moved(store, layout.decision(one.id), layout.decision(two.id))

        with pytest.raises(Corrupt):
            await arrivals(place, loaded.table)
        with pytest.raises(Corrupt):
            await read_decision(place, two.id)

    does(story())


def test_a_decision_of_another_run_is_refused() -> None:
    """R-C8: even where the rest of the wait's id is the same."""

    async def story() -> None:
        store = MemoryStore()
        place = Objects(store)
        mine, theirs = a_wait(1), a_wait(1, run_id="kim-1")
        loaded = await suspended_at(place, mine)
        await suspended_at(place, theirs, run_id="kim-1")
        await decide(place, theirs.id, Approve(), now=MOMENT, ulid=ulid_of(1))
        await moved(store, layout.decision(theirs.id), layout.decision(mine.id))

        with pytest.raises(Corrupt):
            await arrivals(place, loaded.table)

    does(story())


def test_a_cancellation_of_another_run_is_refused() -> None:
    """R-C8."""

    async def story() -> None:
        store = MemoryStore()
        place = Objects(store)
        loaded = await suspended_at(place)
        await cancel(place, "kim-1", wish())
        await moved(store, layout.cancellation("kim-1"), layout.cancellation(RUN))

        with pytest.raises(Corrupt):
            await read_cancellation(place, RUN)
        with pytest.raises(Corrupt):
            await arrivals(place, loaded.table)

    does(story())


@pytest.mark.parametrize(
    ("source", "target"), [(("kim-1", 1), (RUN, 1)), ((RUN, 1), (RUN, 2))]
)
def test_a_letter_of_another_run_or_number_is_refused(
    source: tuple[str, int], target: tuple[str, int]
) -> None:
    """R-C8."""

    async def story() -> None:
        store = MemoryStore()
        place = Objects(store)
        loaded = await suspended_at(place)
        await post(place, source[0], letter(1))
        await moved(store, layout.letter(*source), layout.letter(*target))

        with pytest.raises(Corrupt):
            await arrivals(place, loaded.table)

    does(story())


@pytest.mark.parametrize("body", [b"", b"\0" * 90, b"true", b'{"kind":"approve"}'])
def test_what_does_not_read_is_refused_by_name_and_left(body: bytes) -> None:
    """R-E7: never "nobody decided", never overwritten."""

    async def story() -> None:
        for place_of in (
            layout.decision(a_wait().id),
            layout.cancellation(RUN),
            layout.letter(RUN, 1),
        ):
            place = objects()
            loaded = await suspended_at(place, a_wait())
            await place.create(place_of, body)

            with pytest.raises(FormatError) as caught:
                await arrivals(place, loaded.table)
            assert place_of in str(caught.value)
            assert body == await place.read(place_of)

    does(story())


def test_an_object_of_another_kind_is_refused() -> None:
    """A denial put where a wish to cancel would stand."""

    async def story() -> None:
        place = objects()
        wait = a_wait()
        loaded = await suspended_at(place, wait)
        stands = await decide(place, wait.id, Deny(), now=MOMENT, ulid=ulid_of(1))
        await place.create(layout.cancellation(RUN), encode_decision(stands, RUN))

        with pytest.raises(FormatError):
            await arrivals(place, loaded.table)

    does(story())
