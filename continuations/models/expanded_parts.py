"""Messages whose attachments are written out for a provider.

The engine stores references. A reference in a user message or in the result of a tool
becomes the part that chat completions defines, with the bytes in base64. Nothing is
stored, so a request can be made again at any time.
"""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.attachment_parts import Attachment, is_reference, read_part

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from continuations.core.messages import Message

_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav"}


def expanded_data(message: Message, files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return a message with the content of its attachments."""
    data = message.data
    if message.has_attachments:
        parts = jsontext.as_array(data["content"]) or ()
        data["content"] = [_expanded(part, files) for part in parts]
    return data


def chat_messages(
    messages: Iterable[Message], files: Mapping[str, bytes]
) -> Iterator[Message | dict[str, Any]]:
    """Yield messages of chat completions; those with attachments as new mappings.

    A tool message has text only. So the attachments of results come in a user message
    behind the last tool message of the turn.
    """
    from_tools: list[dict[str, Any]] = []
    for message in messages:
        if message.role != "tool" and from_tools:
            yield {"role": "user", "content": from_tools}
            from_tools = []
        if not message.has_attachments:
            yield message
        elif message.role == "tool":
            data = message.data
            parts = jsontext.as_array(data["content"]) or ()
            from_tools += _labelled_parts(str(data["tool_call_id"]), parts, files)
            data["content"] = "\n".join(map(_text_of, parts))
            yield data
        else:
            yield expanded_data(message, files)
    if from_tools:
        yield {"role": "user", "content": from_tools}


def _labelled_parts(
    call_id: str, parts: Sequence[Any], files: Mapping[str, bytes]
) -> list[dict[str, Any]]:
    attached = [_expanded(part, files) for part in parts if is_reference(part)]
    label = f"Attachments of the result of the tool call {call_id}:"
    return [{"type": "text", "text": label}, *attached]


def _text_of(part: Any) -> str:
    if is_reference(part):
        return read_part(part).label
    text = (jsontext.as_object(part) or {}).get("text")
    return text if isinstance(text, str) else jsontext.dump(part)


def _expanded(part: Any, files: Mapping[str, bytes]) -> Any:
    if not is_reference(part):
        return part
    attachment = read_part(part)
    return _chat_part(attachment, files[attachment.digest])


def _chat_part(attachment: Attachment, data: bytes) -> dict[str, Any]:
    """Return an attachment as a part of chat completions."""
    encoded = b64encode(data).decode()
    url = f"data:{attachment.media_type};base64,{encoded}"
    if attachment.kind == "image":
        return {"type": "image_url", "image_url": {"url": url}}
    if attachment.kind == "audio":
        subtype = attachment.media_type.partition("/")[2]
        form = _AUDIO_FORMATS.get(subtype, subtype)
        audio = {"data": encoded, "format": form}
        return {"type": "input_audio", "input_audio": audio}
    file = {"filename": attachment.name or "file", "file_data": url}
    return {"type": "file", "file": file}
