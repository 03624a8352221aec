"""Read the attachments of a request: base64, a media type and a name."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.attachments import check_total, make_content
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.attachments import Content

# A request has at most so many.
MAX_FILES = 100
_FIELDS = {"data", "media_type", "name"}


class FilesInvalid(ValueError):
    """A list of attachments in a request is invalid; the text names the field."""


def parse_files(value: object) -> tuple[Content, ...]:
    """Return the attachments of the field `files`.

    Raises `FilesInvalid`, and `AttachmentsTooLarge` if no run can have all of them.
    """
    items = jsontext.as_array(value)
    if items is None or len(items) > MAX_FILES:
        msg = f'"files" must be a list of at most {MAX_FILES} objects'
        raise FilesInvalid(msg)
    contents = tuple(_content(item, f"files[{n}]") for n, item in enumerate(items))
    check_total(contents, {})
    return contents


def text_with_files(text: str, contents: Sequence[Content]) -> Any:
    """Return a text as it is, or with its attachments as a list."""
    return [text, *contents] if contents else text


def _content(item: object, where: str) -> Content:
    fields = jsontext.as_object(item) or {}
    if fields.keys() != _FIELDS:
        msg = f'"{where}" must be an object with "data", "media_type" and "name"'
        raise FilesInvalid(msg)
    for name, value in fields.items():
        if type(value) is not str or not value:
            msg = f'"{where}.{name}" must be a text that is not empty'
            raise FilesInvalid(msg)
    try:
        data = binascii.a2b_base64(fields["data"], strict_mode=True)
    except ValueError:
        data = b""
    # Python accepts several texts for the same bytes; this library accepts one.
    if not data or binascii.b2a_base64(data, newline=False).decode() != fields["data"]:
        msg = f'"{where}.data" is not base64 with padding and without line ends'
        raise FilesInvalid(msg)
    try:
        return make_content(data, fields["media_type"], fields["name"])
    except InvalidInput as error:
        msg = f'"{where}" is not valid: {error}'
        raise FilesInvalid(msg) from None
