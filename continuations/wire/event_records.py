"""The stored record of a published event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.value_class import dataclass
from continuations.wire.envelope import decode_object, encode_object
from continuations.wire.fields import FieldReader, omit_empty, to_milliseconds
from continuations.wire.formats import fields_of, read_fields

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedEvent:
    """An event for all runs that wait for its name and key.

    Attributes:
        id: The id of the event, a ULID.
        name: The name.
        key: The key, or `None`.
        at: When the event was published.
        data: The data, as JSON text.
        by: The publisher.
        own_id: The publisher's own id of the event, or `None`.
        door: The way by which the event came, or `None`.
        authentication: How the name of the publisher was established, or `None`.
    """

    id: str
    name: str
    key: str | None
    at: datetime
    data: str
    by: str | None = None
    own_id: str | None = None
    door: str | None = None
    authentication: str | None = None


def encode_event(event: PublishedEvent) -> bytes:
    """Return the bytes of an event."""
    body = omit_empty(
        id=event.id,
        name=event.name,
        key=event.key,
        at=to_milliseconds(event.at),
        data=event.data,
        by=event.by,
        own_id=event.own_id,
        door=event.door,
        authentication=event.authentication,
        **fields_of("event", event),
    )
    return encode_object({"kind": "event"}, body)


def decode_event(data: bytes, name: str) -> PublishedEvent:
    """Decode an event; raises `FormatError` or `Corrupt`."""
    opened = decode_object(data, name)
    header = FieldReader(opened.header, f"the header of {name}")
    header.one_of("kind", frozenset({"event"}))
    header.check_all_read()
    fields = FieldReader(opened.body, name)
    event = PublishedEvent(
        id=fields.text("id"),
        name=fields.text("name"),
        key=fields.text_or_none("key"),
        at=fields.timestamp("at"),
        data=fields.json_or_none("data") or "null",
        by=fields.text_or_none("by"),
        own_id=fields.text_or_none("own_id"),
        door=fields.text_or_none("door"),
        authentication=fields.text_or_none("authentication"),
        **read_fields("event", fields),
    )
    fields.check_all_read()
    return event
