"""Publish an event: record the event once, and give it to all waiting runs.

The order is: the marker, the event, then the waits. After a crash between two of these
steps the marker is left, and a sweep does the rest.
"""

from __future__ import annotations

import dataclasses
import logging
from asyncio import Lock, gather
from contextlib import suppress
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.rows import event_matching
from continuations.core.rows.decisions import Decision
from continuations.core.rows.waits import waits_for_events
from continuations.core.ulid import RANDOM_BYTES, encode_ulid
from continuations.errors import Corrupt, FormatError, InvalidInput, NewerFormat
from continuations.ledger import event_keys, layout, markers
from continuations.ledger.decisions.decisions import record_decision
from continuations.ledger.index import event_waiters
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.ledger.store_clock import StoreClock
from continuations.value_class import dataclass
from continuations.wire.arrivals import EVENT, PublishedEvent
from continuations.wire.fields import to_milliseconds, whole_milliseconds
from continuations_storage.contract import is_last_page

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from continuations.core.rows.decisions import Door
    from continuations.ledger.claims import Clock
    from continuations.ledger.objects import Objects

    NewUlid = Callable[[datetime], str]
    from collections.abc import Iterable

    from continuations.core.rows.waits import Wait


# An event is dated again if the store shows that this machine's clock differs by more.
_CLOCK_TOLERANCE = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The result of `publish`.

    Attributes:
        id: Id of the event.
        run_ids: The runs with a wait that this call ended, sorted. They continue at the
            next resume or sweep.
    """

    id: str
    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPublisher:
    """Publishes events to the runs of a store; needs no agents."""

    objects: Objects
    clock: Clock
    new_ulid: NewUlid

    async def publish(
        self,
        name: str,
        key: str | None,
        data: str,
        *,
        by: str | None,
        own_id: str | None,
        door: Door,
    ) -> Publication:
        """Record an event, and end the waits that match it.

        `data` is JSON text. With `own_id`, a repeated call records no second event. It
        ends the waits that the first call left open.

        Raises:
            InvalidInput: The own id names an event with other data.
            Corrupt, FormatError: The record of the own id cannot be read.
            StoreError: The event may or may not be recorded. Some waits may be ended.
        """
        clock, topic = StoreClock(self.clock), event_keys.topic_of(name, key)
        event_id = await self._create_marker(clock, topic, own_id)
        event = PublishedEvent(
            id=event_id,
            name=name,
            key=key,
            at=event_keys.published_marker(topic, event_id).published_at,
            data=data,
            by=by,
            own_id=own_id,
            door=door.name,
            authentication=door.authentication,
        )
        if own_id is not None:
            event = await self._first_with_own_id(topic, event)
        await self._create(event_keys.event_key(topic, event.id), EVENT.encode(event))
        delivery = EventDelivery(
            self.objects, clock, lambda: self.new_ulid(self.clock.now())
        )
        delivered = await delivery.deliver(topic)
        await self._create(event_keys.old_marker(topic, event.id).key, b"")
        # A wait that is opened before the commit of an application's transaction does
        # not find the event. So a sweep looks for such waits after the commit.
        if delivered.is_complete and not self.objects.in_transaction:
            marker = event_keys.published_marker(topic, event.id)
            await self.objects.delete(marker.key)
        ended = [layout.parse_wait_id(each.wait_id) for each in delivered.decisions]
        run_ids = sorted({wait_id.run_id for wait_id in ended})
        return Publication(id=event.id, run_ids=tuple(run_ids))

    async def _create_marker(
        self, clock: StoreClock, topic: str, own_id: str | None
    ) -> str:
        """Create the marker of a new event; return the event's id.

        The id contains the store's time, so that events have one order for all runs.
        """
        while True:
            before = clock.correction
            event_id = self._new_event_id(clock.now(), topic, own_id)
            marker = event_keys.published_marker(topic, event_id)
            await clock.create(self.objects, marker.key)
            if abs(clock.correction - before) <= _CLOCK_TOLERANCE:
                return event_id
            await self.objects.delete(marker.key)

    def _new_event_id(self, now: datetime, topic: str, own_id: str | None) -> str:
        now = whole_milliseconds(now)
        if own_id is None:
            return self.new_ulid(now)
        digest = jsontext.digest(topic, own_id)
        randomness = bytes.fromhex(digest[: 2 * RANDOM_BYTES])
        return encode_ulid(to_milliseconds(now), randomness)

    async def _first_with_own_id(
        self, topic: str, event: PublishedEvent
    ) -> PublishedEvent:
        """Return the event that the first call with an own id records."""
        key = event_keys.own_id_key(topic, event.id)
        first = None
        while first is None:
            if await self._create(key, EVENT.encode(event)):
                return event
            with suppress(NotFound):  # a sweep deleted it meanwhile: it was old
                first = EVENT.decode(await self.objects.read(key), key)
        own_marker = event_keys.published_marker(topic, event.id)
        problem = _why_no_repeat(first, event)
        if first.id != event.id:
            if problem is None:
                # The first call may have died before it created the event.
                marker = event_keys.published_marker(topic, first.id)
                await self._create(marker.key, b"")
            await self.objects.delete(own_marker.key)
        if problem is not None:
            raise problem
        return first

    async def _create(self, key: str, body: bytes) -> bool:
        """Create an object; return whether it did not exist."""
        try:
            await self.objects.create(key, body)
        except AlreadyExists:
            return False
        return True


def _why_no_repeat(first: PublishedEvent, event: PublishedEvent) -> InvalidInput | None:
    """Return the error for an own id that names another event, or `None`."""
    same = (first.name, first.key, first.data, first.own_id)
    if same == (event.name, event.key, event.data, event.own_id):
        return None
    return InvalidInput(
        f"The event {event.name!r} was not published: its id names event {first.id}, "
        "which has other data. Use a new id."
    )


_log = logging.getLogger("continuations")
# How many waits are ended at the same time.
_PARALLEL_WAITS = 50


@dataclasses.dataclass(slots=True)
class Delivered:
    """The result of giving the events of a topic to its waits.

    Attributes:
        decisions: The decisions that ended waits, in the order of the waits' ids.
        is_complete: Whether every wait and event was readable. A newer release must
            look at the others.
    """

    decisions: list[Decision] = field(default_factory=list[Decision])
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class EventDelivery:
    """Ends waits by the published events that they match."""

    objects: Objects
    clock: StoreClock
    new_ulid: Callable[[], str]

    async def deliver(self, topic: str) -> Delivered:
        """Give the events of a topic to all waits that can take one.

        Thousands of waits are ended some at a time. A crash leaves some waits ended,
        each with a marker, and the others open.

        Raises:
            StoreError: The store failed. Some waits may be ended.
        """
        delivered, group = Delivered(), list[str]()
        # The waits are listed in the order in which they were opened.
        log = EventLog(self.objects, topic, self.objects.listing_size)
        async for key in event_waiters.listed(self.objects, topic):
            group.append(key)
            if len(group) == _PARALLEL_WAITS:
                await self._deliver_to_group(log, group, delivered)
                group = []
        await self._deliver_to_group(log, group, delivered)
        return delivered

    async def look_back(self, waits: Iterable[Wait]) -> None:
        """Give events that were published before to waits that were just opened.

        Raises:
            StoreError: The store failed. Look back again.
        """
        delivered = Delivered()

        async def look_back_for(wait: Wait) -> None:
            # Enough for one event more than the run has taken.
            topic, limit = event_keys.topic_of_wait(wait), len(wait.events_taken) + 1
            log = EventLog(self.objects, topic, limit)
            await self._deliver_to(log, wait, delivered)

        await gather(*map(look_back_for, waits_for_events(waits)))

    async def _deliver_to_group(
        self, log: EventLog, keys: list[str], delivered: Delivered
    ) -> None:
        reads = (self._read_waiter(key, delivered) for key in keys)
        waits = [wait for wait in await gather(*reads) if wait is not None]
        await gather(*(self._deliver_to(log, wait, delivered) for wait in waits))

    async def _read_waiter(self, key: str, delivered: Delivered) -> Wait | None:
        try:
            return await event_waiters.read(self.objects, key)
        except FormatError as error:
            _skip(delivered, error)
            return None

    async def _deliver_to(
        self, log: EventLog, wait: Wait, delivered: Delivered
    ) -> None:
        try:
            event = await log.next_for(wait)
        except FormatError as error:
            _skip(delivered, error)
            return
        if event is not None:
            await self._end(wait, event, delivered)

    async def _end(
        self, wait: Wait, event: PublishedEvent, delivered: Delivered
    ) -> None:
        decision_id = self.new_ulid()
        marker = markers.for_decision(wait.id, decision_id)
        told = await markers.create(self.objects, marker)
        proposed = Decision(
            id=decision_id,
            wait_id=wait.id,
            kind="answer",
            at=whole_milliseconds(told or self.clock.now()),
            digest=wait.digest,
            by=event.by,
            door=event.door,
            authentication=event.authentication,
            value=event.data,
            marker=marker.key,
            event=event.id,
        )
        recorded = await record_decision(self.objects, proposed)
        if recorded.id == proposed.id:
            delivered.decisions.append(proposed)
        else:
            await self.objects.delete(marker.key)
        await event_waiters.delete(self.objects, [wait])


class EventLog:
    """The events of a topic, each listed and read once, as far as waits need them.

    Args:
        objects: The store.
        topic: The topic.
        page_size: How many events to list at a time.
    """

    def __init__(self, objects: Objects, topic: str, page_size: int) -> None:
        self._objects = objects
        self._topic = topic
        self._page_size = page_size
        self._keys: list[str] = []
        self._first: str | None = None
        self._is_whole = False
        self._events: dict[str, PublishedEvent | None] = {}
        self._lock = Lock()

    async def next_for(self, wait: Wait) -> PublishedEvent | None:
        """Return the oldest event that a wait can take, or `None`.

        An event that was published after the deadline of the wait comes too late.
        """
        async with self._lock:
            return await self._next_for(wait)

    async def _next_for(self, wait: Wait) -> PublishedEvent | None:
        begin = event_keys.key_before_events(self._topic, wait.created_at)
        if self._first is None or begin < self._first:
            self._first, self._keys, self._is_whole = begin, [], False
        number = 0
        while await self._has(number):
            key = self._keys[number]
            number += 1
            event_id = event_keys.event_id_in(key)
            if key <= begin or event_id is None:
                continue
            if not event_matching.may_take(wait.events_taken, event_id):
                continue
            if event_id not in self._events:
                read = await read_event(self._objects, self._topic, event_id)
                self._events[event_id] = read
            event = self._events[event_id]
            if event is not None:
                in_time = event_matching.is_in_time(event.at, wait.deadline)
                return event if in_time else None
        return None

    async def _has(self, number: int) -> bool:
        """Return whether there is an event with a position; list more if needed."""
        while number >= len(self._keys) and not self._is_whole:
            after = self._keys[-1] if self._keys else self._first or ""
            prefix = event_keys.events_prefix(self._topic)
            page = await self._objects.keys(prefix, after, self._page_size)
            self._keys += page
            self._is_whole = is_last_page(page, self._page_size)
        return number < len(self._keys)


def _skip(delivered: Delivered, error: FormatError) -> None:
    """Go on with the other waits: one object must not hide an event from them."""
    delivered.is_complete &= not isinstance(error, NewerFormat)
    _log.warning("a wait for an event was left open: %s", error)


async def read_event(
    objects: Objects, topic: str, event_id: str
) -> PublishedEvent | None:
    """Return an event; `None` if it was deleted, because it is old.

    Raises:
        Corrupt, FormatError: The event is damaged or has a newer format.
        StoreError: The store failed.
    """
    key = event_keys.event_key(topic, event_id)
    try:
        event = EVENT.decode(await objects.read(key), key)
    except NotFound:
        return None
    is_of_topic = event_keys.topic_of(event.name, event.key) == topic
    if event.id != event_id or not is_of_topic:
        raise Corrupt(
            f"{key} is damaged: it contains another event. It was not changed. Restore "
            "it from a backup, or delete it and publish the event again."
        )
    return event
