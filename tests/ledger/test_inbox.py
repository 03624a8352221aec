"""The inbox messages of a run in dense numbers, and its cancel request."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from continuations import errors
from continuations.core import messages as chat_messages
from continuations.ledger import layout
from continuations.ledger.arrivals import inbox
from continuations.ledger.arrivals.arrivals import read_arrivals, read_cancel_request
from continuations.ledger.arrivals.inbox import post, post_once, record_cancel_request
from continuations.ledger.objects import Objects
from continuations.wire.arrivals import CancelRequest, InboxMessage
from continuations_storage import MemoryStore
from continuations_storage.errors import Unavailable
from continuations_storage.faults import FaultyStore, on, refused
from tests.ledger.fake_clock import MOMENT, make_ulid, seconds_after_start
from tests.ledger.interleaving import InterleavingStore
from tests.ledger.runs import (
    RUN,
    all_keys,
    make_objects,
    store_suspended_run,
)


def make_inbox_message(number: int) -> InboxMessage:
    """Return an inbox message without a number."""
    message = chat_messages.user_message(f"letter {number}")
    return InboxMessage(
        id=make_ulid(number), number=0, at=MOMENT, message=message, by="kim"
    )


def make_cancel_request(number: int, reason: str = "enough") -> CancelRequest:
    return CancelRequest(id=make_ulid(number), at=MOMENT, by="kim", reason=reason)


# Posting ------------------------------------------------------------------------


async def test_posted_messages_get_consecutive_numbers() -> None:
    objects = make_objects()
    for number in range(1, 12):
        posted = await post(objects, RUN, make_inbox_message(number))
        assert number == posted.number
    assert 1 == (await post(objects, "another", make_inbox_message(1))).number


async def test_posted_message_is_read_back_equal() -> None:
    objects = make_objects()
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
    """The same message has the same id and time."""
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
    marker = layout.parse_marker(posted.marker)

    assert marker is not None
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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two processes post one message for the last free place: neither is refused."""
    monkeypatch.setattr(inbox, "MAX_UNREAD_MESSAGES", 1)

    inner = MemoryStore()
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


async def test_concurrent_cancel_requests_all_get_the_first() -> None:
    """A cancel request is created once."""
    objects = make_objects()
    reading = await asyncio.gather(
        *(
            record_cancel_request(
                objects, RUN, make_cancel_request(number, f"reason {number}")
            )
            for number in range(9)
        )
    )

    first = await read_cancel_request(objects, RUN)
    assert first is not None
    assert [first] * 9 == reading
    assert [first.marker] == await all_keys(objects, "markers/")


async def test_cancel_request_keeps_person_and_reason() -> None:
    objects = make_objects()
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


async def test_repeated_cancel_request_keeps_its_marker() -> None:
    """The same request has the same id and time."""
    objects = make_objects()
    first = await record_cancel_request(objects, RUN, make_cancel_request(1))
    again = await record_cancel_request(objects, RUN, make_cancel_request(1))

    assert first == again
    assert [first.marker] == await all_keys(objects, "markers/")
