"""The stored record of an attachment: an image, a sound or a file of a run."""

from __future__ import annotations

from continuations.core.attachment_parts import is_file_name, is_media_type
from continuations.core.attachments import digest_of
from continuations.errors import Corrupt
from continuations.value_class import dataclass
from continuations.wire.envelope import decode_object, encode_object
from continuations.wire.fields import FieldReader, invalid_object, omit_empty


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """An attachment as the store has it.

    Attributes:
        run_id: The run.
        media_type: The media type that came with the bytes first.
        name: The name that came with the bytes first, or `None`.
        data: The bytes.
    """

    run_id: str
    media_type: str
    name: str | None
    data: bytes


def encode_file(stored: StoredFile, digest: str) -> bytes:
    """Return the bytes of an attachment and its digest; raises `FormatError`."""
    header: dict[str, object] = {
        "kind": "file",
        "run": stored.run_id,
        "digest": digest,
        "media_type": stored.media_type,
        **omit_empty(name=stored.name),
    }
    return encode_object(header, {"data": stored.data})


def decode_file(data: bytes, name: str) -> tuple[StoredFile, str]:
    """Return an attachment and its digest; raises `FormatError` or `Corrupt`."""
    opened = decode_object(data, name)
    header = FieldReader(opened.header, f"the header of {name}")
    header.one_of("kind", frozenset({"file"}))
    digest = header.text("digest")
    body = FieldReader(opened.body, name)
    stored = StoredFile(
        run_id=header.text("run"),
        media_type=header.text("media_type"),
        name=header.text_or_none("name"),
        data=body.binary("data"),
    )
    header.check_all_read()
    body.check_all_read()
    if not (is_media_type(stored.media_type) and is_file_name(stored.name)):
        raise invalid_object(name, "its media type or its name is not valid")
    if digest_of(stored.data) != digest:
        msg = (
            f"{name} is damaged: its content does not have the digest that it names. "
            "It was not changed. Restore it from a backup."
        )
        raise Corrupt(msg)
    return stored, digest
