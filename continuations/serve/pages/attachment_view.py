"""The attachments of a message on a page: name, media type, size and a link."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlencode

from continuations.core import jsontext
from continuations.core.attachment_parts import (
    RASTER_TYPES,
    InvalidReference,
    is_reference,
    read_part,
)
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from continuations.core.attachment_parts import Attachment
    from continuations.serve.pages.run_addresses import RunAddresses

_UNITS = ("bytes", "kB", "MB")
_STEP = 1000
_NAMES = {"image": "Image", "audio": "Sound", "file": "File"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachmentView:
    """One attachment.

    Attributes:
        name: The name of the file, or the kind of content.
        media_type: The media type that the message has.
        size: The size in words.
        address: The address of the download.
        image: The address of an image that the page shows, or "".
    """

    name: str
    media_type: str
    size: str
    address: str
    image: str


def attachment_views(
    role: object, content: object, here: RunAddresses
) -> tuple[AttachmentView, ...]:
    """Return the attachments of a message.

    Args:
        role: The role of the message. A model's message has no attachments.
        content: Its content.
        here: The addresses of the run.
    """
    parts = jsontext.as_array(content) or ()
    found = [_attachment(role, part) for part in parts]
    return tuple(_view(each, here) for each in found if each is not None)


def without_attachments(role: object, content: object) -> object:
    """Return the content of a message without its attachments."""
    parts = jsontext.as_array(content)
    if parts is None:
        return content
    return [part for part in parts if _attachment(role, part) is None]


def _attachment(role: object, part: object) -> Attachment | None:
    if role not in ("user", "tool") or not is_reference(part):
        return None
    try:
        return read_part(part)
    except InvalidReference:
        return None


def _view(attachment: Attachment, here: RunAddresses) -> AttachmentView:
    is_shown = attachment.media_type in RASTER_TYPES
    named = {} if attachment.name is None else {"name": attachment.name}
    query = urlencode({**named, "media_type": attachment.media_type})
    return AttachmentView(
        name=attachment.name or _NAMES[attachment.kind],
        media_type=attachment.media_type,
        size=size_text(attachment.size),
        address=f"{here.below(f'files/{attachment.digest}')}?{query}",
        image=f"{here.below(f'images/{attachment.digest}')}?{query}"
        if is_shown
        else "",
    )


def size_text(size: int) -> str:
    """Return a number of bytes in words, such as `2.4 MB`."""
    value, unit = float(size), _UNITS[0]
    for larger in _UNITS[1:]:
        if value < _STEP:
            break
        value, unit = value / _STEP, larger
    return f"{value:.1f} {unit}" if unit != _UNITS[0] else f"{size} {unit}"
