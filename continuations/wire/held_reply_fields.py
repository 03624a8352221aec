"""The stored form of a reply that a person must accept (`FrameRow.held_reply`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.jsontext import NotJson
from continuations.core.messages import MalformedMessage, Message
from continuations.wire.fields import FieldReader, invalid_object, omit_empty

if TYPE_CHECKING:
    from collections.abc import Mapping


def write(reply: Message) -> Mapping[str, object]:
    """Return the stored fields of a reply."""
    return omit_empty(message=reply.text, metadata=reply.metadata_json)


def read(fields: FieldReader, name: str) -> Message:
    """Read the reply, which has no calls; raises `FormatError`."""
    where = f"{fields.where}.{name}"
    stored = FieldReader(fields.mapping(name), where)
    text = stored.text("message")
    metadata = stored.json_object_or_none("metadata")
    stored.check_all_read()
    try:
        reply = Message.from_json(text)
    except (MalformedMessage, NotJson) as error:
        raise invalid_object(where, f"it is not a chat message, {error}") from None
    if reply.role != "assistant" or reply.tool_call_ids:
        raise invalid_object(where, "it must be a reply without calls")
    return reply if metadata is None else reply.with_metadata(metadata)
