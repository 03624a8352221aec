"""The keys of published events; `layout` has all other keys (docs/object-layout.md).

    events/{topic}/e-{ulid}                    a published event
    events/{topic}/i-{random part of ulid}     the event that has its publisher's own id
    events/{topic}/w-{wait_kind}-{ulid}@{run}  an open wait for such events
    markers/{due}-{reason}-{ulid}-{topic}      "look at this event at this time"

A topic is a digest of the name and the key of an event. So any text may be a name or a
key, and the events that a wait matches are found by one listing.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.rows.event_matching import KEPT_FOR, LOOK_BACK, first_id_at
from continuations.core.ulid import LENGTH, RANDOM_BYTES, milliseconds_of
from continuations.errors import WaitNotFound
from continuations.ledger import layout
from continuations.value_class import dataclass, replace
from continuations.wire.fields import from_milliseconds, to_milliseconds

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.rows.waits import Wait

EVENTS_PREFIX = "events/"
_TOPIC_LENGTH = 32
_TIME_LENGTH = LENGTH - RANDOM_BYTES * 8 // 5
_ULID = r"[0-7][0-9a-hjkmnp-tv-z]{25}"
_EVENT = re.compile(rf"e-({_ULID})\Z")
_WAITER = re.compile(rf"{EVENTS_PREFIX}[0-9a-f]{{{_TOPIC_LENGTH}}}/w-[^/]+\Z")
_MARKER = re.compile(rf"([0-9]{{13}})-([po])-({_ULID})-([0-9a-f]{{32}})\Z")
_MILLISECOND = timedelta(milliseconds=1)


def topic_of(name: str, key: str | None) -> str:
    """Return the topic of the events with a name and a key, or without a key."""
    return jsontext.digest("event", jsontext.canonical([name, key]))[:_TOPIC_LENGTH]


def topic_of_wait(wait: Wait) -> str:
    """Return the topic of the events that a wait takes."""
    return topic_of(wait.event or "", wait.event_key)


def events_prefix(topic: str) -> str:
    """Return the prefix of the events of a topic."""
    return f"{EVENTS_PREFIX}{topic}/e-"


def event_key(topic: str, event_id: str) -> str:
    """Return the key of an event."""
    return f"{events_prefix(topic)}{event_id}"


def event_id_in(key: str) -> str | None:
    """Return the id in the key of an event, or `None` for another key."""
    match = _EVENT.match(key.rpartition("/")[2])
    return match and match[1]


def key_before_events(topic: str, opened_at: datetime) -> str:
    """Return a key after which the events are listed that a wait can take."""
    begin = to_milliseconds(opened_at - LOOK_BACK)
    return event_key(topic, first_id_at(begin))[:-1]


def own_id_key(topic: str, event_id: str) -> str:
    """Return the key that shows that a publisher's own id is used.

    The random part of the event's id is a digest of that id.
    """
    return f"{EVENTS_PREFIX}{topic}/i-{event_id[_TIME_LENGTH:]}"


def waiters_prefix(topic: str) -> str:
    """Return the prefix of the open waits for the events of a topic."""
    return f"{EVENTS_PREFIX}{topic}/w-"


def waiter_key(wait: Wait) -> str:
    """Return the key under which publishers find a wait."""
    return f"{waiters_prefix(topic_of_wait(wait))}{wait.id}"


def waiter_in(key: str) -> str | None:
    """Return the wait id in the key of a waiter, or `None` for another key."""
    wait_id = key.rpartition("/w-")[2]
    try:
        layout.parse_wait_id(wait_id)
    except WaitNotFound:
        return None
    return wait_id


def waiting_run_id(key: str) -> str | None:
    """Return the run in the key of a waiter, or `None` for another key."""
    match = _WAITER.match(key)
    wait_id = match and waiter_in(key)
    return wait_id and layout.parse_wait_id(wait_id).run_id


@dataclass(frozen=True, slots=True)
class EventMarker:
    """The parts of the key of an event's marker.

    Attributes:
        due_ms: When to look, in milliseconds since 1970; `layout.DUE_NOW` for at once.
        reason: Why to look; one letter.

            - `p` (published): the waits for the event may not be ended yet.
            - `o` (old): the event is to be deleted. If it is due now, it is a probe: a
              sweep created it to learn the store's time.
        event_id: The event.
        topic: Its topic.
    """

    due_ms: int
    reason: str
    event_id: str
    topic: str

    @property
    def key(self) -> str:
        """The marker's key."""
        name = f"{self.due_ms:013d}-{self.reason}-{self.event_id}-{self.topic}"
        return f"{layout.MARKERS_PREFIX}{name}"

    def with_due_time(self, due_ms: int) -> EventMarker:
        """Return the marker with another due time."""
        return replace(self, due_ms=due_ms)

    @property
    def is_probe(self) -> bool:
        """Whether a sweep created the marker to learn the store's time."""
        return self.reason == "o" and self.due_ms == layout.DUE_NOW

    @property
    def published_at(self) -> datetime:
        """The time of the event."""
        return from_milliseconds(milliseconds_of(self.event_id))


def published_marker(topic: str, event_id: str) -> EventMarker:
    """Return the marker of an event that is about to be created; it is due now."""
    return EventMarker(layout.DUE_NOW, "p", event_id, topic)


def old_marker(topic: str, event_id: str) -> EventMarker:
    """Return the marker at whose time an event is deleted."""
    due = milliseconds_of(event_id) + KEPT_FOR // _MILLISECOND
    return EventMarker(due, "o", event_id, topic)


def probe_marker(topic: str, ulid: str) -> EventMarker:
    """Return a marker that a sweep creates to learn the store's time."""
    return EventMarker(layout.DUE_NOW, "o", ulid, topic)


def parse_event_marker(key: str) -> EventMarker | None:
    """Return the parts of the key of an event's marker, or `None`."""
    match = _MARKER.match(key.removeprefix(layout.MARKERS_PREFIX))
    if match is None:
        return None
    due, reason, event_id, topic = match.groups()
    return EventMarker(int(due), reason, event_id, topic)
