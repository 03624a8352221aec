"""Wait objects: made from a version by anyone, shown only while they are open."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from continuations.core.decisions import Approve, Deny
from continuations.errors import Corrupt, FormatError, WaitNotFound
from continuations.ledger import layout, waits
from continuations.ledger.decide import decide
from continuations.ledger.objects import Objects
from continuations_storage import MemoryStore
from continuations_storage.contract import PAGE
from continuations_storage.faults import FaultyStore
from tests.ledger.machine import MOMENT, later, ulid_of
from tests.ledger.runs import (
    RUN,
    a_wait,
    does,
    keys,
    moved,
    objects,
    suspended_at,
    wait_id,
)
from tests.ledger.visits import VisitedStore

if TYPE_CHECKING:
    from continuations.core.waits import WaitSummary


async def shown(place: Objects) -> list[WaitSummary]:
    """Return what is listed as open."""
    return [summary async for summary in waits.listed(place)]


# Making -------------------------------------------------------------------------


def test_a_wait_comes_back_as_it_was_announced() -> None:
    async def story() -> None:
        place = objects()
        one, two = a_wait(1, deadline=later(60)), a_wait(2, "unknown")
        await waits.announce(place, [one, two])

        assert one == await waits.read(place, one.id)
        assert two == await waits.read(place, two.id)
        assert await waits.read(place, wait_id(3)) is None

    does(story())


def test_announcing_again_changes_nothing() -> None:
    """R-F2, EF-21: re-notify is possible and idempotent, with the same wait id."""

    async def story() -> None:
        place = objects()
        wait = a_wait()
        await waits.announce(place, [wait])
        before = await place.read(layout.wait(wait.id))
        await waits.announce(place, [wait, a_wait(2)])
        await waits.mend(place, [wait, a_wait(2)])

        assert before == await place.read(layout.wait(wait.id))
        assert 2 == len(await keys(place))

    does(story())


def test_withdrawing_is_idempotent() -> None:
    async def story() -> None:
        place = objects()
        await waits.announce(place, [a_wait(1), a_wait(2)])
        await waits.withdraw(place, [wait_id(1), wait_id(3)])
        await waits.withdraw(place, [wait_id(1)])

        assert [layout.wait(wait_id(2))] == await keys(place)

    does(story())


def test_no_waits_ask_the_store_for_nothing() -> None:
    async def story() -> None:
        store = FaultyStore(MemoryStore())
        await waits.announce(Objects(store), [])
        await waits.mend(Objects(store), [])
        await waits.withdraw(Objects(store), [])

        assert [] == store.operations

    does(story())


# Mending ------------------------------------------------------------------------


def test_mending_makes_what_a_crash_left_out() -> None:
    async def story() -> None:
        place = objects()
        table = [a_wait(1), a_wait(2), a_wait(3)]
        await waits.announce(place, table[:1])
        await waits.mend(place, table)

        assert [wait.id for wait in table] == [each.id for each in await shown(place)]

    does(story())


def test_mending_does_not_show_a_decided_wait() -> None:
    """R-F9."""

    async def story() -> None:
        place = objects()
        open_wait, decided = a_wait(1), a_wait(2)
        await suspended_at(place, open_wait, decided)
        await decide(place, decided.id, Deny(), now=MOMENT, ulid=ulid_of(1))

        await waits.mend(place, [open_wait, decided])

        assert [open_wait.id] == [each.id for each in await shown(place)]

    does(story())


def test_however_mending_and_deciding_interleave_a_decided_wait_is_not_shown() -> None:
    """R-F9: the decision comes between any two requests of whoever mends."""

    async def story(number: int) -> int:
        # Given a wait whose object a crash kept from being made
        inner = MemoryStore()
        wait = a_wait()
        await suspended_at(Objects(inner), wait, shown=False)

        # When it is decided right before a request of somebody who mends
        async def visitor() -> None:
            place = Objects(inner)
            await decide(place, wait.id, Approve(), now=MOMENT, ulid=ulid_of(1))

        store = VisitedStore(inner, number, visitor)
        await waits.mend(Objects(store), [wait])
        if number == 0:
            await visitor()

        # Then it is not shown
        assert [] == await shown(Objects(inner))
        return store.requests

    requests = does(story(0))
    assert requests >= 2
    for number in range(1, requests + 1):
        does(story(number))


def test_however_two_who_mend_interleave_the_wait_is_shown() -> None:
    async def story(number: int) -> int:
        inner = MemoryStore()
        wait = a_wait()
        await suspended_at(Objects(inner), wait, shown=False)

        store = VisitedStore(inner, number, lambda: waits.mend(Objects(inner), [wait]))
        await waits.mend(Objects(store), [wait])

        assert [wait.id] == [each.id for each in await shown(Objects(inner))]
        return store.requests

    for number in range(does(story(0)) + 1):
        does(story(number))


# Listing ------------------------------------------------------------------------


def test_open_waits_are_listed_from_keys_alone() -> None:
    """R-F3: with kind, run and age, and without reading one of them."""

    async def story() -> None:
        store = FaultyStore(MemoryStore())
        place = Objects(store)
        await waits.announce(
            place, [a_wait(1), a_wait(2, "unknown"), a_wait(3, run_id="a.b-c")]
        )
        store.operations.clear()

        listed = await shown(place)

        assert {
            (wait_id(1), RUN, "approval"),
            (wait_id(2, "unknown"), RUN, "unknown"),
            (wait_id(3, run_id="a.b-c"), "a.b-c", "approval"),
        } == {(each.id, each.run_id, each.kind) for each in listed}
        assert {MOMENT} == {each.since for each in listed}
        assert ["keys"] == [each.verb for each in store.operations]

    does(story())


def test_those_of_a_kind_are_listed_by_age() -> None:
    async def story() -> None:
        place = objects()
        names: list[str] = []
        for hours in (3, 1, 2):
            at = MOMENT + timedelta(hours=hours)
            name = layout.wait_id("approval", ulid_of(hours, at), f"run-{9 - hours}")
            names.append(name)
            await place.create(layout.wait(name), b"")

        listed = await shown(place)

        assert sorted(names) == [each.id for each in listed]
        assert [1, 2, 3] == [(each.since - MOMENT).seconds // 3600 for each in listed]

    does(story())


def test_more_than_a_page_is_listed() -> None:
    """R-E9."""

    async def story() -> None:
        place = objects()
        for number in range(PAGE + 5):
            await place.create(layout.wait(wait_id(number)), b"")

        assert PAGE + 5 == len(await shown(place))

    does(story())


@pytest.mark.parametrize(
    "name",
    [
        ".DS_Store",
        "x",
        "approval-x@jane",
        f"question-{ulid_of(1)}@jane",
        f"approval-7{'z' * 25}@jane",
        f"approval-{ulid_of(1)}@-x",
    ],
)
def test_a_foreign_key_is_passed_over(name: str) -> None:
    async def story() -> None:
        place = objects()
        await place.create(layout.WAITS + name, b"")
        await waits.announce(place, [a_wait(1)])

        assert [wait_id(1)] == [each.id for each in await shown(place)]

    does(story())


# Reading ------------------------------------------------------------------------


@pytest.mark.parametrize("run_id", [RUN, "kim-1"])
def test_another_waits_object_under_its_key_is_refused(run_id: str) -> None:
    """R-C8: what people are shown is what they decide."""

    async def story() -> None:
        store = MemoryStore()
        place = Objects(store)
        small, large = a_wait(1), a_wait(2, run_id=run_id)
        await suspended_at(place, small)
        await moved(store, layout.wait(small.id), layout.wait(large.id))

        with pytest.raises(Corrupt):
            await waits.read(place, large.id)
        before = await keys(place)
        with pytest.raises(Corrupt):
            await decide(place, large.id, Approve(), now=MOMENT, ulid=ulid_of(1))
        assert before == await keys(place)

    does(story())


def test_a_wait_of_the_same_name_in_another_run_is_refused() -> None:
    """R-C8: also where all but the run in the id is the same."""

    async def story() -> None:
        store = MemoryStore()
        place = Objects(store)
        await waits.announce(place, [a_wait(1, run_id="kim-1")])
        await moved(
            store, layout.wait(wait_id(1, run_id="kim-1")), layout.wait(wait_id(1))
        )
        with pytest.raises(Corrupt):
            await waits.read(place, wait_id(1))

    does(story())


@pytest.mark.parametrize("body", [b"", b"\0" * 90, b"{}"])
def test_a_damaged_wait_is_refused_by_name(body: bytes) -> None:
    """R-E7: never "no such wait"."""

    async def story() -> None:
        place = objects()
        key = layout.wait(wait_id(1))
        await place.create(key, body)
        with pytest.raises(FormatError) as caught:
            await waits.read(place, wait_id(1))
        assert key in str(caught.value)
        assert body == await place.read(key)

    does(story())


def test_what_is_no_wait_id_is_not_read() -> None:
    with pytest.raises(WaitNotFound):
        does(waits.read(objects(), "../../etc/passwd"))
