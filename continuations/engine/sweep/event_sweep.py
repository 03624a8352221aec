"""Finish publications whose process died, and delete events that are old.

This needs neither agents nor runs, so every sweep does it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.core.rows.event_matching import KEPT_FOR
from continuations.errors import ContinuationsError, FormatError
from continuations.ledger import event_keys, layout, markers
from continuations.ledger.objects import NotFound, in_batches
from continuations.ledger.published_events import EventDelivery
from continuations.value_class import dataclass
from continuations.wire.arrivals import EVENT
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from continuations.ledger.event_keys import EventMarker
    from continuations.ledger.layout import Marker
    from continuations.ledger.objects import Objects
    from continuations.ledger.store_clock import StoreClock

_log = logging.getLogger("continuations")
# The work of one sweep. Later sweeps delete the rest.
MAX_DELETED_EVENTS = 1000
_PARALLEL_EVENTS = 50


@dataclass(frozen=True, slots=True)
class EventSweep:
    """Processes the due markers of events."""

    objects: Objects
    clock: StoreClock
    new_ulid: Callable[[], str]

    async def process(self, due: Iterable[EventMarker]) -> list[Marker]:
        """End the waits of published events, and delete old events.

        An error is logged, and a later sweep does the rest: it must not stop the sweep
        of runs.

        Returns:
            The markers of the decisions that were recorded; their runs are due.
        """
        due = list(due)
        published = [marker for marker in due if marker.reason == "p"]
        old = [marker for marker in due if marker.reason == "o"][:MAX_DELETED_EVENTS]
        if old:
            old = await self._really_old(old)
        decided: list[Marker] = []
        for marker in published:
            try:
                decided += await self._finish(marker)
            except ContinuationsError:
                _log.warning("event %s is not finished", marker.event_id, exc_info=True)
        for group in in_batches(old, _PARALLEL_EVENTS):
            deletes = (self._delete(marker) for marker in group)
            for result in await asyncio.gather(*deletes, return_exceptions=True):
                if isinstance(result, ContinuationsError):
                    _log.warning("an old event was not deleted: %s", result)
                elif isinstance(result, BaseException):
                    raise result
        return decided

    async def _finish(self, marker: EventMarker) -> list[Marker]:
        """End the waits for an event, as its publisher does."""
        event_key = event_keys.event_key(marker.topic, marker.event_id)
        if not await self.objects.keys(event_key, limit=1):
            await self._postpone(marker)
            return []
        delivery = EventDelivery(self.objects, self.clock, self.new_ulid)
        delivered = await delivery.deliver(marker.topic)
        old = event_keys.old_marker(marker.topic, marker.event_id)
        await markers.create_key(self.objects, old.key)
        if delivered.is_complete:
            await self.objects.delete(marker.key)
        keys = (decision.marker or "" for decision in delivered.decisions)
        return list(filter(None, map(layout.parse_marker, keys)))

    async def _really_old(self, old: list[EventMarker]) -> list[EventMarker]:
        """Return the markers whose events are old by the store's time.

        The clock of this machine may be wrong, and not every listing tells the time.
        So a marker is created to learn the time. Its id is new: the create of a key
        that another sweep has left tells nothing.
        """
        probe = event_keys.probe_marker(old[0].topic, self.new_ulid())
        try:
            await self.clock.create(self.objects, probe.key)
            # If another sweep has deleted it, the store could not tell the time.
            is_known = self.clock.is_observed or await self.objects.exists(probe.key)
            await self.objects.delete(probe.key)
        except ContinuationsError:
            _log.warning("old events are not deleted", exc_info=True)
            return []
        return [
            each for each in old if each.is_probe or (is_known and self._is_old(each))
        ]

    def _is_old(self, marker: EventMarker) -> bool:
        return abs(self.clock.now() - marker.published_at) >= KEPT_FOR

    async def _postpone(self, marker: EventMarker) -> None:
        """Look later at a marker whose event does not exist, or never again.

        Its publisher is about to create the event, or died. The first delay is a
        minute; each further one is three times the age of the marker, at most a day.
        """
        later, before = self._later(marker), self.clock.correction
        await self.clock.create(self.objects, later.key)
        if abs(self.clock.correction - before) >= markers.FIRST_RETRY_DELAY / 4:
            # The reply shows that the clock of this machine is wrong.
            await self.objects.delete(later.key)
            later = self._later(marker)
            await markers.create_key(self.objects, later.key)
        if self._is_old(marker):
            await self.objects.delete(later.key)
            await self._delete_unpublished(marker)
        else:
            await self.objects.delete(marker.key)

    def _later(self, marker: EventMarker) -> EventMarker:
        now = self.clock.now()
        delay = max(markers.FIRST_RETRY_DELAY, 3 * abs(now - marker.published_at))
        delay = min(delay, markers.MAX_RETRY_DELAY)
        return marker.with_due_time(to_milliseconds(now + delay))

    async def _delete_unpublished(self, marker: EventMarker) -> None:
        """Delete what is left of an event that does not exist.

        A publisher whose clock was wrong may have published it under a later id. Then
        the publisher's own id names that event.
        """
        own_id_key = event_keys.own_id_key(marker.topic, marker.event_id)
        with suppress(NotFound, FormatError):
            first = EVENT.decode(await self.objects.read(own_id_key), own_id_key)
            if first.id == marker.event_id:
                await self.objects.delete(own_id_key)
        await self.objects.delete(marker.key)

    async def _delete(self, marker: EventMarker) -> None:
        """Delete an event; its marker goes last. A probe that was left has no event."""
        topic, event_id = marker.topic, marker.event_id
        if not marker.is_probe:
            await self.objects.delete(event_keys.event_key(topic, event_id))
            await self.objects.delete(event_keys.own_id_key(topic, event_id))
        await self.objects.delete(marker.key)
