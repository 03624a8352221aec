"""Bugs of published events and of signals: lost, doubled, or left behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from continuations.core.rows import event_matching
from continuations.core.rows.waits import Wait
from continuations.engine.arrivals import arrival_reducer
from continuations.engine.journal import publishing
from continuations.engine.sweep.event_sweep import EventSweep
from continuations.ledger import event_keys
from continuations.ledger.event_keys import EventMarker
from continuations.ledger.index import event_waiters
from continuations.ledger.layout import Marker
from continuations.ledger.published_events import (
    Delivered,
    EventDelivery,
    EventLog,
    EventPublisher,
)
from continuations.ledger.store_clock import StoreClock
from continuations.wire.arrivals import PublishedEvent
from tests.simulation.families import EVENTS
from tests.simulation.mutants.mutant import (
    Original,
    Patches,
    gives_back,
    mutants_of,
    patch,
    returns,
    skip,
)

mutant = mutants_of(EVENTS)

# Nothing is lost ----------------------------------------------------------------------


@mutant("no_event_is_lost")
def a_worker_does_not_look_back() -> Patches:
    """A worker does not look back at events before its wait."""
    yield skip(publishing.look_back)


@mutant("no_event_is_lost")
def a_repair_does_not_look_back() -> Patches:
    """A worker that finishes the work of a dead one does not look back."""
    from continuations.engine.sweep import sweeping  # noqa: PLC0415 - only its copy

    yield skip(publishing.look_back, only_in=(sweeping,))


@mutant("no_event_is_lost")
def waits_are_listed_before_the_event() -> Patches:
    """A publisher lists the waits before it creates the event."""
    deliver = EventDelivery.deliver

    async def create(original: Original, self: EventPublisher, key: str) -> Any:
        if "/e-" in key:
            clock = _clock_of(self)
            delivery = EventDelivery(
                self.objects, clock, lambda: self.new_ulid(self.clock.now())
            )
            await deliver(delivery, key.split("/")[1])
        return await original()

    yield patch(EventPublisher._create, create)
    yield returns(EventDelivery.deliver, Delivered())


def _clock_of(publisher: EventPublisher) -> StoreClock:
    from continuations.ledger.store_clock import StoreClock  # noqa: PLC0415

    return StoreClock(publisher.clock)


@mutant("no_event_is_lost", "events_leave_nothing")
def an_event_has_no_marker() -> Patches:
    """A publisher makes no marker before the event."""

    async def create_marker(
        self: EventPublisher, clock: StoreClock, topic: str, own_id: str | None
    ) -> str:
        return self._new_event_id(clock.now(), topic, own_id)

    yield patch(EventPublisher._create_marker, create_marker)


@mutant("no_event_is_lost", "events_leave_nothing")
def a_sweep_does_not_finish_a_publication() -> Patches:
    """A sweep deletes the marker of a dead publisher, and ends no wait."""

    async def finish(self: EventSweep, marker: EventMarker) -> list[Marker]:
        await self.objects.delete(marker.key)
        return []

    yield patch(EventSweep._finish, finish)


@mutant("no_event_is_lost")
def a_wait_is_not_made_known() -> Patches:
    """Publishers do not find the waits that a worker opens."""
    yield skip(event_waiters.create)


@mutant("no_event_is_lost")
def a_sweep_trusts_its_clock_about_old_events() -> Patches:
    """A sweep trusts its own clock about the age of an event."""
    yield gives_back(EventSweep._really_old, "old")


# Nothing is taken twice ---------------------------------------------------------------


@mutant("an_event_is_taken_once")
def a_taken_event_is_forgotten() -> Patches:
    """A run does not remember which events its waits took."""
    yield gives_back(event_matching.with_event, "taken")


@mutant("each_wait_takes_the_oldest_event")
def a_wait_takes_the_newest_event() -> Patches:
    """A wait takes the newest event instead of the oldest."""

    async def next_for(self: EventLog, wait: Wait) -> PublishedEvent | None:
        newest = None
        taken: Sequence[str] = wait.events_taken
        while True:
            known = (*taken, newest.id) if newest else tuple(taken)
            taken = known
            later = await self._next_for(_with_taken(wait, known))
            if later is None:
                return newest
            newest = later

    yield patch(EventLog.next_for, next_for)


def _with_taken(wait: Wait, taken: tuple[str, ...]) -> Wait:
    from dataclasses import replace  # noqa: PLC0415

    return replace(wait, events_taken=taken)


@mutant("an_own_id_names_one_event")
def an_own_id_is_ignored() -> Patches:
    """A publisher with an id of its own makes a new event each time."""
    yield gives_back(EventPublisher._first_with_own_id, "event")


# Nothing is left ----------------------------------------------------------------------


@mutant("events_leave_nothing")
def a_decided_wait_stays_known() -> Patches:
    """Publishers still find a wait that has its decision."""
    yield skip(event_waiters.delete)


@mutant("events_leave_nothing")
def the_id_of_an_old_event_is_left() -> Patches:
    """A sweep that deletes an old event leaves the id of its publisher."""

    async def delete(self: EventSweep, marker: EventMarker) -> None:
        key = event_keys.event_key(marker.topic, marker.event_id)
        await self.objects.delete(key)
        await self.objects.delete(marker.key)

    yield patch(EventSweep._delete, delete)


@mutant("an_own_id_names_one_event")
def an_id_is_deleted_with_an_event_that_never_was() -> Patches:
    """A sweep deletes the id of an event with that of one that was never published."""

    async def delete_unpublished(self: EventSweep, marker: EventMarker) -> None:
        await self._delete(marker)

    yield patch(EventSweep._delete_unpublished, delete_unpublished)


# Signals ------------------------------------------------------------------------------


@mutant("each_signal_ends_one_wait")
def a_used_signal_is_kept() -> Patches:
    """A signal that ended a wait is kept for the next one."""
    yield gives_back(arrival_reducer.without_signal, "state")


@mutant("each_signal_ends_one_wait")
def a_signal_before_its_wait_is_dropped() -> Patches:
    """A run drops the signals that no wait can take at once."""

    def with_signals(original: Original) -> Any:
        after = original()
        names = {wait.event for wait in after.waits.values()}
        for signal in after.run.signals:
            if signal.name not in names:
                after = arrival_reducer.without_signal(after, signal.number)
        return after

    yield patch(arrival_reducer.with_signals, with_signals)


@mutant("no_signal_waits_beside_its_wait")
def a_kept_signal_is_not_offered() -> Patches:
    """A signal that is kept does not end a wait that is opened later."""
    yield returns(event_matching.awaited_signals, [])
