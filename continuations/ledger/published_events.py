"""Publish an event: record the event once, and give it to all waiting runs.

The order is: the marker, the event, then the waits. After a crash between two of these
steps the marker is left, and a sweep does the rest.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.ulid import RANDOM_BYTES, encode_ulid
from continuations.errors import InvalidInput
from continuations.ledger import event_keys, layout
from continuations.ledger.event_delivery import EventDelivery
from continuations.ledger.objects import AlreadyExists, NotFound
from continuations.ledger.store_clock import StoreClock
from continuations.value_class import dataclass
from continuations.wire.arrivals import EVENT, PublishedEvent
from continuations.wire.fields import to_milliseconds, whole_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from continuations.core.doors import Door
    from continuations.ledger.claims import Clock
    from continuations.ledger.objects import Objects

    NewUlid = Callable[[datetime], str]

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
        if delivered.is_complete:
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
