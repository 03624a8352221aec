"""The stored parts of a tool's result that has attachments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.attachment_parts import InvalidReference, references
from continuations.wire.fields import invalid_object

if TYPE_CHECKING:
    from continuations.wire.fields import FieldReader


def write(parts_json: str) -> str:
    """Return the stored form of parts, which is their text."""
    return parts_json


def read(fields: FieldReader, name: str) -> str | None:
    """Read the parts, which may be missing; raises `FormatError`."""
    text = fields.json_or_none(name)
    if text is None:
        return None
    try:
        parts = jsontext.as_array(jsontext.parse(text))
        if parts and references(parts):
            return text
    except InvalidReference:
        pass
    raise invalid_object(f"{fields.where}.{name}", "it must be parts with attachments")
