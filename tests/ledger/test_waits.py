"""Wait objects: any process can create them again; only open waits are listed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from continuations.core.rows.decisions import Approve, Deny
from continuations.core.rows.waits import WaitSummary
from continuations.errors import Corrupt, FormatError, WaitNotFound
from continuations.ledger import layout
from continuations.ledger.decisions.decisions import decide
from continuations.ledger.index import waits
from continuations.ledger.objects import Objects
from continuations.ledger.store_clock import StoreClock
from continuations_storage import MemoryStore
from continuations_storage.contract import PAGE_SIZE
from continuations_storage.faults import FaultyStore
from tests.clocks import OffsetClock
from tests.ledger.fake_clock import MOMENT, make_ulid, seconds_after_start
from tests.ledger.interleaving import InterleavingStore
from tests.ledger.runs import (
    RUN,
    all_keys,
    copy_object,
    make_objects,
    make_wait,
    make_wait_id,
    run_async,
    store_suspended_run,
)


async def listed_waits(objects: Objects) -> list[WaitSummary]:
    clock = StoreClock(OffsetClock())
    batches = waits.list_open(objects, clock)
    return [summary async for batch in batches for summary in batch]


# Making -------------------------------------------------------------------------


async def test_wait_is_read_as_it_was_created(objects: Objects) -> None:
    one, two = (
        make_wait(1, deadline=seconds_after_start(60)),
        make_wait(2, "unknown"),
    )
    await waits.create(objects, [one, two])

    assert one == await waits.read(objects, one.id)
    assert two == await waits.read(objects, two.id)
    assert await waits.read(objects, make_wait_id(3)) is None


async def test_second_create_of_a_wait_changes_nothing(objects: Objects) -> None:
    wait = make_wait()
    await waits.create(objects, [wait])
    before = await objects.read(layout.wait_key(wait.id))
    await waits.create(objects, [wait, make_wait(2)])
    await waits.recreate_missing(objects, [wait, make_wait(2)])

    assert before == await objects.read(layout.wait_key(wait.id))
    assert 2 == len(await all_keys(objects))


async def test_withdrawing_is_idempotent(objects: Objects) -> None:
    await waits.create(objects, [make_wait(1), make_wait(2)])
    await waits.delete(objects, [make_wait_id(1), make_wait_id(3)])
    await waits.delete(objects, [make_wait_id(1)])

    assert [layout.wait_key(make_wait_id(2))] == await all_keys(objects)


async def test_empty_list_of_waits_makes_no_request() -> None:
    store = FaultyStore(MemoryStore())
    await waits.create(Objects(store), [])
    await waits.recreate_missing(Objects(store), [])
    await waits.delete(Objects(store), [])

    assert [] == store.operations


# Mending ------------------------------------------------------------------------


async def test_recreate_missing_creates_missing_wait_objects(objects: Objects) -> None:
    state = [make_wait(1), make_wait(2), make_wait(3)]
    await waits.create(objects, state[:1])
    await waits.recreate_missing(objects, state)

    assert [wait.id for wait in state] == [
        each.id for each in await listed_waits(objects)
    ]


async def test_recreate_missing_does_not_list_a_decided_wait(objects: Objects) -> None:
    """The decision came before the call."""
    open_wait, decided = make_wait(1), make_wait(2)
    await store_suspended_run(objects, open_wait, decided)
    await decide(objects, decided.id, Deny(), now=MOMENT, decision_id=make_ulid(1))

    await waits.recreate_missing(objects, [open_wait, decided])

    assert [open_wait.id] == [each.id for each in await listed_waits(objects)]


def test_recreate_missing_interleaved_with_decide_lists_no_decided_wait() -> None:
    """The decision comes between any two requests."""

    async def scenario(number: int) -> int:
        # Given a wait without an object after a crash
        inner = MemoryStore()
        wait = make_wait()
        await store_suspended_run(Objects(inner), wait, announce_waits=False)

        # When it is decided right before a request of the repair
        async def visitor() -> None:
            objects = Objects(inner)
            await decide(
                objects, wait.id, Approve(), now=MOMENT, decision_id=make_ulid(1)
            )

        store = InterleavingStore(inner, number, visitor)
        await waits.recreate_missing(Objects(store), [wait])
        if number == 0:
            await visitor()

        # Then it is not listed
        assert [] == await listed_waits(Objects(inner))
        return store.request_count

    requests = run_async(scenario(0))
    assert requests >= 2
    for number in range(1, requests + 1):
        run_async(scenario(number))


def test_two_interleaved_recreations_list_the_wait() -> None:
    async def scenario(number: int) -> int:
        inner = MemoryStore()
        wait = make_wait()
        await store_suspended_run(Objects(inner), wait, announce_waits=False)

        store = InterleavingStore(
            inner, number, lambda: waits.recreate_missing(Objects(inner), [wait])
        )
        await waits.recreate_missing(Objects(store), [wait])

        assert [wait.id] == [each.id for each in await listed_waits(Objects(inner))]
        return store.request_count

    for number in range(run_async(scenario(0)) + 1):
        run_async(scenario(number))


# Listing ------------------------------------------------------------------------


async def test_open_waits_are_listed_from_keys_alone() -> None:
    """The list has kind, run and age, and reads no object."""
    store = FaultyStore(MemoryStore())
    objects = Objects(store)
    await waits.create(
        objects,
        [make_wait(1), make_wait(2, "unknown"), make_wait(3, run_id="a.b-c")],
    )
    store.operations.clear()

    listed = await listed_waits(objects)

    assert {
        (make_wait_id(1), RUN, "approval"),
        (make_wait_id(2, "unknown"), RUN, "unknown"),
        (make_wait_id(3, run_id="a.b-c"), "a.b-c", "approval"),
    } == {(each.id, each.run_id, each.kind) for each in listed}
    assert {MOMENT} == {each.created_at for each in listed}
    listings = ["waits/", "markers/"]
    assert listings == [each.key for each in store.operations]
    assert {"keys"} == {each.verb for each in store.operations}


async def test_waits_of_one_kind_are_listed_by_age(objects: Objects) -> None:
    names: list[str] = []
    for hours in (3, 1, 2):
        at = MOMENT + timedelta(hours=hours)
        name = layout.build_wait_id(
            "approval", make_ulid(hours, at), f"run-{9 - hours}"
        )
        names.append(name)
        await objects.create(layout.wait_key(name), b"")

    listed = await listed_waits(objects)

    assert sorted(names) == [each.id for each in listed]
    assert [1, 2, 3] == [(each.created_at - MOMENT).seconds // 3600 for each in listed]


async def test_waits_on_several_pages_are_listed(objects: Objects) -> None:
    for number in range(PAGE_SIZE + 5):
        await objects.create(layout.wait_key(make_wait_id(number)), b"")

    assert PAGE_SIZE + 5 == len(await listed_waits(objects))


@pytest.mark.parametrize(
    "name",
    [
        ".DS_Store",
        "x",
        "approval-x@jane",
        f"dream-{make_ulid(1)}@jane",
        f"approval-7{'z' * 25}@jane",
        f"approval-{make_ulid(1)}@-x",
    ],
)
async def test_foreign_key_is_ignored(name: str, objects: Objects) -> None:
    await objects.create(layout.WAITS_PREFIX + name, b"")
    await waits.create(objects, [make_wait(1)])

    assert [make_wait_id(1)] == [each.id for each in await listed_waits(objects)]


# Reading ------------------------------------------------------------------------


@pytest.mark.parametrize("run_id", [RUN, "kim-1"])
async def test_object_of_another_wait_is_corrupt(run_id: str) -> None:
    """People see the wait that they decide."""
    store = MemoryStore()
    objects = Objects(store)
    small, large = make_wait(1), make_wait(2, run_id=run_id)
    await store_suspended_run(objects, small)
    await copy_object(store, layout.wait_key(small.id), layout.wait_key(large.id))

    with pytest.raises(Corrupt):
        await waits.read(objects, large.id)
    before = await all_keys(objects)
    with pytest.raises(Corrupt):
        await decide(objects, large.id, Approve(), now=MOMENT, decision_id=make_ulid(1))
    assert before == await all_keys(objects)


async def test_wait_of_another_run_is_corrupt(store: MemoryStore) -> None:
    """The run is compared, also if the rest of the id is equal."""
    objects = Objects(store)
    await waits.create(objects, [make_wait(1, run_id="kim-1")])
    await copy_object(
        store,
        layout.wait_key(make_wait_id(1, run_id="kim-1")),
        layout.wait_key(make_wait_id(1)),
    )
    with pytest.raises(Corrupt):
        await waits.read(objects, make_wait_id(1))


@pytest.mark.parametrize("body", [b"", b"\0" * 90, b"{}"])
async def test_damaged_wait_is_corrupt(body: bytes, objects: Objects) -> None:
    """A damaged wait is not "no such wait"."""
    key = layout.wait_key(make_wait_id(1))
    await objects.create(key, body)
    with pytest.raises(FormatError) as caught:
        await waits.read(objects, make_wait_id(1))
    assert key in str(caught.value)
    assert body == await objects.read(key)


def test_read_with_invalid_wait_id_raises_wait_not_found() -> None:
    with pytest.raises(WaitNotFound):
        run_async(waits.read(make_objects(), "../../etc/passwd"))


async def test_listed_wait_is_decoded_once_and_other_bytes_are_not_trusted() -> None:
    """A process that lists the same waits again reads their bytes again."""
    objects = make_objects()
    wait = make_wait()
    await waits.create(objects, [wait])
    [first] = [each async for each in waits.read_open(objects)]
    [again] = [each async for each in waits.read_open(objects)]
    assert first is again

    key = layout.wait_key(wait.id)
    await objects.delete(key)
    await objects.create(key, b"damaged")

    with pytest.raises(FormatError):
        _ = [each async for each in waits.read_open(objects)]
