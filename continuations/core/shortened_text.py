"""Shorten a text: its beginning, its end, and a notice between them."""

from __future__ import annotations

from continuations.core.messages import Message

# The room for the notice; a text is not made shorter than this.
MIN_CHARS = 200
_HEAD_PART = 2 / 3


def shorten_middle(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, which is at least `MIN_CHARS`.

    The beginning and the end of a longer text are left. A text that was shortened is
    not shortened again.
    """
    if len(text) <= limit:
        return text
    notice = f"\n[{len(text)} characters; the middle was left out to save space]\n"
    room = limit - len(notice)
    head = int(room * _HEAD_PART)
    tail = room - head
    return f"{text[:head]}{notice}{text[len(text) - tail :]}"


def shorten_message(message: Message, limit: int) -> Message:
    """Return a tool message with a shorter content; any other message as it is."""
    if message.role != "tool" or len(message.content) <= limit:
        return message
    data = {**message.data, "content": shorten_middle(message.content, limit)}
    return Message.from_mapping(data)
