"""Arrivals: each decision, inbox message and cancel request is read once."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from continuations.core import messages as chat_messages
from continuations.core.rows.decisions import Answer, Approve, Decision, Deny
from continuations.core.rows.state import RunState
from continuations.errors import Corrupt, FormatError
from continuations.ledger import layout
from continuations.ledger.arrivals.arrivals import (
    Arrivals,
    read_arrivals,
    read_cancel_request,
)
from continuations.ledger.arrivals.inbox import post, record_cancel_request
from continuations.ledger.arrivals.recorded_decisions import (
    list_decided_wait_ids,
    read_decision,
)
from continuations.ledger.decisions.decisions import decide
from continuations.ledger.objects import Objects
from continuations.wire.arrivals import CancelRequest, InboxMessage
from continuations.wire.records import DECISION
from continuations_storage import MemoryStore
from continuations_storage.faults import FaultyStore
from tests.ledger.fake_clock import MOMENT, make_ulid
from tests.ledger.interleaving import InterleavingStore
from tests.ledger.runs import (
    RUN,
    copy_object,
    make_objects,
    make_state,
    make_wait,
    store_suspended_run,
)


def make_inbox_message(number: int, text: str = "") -> InboxMessage:
    """Return an inbox message without a number."""
    message = chat_messages.user_message(text or f"letter {number}")
    return InboxMessage(id=make_ulid(number), number=0, at=MOMENT, message=message)


def make_cancel_request(number: int = 1, reason: str | None = None) -> CancelRequest:
    return CancelRequest(id=make_ulid(number), at=MOMENT, by="kim", reason=reason)


def with_inbox_number(state: RunState, number: int) -> RunState:
    """Return the run after it read some inbox messages."""
    return replace(state, run=replace(state.run, last_inbox_number=number))


async def test_arrivals_of_a_quiet_run_are_empty() -> None:
    objects = make_objects()
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


async def test_inbox_messages_are_sorted_by_number() -> None:
    objects = make_objects()
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
async def test_foreign_key_is_ignored(name: str) -> None:
    objects = make_objects()
    loaded = await store_suspended_run(objects, make_wait())
    await objects.create(layout.arrivals_prefix(RUN) + name, b"")

    assert Arrivals() == await read_arrivals(objects, loaded.state, all_messages=True)


# Only its own ------------------------------------------------------------------


async def test_decision_with_another_digest_is_corrupt() -> None:
    """The digest of a decision equals the digest of its wait."""
    objects = make_objects()
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


async def test_decided_waits_lists_decisions_only() -> None:
    """Foreign keys are not listed as decided waits."""
    objects = make_objects()
    waits = [make_wait(1), make_wait(2, "unknown"), make_wait(3)]
    await store_suspended_run(objects, *waits)
    for wait in waits[:2]:
        await decide(objects, wait.id, Deny(), now=MOMENT, decision_id=make_ulid(1))
    await post(objects, RUN, make_inbox_message(1))
    await record_cancel_request(objects, RUN, make_cancel_request())
    await objects.create(f"{layout.arrivals_prefix(RUN)}d-readme", b"")

    found = await list_decided_wait_ids(objects, RUN)

    assert sorted(wait.id for wait in waits[:2]) == sorted(found)


async def test_decision_deleted_before_reading_is_corrupt() -> None:
    """A decision that was listed and cannot be read is an error, not an open wait."""
    inner = MemoryStore()
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


async def test_object_of_another_kind_is_corrupt() -> None:
    """A denial under the key of the cancel request is not used."""
    objects = make_objects()
    wait = make_wait()
    loaded = await store_suspended_run(objects, wait)
    recorded = await decide(
        objects, wait.id, Deny(), now=MOMENT, decision_id=make_ulid(1)
    )
    assert isinstance(recorded, Decision)
    await objects.create(layout.cancel_request_key(RUN), DECISION.encode(recorded, RUN))

    with pytest.raises(FormatError):
        await read_arrivals(objects, loaded.state, all_messages=True)
