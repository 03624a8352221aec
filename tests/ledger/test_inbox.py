"""Messages, cancel requests and decisions that arrive, and what a worker reads."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from functools import partial

import pytest

from continuations import errors
from continuations.core.rows.decisions import Answer, Approve, Decision, Deny
from continuations.core.rows.state import RunState
from continuations.errors import Corrupt, FormatError
from continuations.ledger import layout
from continuations.ledger.arrivals import inbox
from continuations.ledger.arrivals.arrivals import (
    Arrivals,
    read_arrivals,
    read_cancel_request,
)
from continuations.ledger.arrivals.inbox import post, post_once, record_cancel_request
from continuations.ledger.arrivals.recorded_decisions import (
    list_decided_wait_ids,
    read_decision,
)
from continuations.ledger.decisions.decisions import decide
from continuations.ledger.objects import Objects
from continuations.ledger.versions import ReplyTable, follow, nearest_reply
from continuations.wire.records import DECISION
from continuations_storage import MemoryStore
from continuations_storage.errors import Unavailable
from continuations_storage.faults import FaultyStore, on, refused
from tests.ledger.fake_clock import MOMENT, make_ulid, seconds_after_start
from tests.ledger.interleaving import InterleavingStore
from tests.ledger.runs import (
    RUN,
    all_keys,
    copy_object,
    make_cancel_request,
    make_inbox_message,
    make_objects,
    make_state,
    make_wait,
    store_suspended_run,
)
from tests.outcomes import present

# Posting ------------------------------------------------------------------------


async def test_posted_messages_get_consecutive_numbers(objects: Objects) -> None:
    for number in range(1, 12):
        posted = await post(objects, RUN, make_inbox_message(number))
        assert number == posted.number
    assert 1 == (await post(objects, "another", make_inbox_message(1))).number


async def test_posted_message_is_read_back_equal(objects: Objects) -> None:
    loaded = await store_suspended_run(objects)
    posted = await post(objects, RUN, make_inbox_message(1))

    assert (posted,) == (
        await read_arrivals(objects, loaded.state, all_messages=True)
    ).inbox_messages
    assert replace(make_inbox_message(1), number=1, marker=posted.marker) == posted


async def test_racing_posters_get_dense_numbers_and_nothing_is_lost() -> None:
    """Numbers come from creates and not from clocks."""
    objects = make_objects()
    loaded = await store_suspended_run(objects)

    # When forty processes post at once
    posted = await asyncio.gather(
        *(post(objects, RUN, make_inbox_message(number)) for number in range(40))
    )

    # Then each message has its own number, and none is lost
    assert list(range(1, 41)) == sorted(each.number for each in posted)
    came = (
        await read_arrivals(objects, loaded.state, all_messages=True)
    ).inbox_messages
    assert {f"letter {n}" for n in range(40)} == {m.message.content for m in came}

    # And each has its marker; no other marker is left
    assert {each.marker for each in posted} == set(await all_keys(objects, "markers/"))


async def test_concurrent_posts_of_one_message_keep_its_marker() -> None:
    objects = make_objects()
    loaded = await store_suspended_run(objects)
    posted = await asyncio.gather(
        *(post(objects, RUN, make_inbox_message(1)) for _ in range(5))
    )

    came = (
        await read_arrivals(objects, loaded.state, all_messages=True)
    ).inbox_messages
    standing = await all_keys(objects, "markers/")
    assert {each.number for each in came} == {each.number for each in posted}
    assert {each.marker for each in came} == set(standing)


async def test_marker_is_created_before_the_message() -> None:
    store = FaultyStore(MemoryStore())
    posted = await post(Objects(store), RUN, make_inbox_message(1))

    made = [each.key for each in store.operations if each.verb == "create"]
    assert [posted.marker, layout.numbered_key(layout.MESSAGE, RUN, 1)] == made
    assert 3 == len(store.operations)


async def test_marker_of_a_message_is_due_now() -> None:
    """A sender whose clock is wrong delays no run."""
    posted = await post(
        make_objects(),
        RUN,
        replace(make_inbox_message(1), at=seconds_after_start(5)),
    )
    assert posted.marker is not None
    marker = present(layout.parse_marker(posted.marker))

    assert layout.DUE_NOW == marker.due_ms
    assert ("m", "1", RUN) == (marker.reason, marker.target, marker.run_id)


async def test_post_to_an_unavailable_store_creates_no_message() -> None:
    inner = MemoryStore()
    prefix = layout.arrivals_prefix(RUN)
    store = FaultyStore(inner, on("create", refused(Unavailable), prefix=prefix))
    with pytest.raises(errors.StoreUnavailable):
        await post(Objects(store), RUN, make_inbox_message(1))

    assert [] == await inner.keys(layout.arrivals_prefix(RUN))
    assert 1 == (await post(Objects(inner), RUN, make_inbox_message(2))).number


def store_with_rival(rival: bytes | None) -> tuple[MemoryStore, InterleavingStore]:
    """Return a store in which a rival creates message 1, and the expected inbox.

    The rival acts right before our create. With `None`, its message is erased with the
    run before it can be read.
    """
    inner = MemoryStore()
    key = layout.numbered_key(layout.MESSAGE, RUN, 1)

    async def post_rival() -> None:
        await inner.create(key, rival or b"")
        if rival is None:
            visits.before_request = visits.request_count + 1
            visits.other_actor = partial(inner.delete, key)

    visits = InterleavingStore(inner, 3, post_rival)
    return inner, visits


async def test_post_does_not_overwrite_a_damaged_message() -> None:
    """A message under our number that cannot be read is an error.

    No marker of ours is left.
    """
    inner, visits = store_with_rival(b"damaged")
    with pytest.raises(errors.FormatError):
        await post(Objects(visits), RUN, make_inbox_message(1))

    objects = Objects(inner)
    assert [layout.numbered_key(layout.MESSAGE, RUN, 1)] == await all_keys(objects)
    assert b"damaged" == await inner.read(layout.numbered_key(layout.MESSAGE, RUN, 1))
    # The next one gets the next number.
    assert 2 == (await post(objects, RUN, make_inbox_message(1))).number


async def test_a_repeat_that_fills_the_inbox_meanwhile_is_the_same_message(
    monkeypatch: pytest.MonkeyPatch, inner: MemoryStore
) -> None:
    """Two processes post one message for the last free place: neither is refused."""
    monkeypatch.setattr(inbox, "MAX_UNREAD_MESSAGES", 1)

    message = make_inbox_message(1)

    async def post_rival() -> None:
        await post_once(Objects(inner), RUN, message, 0, "rival")

    # Right after our look for the id, which found none.
    visits = InterleavingStore(inner, 2, post_rival)
    posted = await post_once(Objects(visits), RUN, message, 0, "own")

    assert (1, message.id) == (posted.number, posted.id)
    other = replace(message, id="another")
    with pytest.raises(errors.InboxFull):
        await post_once(Objects(inner), RUN, other, 0, "own")


async def test_post_to_a_run_erased_meanwhile_raises_run_not_found() -> None:
    """The post is not reported as a success.

    No marker is left, which every later sweep would read.
    """
    inner, visits = store_with_rival(None)
    with pytest.raises(errors.RunNotFound, match="erased") as caught:
        await post(Objects(visits), RUN, make_inbox_message(1))

    assert RUN == caught.value.run_id
    assert [] == await all_keys(Objects(inner))


# Cancelling ---------------------------------------------------------------------


async def test_concurrent_cancel_requests_all_get_the_first(objects: Objects) -> None:
    reading = await asyncio.gather(
        *(
            record_cancel_request(
                objects, RUN, make_cancel_request(number, f"reason {number}")
            )
            for number in range(9)
        )
    )

    first = present(await read_cancel_request(objects, RUN))
    assert [first] * 9 == reading
    assert [first.marker] == await all_keys(objects, "markers/")


async def test_cancel_request_keeps_person_and_reason(objects: Objects) -> None:
    made = await record_cancel_request(objects, RUN, make_cancel_request(1))

    assert replace(make_cancel_request(1), marker=made.marker) == made
    assert made == await read_cancel_request(objects, RUN)
    assert await read_cancel_request(objects, "another") is None


async def test_marker_is_created_before_the_cancel_request() -> None:
    store = FaultyStore(MemoryStore())
    made = await record_cancel_request(Objects(store), RUN, make_cancel_request(1))

    assert [
        ("create", made.marker),
        ("create", layout.cancel_request_key(RUN)),
    ] == [(each.verb, each.key) for each in store.operations]


async def test_repeated_cancel_request_keeps_its_marker(objects: Objects) -> None:
    first = await record_cancel_request(objects, RUN, make_cancel_request(1))
    again = await record_cancel_request(objects, RUN, make_cancel_request(1))

    assert first == again
    assert [first.marker] == await all_keys(objects, "markers/")


# Arrivals ---------------------------------------------------------------------


def with_inbox_number(state: RunState, number: int) -> RunState:
    """Return the run after it read some inbox messages."""
    return replace(state, run=replace(state.run, last_inbox_number=number))


async def test_arrivals_of_a_quiet_run_are_empty(objects: Objects) -> None:
    loaded = await store_suspended_run(objects, make_wait())

    assert Arrivals() == await read_arrivals(objects, loaded.state, all_messages=True)
    assert () == Arrivals().marker_keys("r1")


async def test_arrivals_hold_decisions_messages_and_cancel_request() -> None:
    """Each of several decisions is found under its own wait."""
    # Given a run with three open waits
    objects = make_objects()
    waits = [make_wait(1), make_wait(2, "unknown"), make_wait(3)]
    loaded = await store_suspended_run(objects, *waits)

    # When two are decided, two messages are posted and the run is cancelled
    yes = await decide(
        objects, waits[0].id, Approve(), now=MOMENT, decision_id=make_ulid(1)
    )
    reading = await decide(
        objects, waits[1].id, Answer(0), now=MOMENT, decision_id=make_ulid(2)
    )
    first = await post(objects, RUN, make_inbox_message(1))
    second = await post(objects, RUN, make_inbox_message(2))
    wanted = await record_cancel_request(objects, RUN, make_cancel_request())

    # Then a worker reads all of them and their markers
    came = await read_arrivals(objects, loaded.state, all_messages=True)
    assert {waits[0].id: yes, waits[1].id: reading} == came.decisions
    assert (first, second) == came.inbox_messages
    assert wanted == came.cancel_request
    made = {key async for key in objects.all_keys("markers/")}
    assert 5 == len(made)
    assert made == set(came.marker_keys(RUN))


async def test_handled_decisions_and_messages_are_not_returned_again() -> None:
    """Decisions of earlier waits and messages that were read do not arrive again."""
    objects = make_objects()
    wait = make_wait(1)
    await store_suspended_run(objects, wait)
    await decide(objects, wait.id, Approve(), now=MOMENT, decision_id=make_ulid(1))
    for number in (1, 2, 3):
        await post(objects, RUN, make_inbox_message(number))

    # Given the state after it read the decision and two messages
    later = with_inbox_number(make_state(make_wait(2)), 2)
    came = await read_arrivals(objects, later, all_messages=True)

    assert {} == came.decisions
    assert [3] == [each.number for each in came.inbox_messages]


async def test_arrivals_cost_one_listing_and_one_read_each() -> None:
    store = FaultyStore(MemoryStore())
    objects = Objects(store)
    waits = [make_wait(number) for number in range(1, 6)]
    loaded = await store_suspended_run(objects, *waits)
    for number in (1, 2):
        await decide(
            objects,
            waits[number].id,
            Deny(),
            now=MOMENT,
            decision_id=make_ulid(number),
        )
    store.operations.clear()

    await read_arrivals(objects, loaded.state, all_messages=True)

    assert ["keys", "read", "read"] == [each.verb for each in store.operations]


async def test_inbox_messages_are_sorted_by_number(objects: Objects) -> None:
    loaded = await store_suspended_run(objects)
    for number in range(1, 13):
        await post(objects, RUN, make_inbox_message(number))

    came = await read_arrivals(objects, loaded.state, all_messages=True)

    assert list(range(1, 13)) == [each.number for each in came.inbox_messages]
    assert "letter 12" == came.inbox_messages[11].message.content


async def test_arrivals_of_a_run_with_a_longer_id_are_not_read() -> None:
    objects = make_objects()
    loaded = await store_suspended_run(objects)
    await store_suspended_run(objects, run_id=RUN + "0")
    await record_cancel_request(objects, RUN + "0", make_cancel_request())
    await post(objects, RUN + "0", make_inbox_message(1))

    assert Arrivals() == await read_arrivals(objects, loaded.state, all_messages=True)


@pytest.mark.parametrize("name", [".DS_Store", "m-1", "m-x", "d-x", "cancel2"])
async def test_foreign_key_is_ignored(name: str, objects: Objects) -> None:
    loaded = await store_suspended_run(objects, make_wait())
    await objects.create(layout.arrivals_prefix(RUN) + name, b"")

    assert Arrivals() == await read_arrivals(objects, loaded.state, all_messages=True)


# Only its own ------------------------------------------------------------------


async def test_decision_with_another_digest_is_corrupt(objects: Objects) -> None:
    """The digest of a decision equals the digest of its wait."""
    wait = make_wait()
    loaded = await store_suspended_run(objects, wait)
    recorded = await decide(
        objects, wait.id, Approve(), now=MOMENT, decision_id=make_ulid(1)
    )

    # Given a version whose wait has other arguments
    other = replace(wait, digest="f" * 64)
    state = replace(loaded.state, waits={wait.id: other})

    with pytest.raises(Corrupt) as caught:
        await read_arrivals(objects, state)
    assert wait.id in str(caught.value)
    assert recorded == await read_decision(objects, wait.id)


async def test_decided_waits_lists_decisions_only(objects: Objects) -> None:
    """Foreign keys are not listed as decided waits."""
    waits = [make_wait(1), make_wait(2, "unknown"), make_wait(3)]
    await store_suspended_run(objects, *waits)
    for wait in waits[:2]:
        await decide(objects, wait.id, Deny(), now=MOMENT, decision_id=make_ulid(1))
    await post(objects, RUN, make_inbox_message(1))
    await record_cancel_request(objects, RUN, make_cancel_request())
    await objects.create(f"{layout.arrivals_prefix(RUN)}d-readme", b"")

    found = await list_decided_wait_ids(objects, RUN)

    assert sorted(wait.id for wait in waits[:2]) == sorted(found)


async def test_decision_deleted_before_reading_is_corrupt(inner: MemoryStore) -> None:
    """A decision that was listed and cannot be read is an error, not an open wait."""
    wait = make_wait()
    loaded = await store_suspended_run(Objects(inner), wait)
    await decide(
        Objects(inner), wait.id, Approve(), now=MOMENT, decision_id=make_ulid(1)
    )
    key = layout.decision_key(wait.id)
    visits = InterleavingStore(inner, 2, partial(inner.delete, key))

    with pytest.raises(Corrupt) as caught:
        await read_arrivals(Objects(visits), loaded.state, all_messages=True)
    assert (RUN, wait.id) == (caught.value.run_id, caught.value.wait_id)


async def test_inbox_message_deleted_before_reading_names_the_run() -> None:
    """The error has the run id, so that a sweep goes on with other runs."""
    inner = MemoryStore()
    loaded = await store_suspended_run(Objects(inner), make_wait())
    await post(Objects(inner), RUN, make_inbox_message(1))
    gone = partial(inner.delete, layout.numbered_key(layout.MESSAGE, RUN, 1))
    visits = InterleavingStore(inner, 2, gone)

    with pytest.raises(
        Corrupt, match="is missing, although it or a later one was listed"
    ) as caught:
        await read_arrivals(Objects(visits), loaded.state, all_messages=True)
    assert RUN == caught.value.run_id


async def test_decision_under_the_key_of_another_wait_is_corrupt() -> None:
    """An approval of one call does not approve another call."""
    store = MemoryStore()
    objects = Objects(store)
    one, two = make_wait(1), make_wait(2)
    loaded = await store_suspended_run(objects, one, two)
    await decide(objects, one.id, Approve(), now=MOMENT, decision_id=make_ulid(1))
    await copy_object(store, layout.decision_key(one.id), layout.decision_key(two.id))

    with pytest.raises(Corrupt):
        await read_arrivals(objects, loaded.state, all_messages=True)
    with pytest.raises(Corrupt):
        await read_decision(objects, two.id)


async def test_decision_of_another_run_is_corrupt(store: MemoryStore) -> None:
    """The run is compared, also if the rest of the wait id is equal."""
    objects = Objects(store)
    mine, theirs = make_wait(1), make_wait(1, run_id="kim-1")
    loaded = await store_suspended_run(objects, mine)
    await store_suspended_run(objects, theirs, run_id="kim-1")
    await decide(objects, theirs.id, Approve(), now=MOMENT, decision_id=make_ulid(1))
    await copy_object(
        store, layout.decision_key(theirs.id), layout.decision_key(mine.id)
    )

    with pytest.raises(Corrupt):
        await read_arrivals(objects, loaded.state, all_messages=True)


async def test_cancel_request_of_another_run_is_corrupt(store: MemoryStore) -> None:
    """A cancel request that was copied from another run is not used."""
    objects = Objects(store)
    loaded = await store_suspended_run(objects)
    await record_cancel_request(objects, "kim-1", make_cancel_request())
    await copy_object(
        store, layout.cancel_request_key("kim-1"), layout.cancel_request_key(RUN)
    )

    with pytest.raises(Corrupt):
        await read_cancel_request(objects, RUN)
    with pytest.raises(Corrupt):
        await read_arrivals(objects, loaded.state, all_messages=True)


@pytest.mark.parametrize(
    ("source", "target"), [(("kim-1", 1), (RUN, 1)), ((RUN, 1), (RUN, 2))]
)
async def test_inbox_message_of_another_run_or_number_is_corrupt(
    source: tuple[str, int], target: tuple[str, int], store: MemoryStore
) -> None:
    """A copied inbox message is not used."""
    objects = Objects(store)
    loaded = await store_suspended_run(objects)
    await post(objects, source[0], make_inbox_message(1))
    await copy_object(
        store,
        layout.numbered_key(layout.MESSAGE, *source),
        layout.numbered_key(layout.MESSAGE, *target),
    )

    with pytest.raises(Corrupt):
        await read_arrivals(objects, loaded.state, all_messages=True)


@pytest.mark.parametrize("body", [b"", b"\0" * 90, b"true", b'{"kind":"approve"}'])
async def test_unreadable_arrival_is_named_and_kept(body: bytes) -> None:
    """An unreadable decision is an error, and is not overwritten."""
    for place_of in (
        layout.decision_key(make_wait().id),
        layout.cancel_request_key(RUN),
        layout.numbered_key(layout.MESSAGE, RUN, 1),
    ):
        objects = make_objects()
        loaded = await store_suspended_run(objects, make_wait())
        await objects.create(place_of, body)

        with pytest.raises(FormatError) as caught:
            await read_arrivals(objects, loaded.state, all_messages=True)
        assert place_of in str(caught.value)
        assert body == await objects.read(place_of)


async def test_object_of_another_kind_is_corrupt(objects: Objects) -> None:
    """A denial under the key of the cancel request is not used."""
    wait = make_wait()
    loaded = await store_suspended_run(objects, wait)
    recorded = await decide(
        objects, wait.id, Deny(), now=MOMENT, decision_id=make_ulid(1)
    )
    assert isinstance(recorded, Decision)
    await objects.create(layout.cancel_request_key(RUN), DECISION.encode(recorded, RUN))

    with pytest.raises(FormatError):
        await read_arrivals(objects, loaded.state, all_messages=True)


# The replies of messages ------------------------------------------------------


def grown(turns: list[tuple[int, int]]) -> dict[int, tuple[ReplyTable, int]]:
    """Return the tables of a thread by version; a turn has its versions and replies."""
    tables: dict[int, tuple[ReplyTable, int]] = {}
    table: ReplyTable = ()
    version, answered = 1, 0
    for size, replies in turns:
        version += size
        table = follow(table, answered, answered + replies, version)
        answered += replies
        tables[version] = table, answered
    return tables


def looks_for(tables: dict[int, tuple[ReplyTable, int]], number: int) -> int:
    """Follow the tables to a reply; return the number of looks, and check the end."""
    version, looks = max(tables), 0
    while True:
        table, answered = tables[version]
        found, named = nearest_reply(table, answered, number)
        assert number <= found
        looks += 1
        version = named
        if found == number:
            first = min(v for v, (_, last) in tables.items() if last >= number)
            assert first == version
            return looks


@pytest.mark.parametrize(("replies", "most"), [(16, 1), (256, 2), (3000, 3)])
def test_each_reply_is_found_with_few_looks(replies: int, most: int) -> None:
    """The sizes of the turns do not matter."""
    rng = random.Random(replies)  # noqa: S311 - the same turns in each test
    tables = grown([(rng.choice((1, 3, 40)), 1) for _ in range(replies)])
    assert most == max(looks_for(tables, n) for n in range(1, replies + 1))
    assert max(len(table) for table, _ in tables.values()) <= 16 * most + 1


def test_messages_with_one_reply_name_its_version() -> None:
    tables = grown([(3, 1), (3, 2), (3, 1)])
    assert [1, 1, 1, 1] == [looks_for(tables, number) for number in (1, 2, 3, 4)]


def test_replies_before_the_first_table_are_unknown() -> None:
    """A repair makes a version without a table; later replies have entries."""
    table = follow((), 20, 21, 90)
    assert (21, 90) == nearest_reply(table, 21, 21)
    for number in range(1, 21):
        assert 0 == nearest_reply(table, 21, number)[1]


def test_a_short_table_and_a_message_0_are_unknown() -> None:
    """A damaged header raises no error here."""
    assert (16, 0) == nearest_reply((7,), 40, 5)
    assert (40, 0) == nearest_reply((), 40, 40)
    assert (0, 0) == nearest_reply((), 0, 0)
