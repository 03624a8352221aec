"""The stored parts of a tool's result that has attachments."""

from __future__ import annotations

from continuations.core import jsontext
from continuations.core.attachment_parts import (
    MAX_RUN_BYTES,
    InvalidReference,
    references,
)
from continuations.core.attachments import digest_of
from continuations.wire.fields import FieldReader, invalid_object


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


def read_files(fields: FieldReader, name: str) -> dict[str, bytes]:
    """Read the attachments of a continuation, which may be missing.

    Raises `FormatError` if bytes do not have their digest, or are too large together.
    """
    where = f"{fields.where}.{name}"
    stored = FieldReader(fields.mapping(name), where)
    files = {digest: stored.binary(digest) for digest in list(stored.names)}
    if any(digest_of(data) != digest for digest, data in files.items()):
        raise invalid_object(where, "an attachment does not have the digest of its key")
    if sum(map(len, files.values())) > MAX_RUN_BYTES:
        raise invalid_object(where, f"it must have at most {MAX_RUN_BYTES} bytes")
    return files
