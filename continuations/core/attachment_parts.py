"""The parts of messages that refer to attachments: images, audio and files."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from continuations.core import jsontext
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

AttachmentKind: TypeAlias = Literal["image", "audio", "file"]

ATTACHMENT_TYPE = "continuations.attachment"
# All attachments of one run together.
MAX_RUN_BYTES = 64 * 1024 * 1024
MAX_NAME_CHARS = 200
# Images without scripts, which a browser may show within a page.
RASTER_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_KINDS = ("image", "audio", "file")
_TOKEN = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}"  # noqa: S105 - a part of a media type
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}\Z")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
_FIELDS = frozenset({"type", "kind", "media_type", "digest", "size", "name"})


class InvalidReference(ValueError):
    """A part names an attachment wrongly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """The reference of a message to an attachment, without its bytes.

    Attributes:
        kind: `"image"`, `"audio"` or `"file"`.
        media_type: For example `"image/png"`.
        digest: `"sha256:"` and 64 hexadecimal digits.
        size: The number of bytes.
        name: The name of the file, or `None`.
    """

    kind: AttachmentKind
    media_type: str
    digest: str
    size: int
    name: str | None = None

    @property
    def part(self) -> dict[str, Any]:
        """The part of a message that refers to the attachment."""
        named = {} if self.name is None else {"name": self.name}
        return {
            "type": ATTACHMENT_TYPE,
            "kind": self.kind,
            "media_type": self.media_type,
            "digest": self.digest,
            "size": self.size,
            **named,
        }

    @property
    def label(self) -> str:
        """The attachment in one line, for people and for models that read text."""
        name = "" if self.name is None else f"{self.name}, "
        return f"[{self.kind}: {name}{self.media_type}, {self.size} bytes]"


def is_media_type(value: object) -> bool:
    """Return whether a value is a media type in lower case, without parameters."""
    return isinstance(value, str) and _MEDIA_TYPE.match(value) is not None


def is_digest(value: object) -> bool:
    """Return whether a value is the digest of an attachment."""
    return isinstance(value, str) and _DIGEST.match(value) is not None


def is_file_name(value: object) -> bool:
    """Return whether a value is a name of a file, or `None`.

    The name is one printable line without the separators of paths. It does not consist
    of dots and spaces alone: `..` is a folder.
    """
    if value is None:
        return True
    if not isinstance(value, str) or not 0 < len(value) <= MAX_NAME_CHARS:
        return False
    is_plain = value.isprintable() and not {"/", "\\"} & set(value)
    return is_plain and value.strip(". ") != ""


def is_reference(part: object) -> bool:
    """Return whether a part of a message refers to an attachment."""
    return (jsontext.as_object(part) or {}).get("type") == ATTACHMENT_TYPE


def read_part(part: object) -> Attachment:
    """Return the attachment that a part refers to; raises `InvalidReference`."""
    fields = jsontext.as_object(part) or {}
    kind, size = fields.get("kind"), fields.get("size")
    media_type, digest = fields.get("media_type"), fields.get("digest")
    name = fields.get("name")
    is_size = type(size) is int and 0 < size <= MAX_RUN_BYTES
    named = is_file_name(name) and ("name" not in fields or name is not None)
    if not (
        kind in _KINDS
        and is_media_type(media_type)
        and is_digest(digest)
        and is_size
        and named
        and fields.keys() <= _FIELDS
    ):
        raise InvalidReference("a part that refers to an attachment is not valid")
    return Attachment(
        kind=kind,
        media_type=cast("str", media_type),
        digest=cast("str", digest),
        size=cast("int", size),
        name=name,
    )


def labelled_text(role: object, content: object) -> str:
    """Return the text of a message, in which labels stand for its attachments.

    Args:
        role: Its role. Only user and tool messages have attachments.
        content: Its content. Other parts without a text are left out.
    """
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in jsontext.as_array(content) or ():
        text = (jsontext.as_object(part) or {}).get("text")
        if isinstance(text, str):
            texts.append(text)
        elif role in ("user", "tool") and is_reference(part):
            try:
                texts.append(read_part(part).label)
            except InvalidReference:
                continue
    return "\n".join(texts)


def references(parts: Iterable[object]) -> Sequence[Attachment]:
    """Return the attachments that parts refer to; raises `InvalidReference`."""
    return [read_part(part) for part in parts if is_reference(part)]
