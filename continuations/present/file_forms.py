"""The attachments of a request as JSON: base64, a media type and a name."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.attachment_parts import MAX_NAME_CHARS
from continuations.core.attachments import check_total, make_content
from continuations.errors import InvalidInput
from continuations.present.schema_parts import Json, object_form, ref

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.attachments import Content

# A request has at most so many.
MAX_FILES = 100
FILES_FIELD: Json = {
    "type": "array",
    "items": ref("file"),
    "maxItems": MAX_FILES,
    "description": "Images, sounds and files beside the text.",
}
_GROUP = "[A-Za-z0-9+/]"
_FIELDS: dict[str, Json] = {
    "data": {
        "type": "string",
        "minLength": 4,
        "pattern": f"^({_GROUP}{{4}})*({_GROUP}{{2}}==|{_GROUP}{{3}}=)?$",
        "contentEncoding": "base64",
        "description": "The bytes, at least one: base64 with padding.",
    },
    "media_type": {
        "type": "string",
        "pattern": "^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$",
        "description": "In lower case and without parameters, such as `image/png`. The "
        "first part decides whether it is an image, a sound or a file.",
    },
    "name": {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_NAME_CHARS,
        "pattern": r"^[^/\\]*[^/\\. ][^/\\]*$",
        "description": "The name of the file: printable, without `/` and `\\`, and not "
        "only dots and spaces.",
    },
}


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


def file_definitions() -> dict[str, Json]:
    """Return the form of an attachment in a request."""
    return {"file": object_form("An image, a sound or a file.", _FIELDS)}


def _content(item: object, where: str) -> Content:
    fields = jsontext.as_object(item) or {}
    if fields.keys() != _FIELDS.keys():
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
