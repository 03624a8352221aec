"""Inputs with images, audio and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from continuations.core import jsontext
from continuations.core.attachment_parts import is_reference
from continuations.core.rows.attachments import check_total, is_content, text_part
from continuations.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations.core.rows.attachments import Content

_AS_TEXT = 'Write {"type": "text", "text": ...}.'
_AS_IMAGE = (
    "Pass Image(data, media_type) in its place, or write "
    '{"type": "image_url", "image_url": {"url": ...}}.'
)
_AS_FILE = "Pass File(data, media_type) in its place."
# Types of parts in the Responses API and in Anthropic's Messages API.
_PARTS_OF_OTHER_APIS = {
    "input_text": _AS_TEXT,
    "output_text": _AS_TEXT,
    "input_image": _AS_IMAGE,
    "image": _AS_IMAGE,
    "input_file": _AS_FILE,
    "document": _AS_FILE,
}


def is_part_list(value: object) -> bool:
    """Return whether an input is a list of texts and attachments; may raise.

    Raises `InvalidInput` for a list that mixes them with chat messages.
    """
    if not isinstance(value, list | tuple):
        return False
    items = cast("Sequence[object]", value)
    parts = [isinstance(item, str) or is_content(item) for item in items]
    if any(parts) and not all(parts):
        index = parts.index(False)
        raise InvalidInput(
            f"input mixes messages with texts and attachments: input[{index}] is of "
            f"type {type(items[index]).__name__}. Pass a list of str, Image, Audio and "
            "File, or a list of chat messages."
        )
    return any(parts)


def user_content(items: Sequence[object], name: str) -> list[dict[str, Any]]:
    """Return texts and attachments as parts of a message; raises `InvalidInput`."""
    check_total([cast("Content", item) for item in items if is_content(item)], {})
    return [_part(item, f"{name}[{index}]") for index, item in enumerate(items)]


def contents_of(value: object) -> tuple[Content, ...]:
    """Return the attachments of an input; raises `InvalidInput` if they are too large.

    They may stand in the list, or in the content of its messages.
    """
    contents: list[Content] = []
    if isinstance(value, list | tuple):
        for item in cast("Sequence[object]", value):
            if is_content(item):
                contents.append(cast("Content", item))
                continue
            parts = (jsontext.as_object(item) or {}).get("content")
            if isinstance(parts, list | tuple):
                listed = cast("Sequence[object]", parts)
                contents += [
                    cast("Content", each) for each in listed if is_content(each)
                ]
    check_total(contents, {})
    return tuple(contents)


def with_part_content(
    message: Mapping[str, Any], parts: Sequence[object], name: str
) -> Mapping[str, Any]:
    """Return a chat message of an application with references to its attachments.

    Raises `InvalidInput` if the application wrote a reference, or if a message that is
    not a user's has an attachment.
    """
    if any(map(is_reference, parts)):
        raise InvalidInput(
            f"{name} has a part of the type continuations.attachment. Pass the "
            "attachment itself: Image(data, media_type), Audio or File."
        )
    _check_part_types(parts, name)
    if not any(map(is_content, parts)):
        return message
    if message.get("role") != "user":
        msg = f"{name} has an attachment, and only a user message may have one."
        raise InvalidInput(f"{msg} Move it to a user message.")
    return {**message, "content": user_content(parts, f"{name}.content")}


def _check_part_types(parts: Sequence[object], name: str) -> None:
    """Raise `InvalidInput` for a part in the form of another API."""
    for index, part in enumerate(parts):
        type_ = (jsontext.as_object(part) or {}).get("type")
        advice = _PARTS_OF_OTHER_APIS.get(type_) if isinstance(type_, str) else None
        if advice is not None:
            raise InvalidInput(
                f"{name}.content[{index}] has the type {type_}, which chat messages "
                f"do not have. {advice}"
            )


def _part(item: object, name: str) -> dict[str, Any]:
    if is_content(item):
        return cast("Content", item).attachment.part
    if isinstance(item, str) and item:
        return text_part(item)
    fields = jsontext.as_object(item)
    if fields is not None and "type" in fields:
        return dict(fields)
    got = "an empty text" if item == "" else type(item).__name__
    msg = f"{name} must be a text, an Image, an Audio or a File, got {got}."
    raise InvalidInput(msg)
