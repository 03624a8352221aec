"""Estimate the tokens of messages, before a provider has counted them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from continuations.core.messages import Message

_BYTES_PER_TOKEN = 4
# The role of a message, and what separates it from the next one.
_TOKENS_PER_MESSAGE = 4
# An image, a sound or a file.
_TOKENS_PER_OTHER_PART = 1000


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Return about how many tokens messages have for a model.

    A token is taken as four bytes of the message's JSON text. An image, a sound or a
    file counts as 1,000 tokens.
    """
    return sum(_message_tokens(each) for each in messages)


def _message_tokens(message: Message) -> int:
    parts = jsontext.as_array(message.data.get("content"))
    if parts is None:
        return _text_tokens(message.text) + _TOKENS_PER_MESSAGE
    data = {**message.data, "content": None}
    tokens = _text_tokens(jsontext.dump(data)) + _TOKENS_PER_MESSAGE
    return tokens + sum(_part_tokens(part) for part in parts)


def _part_tokens(part: Any) -> int:
    fields = jsontext.as_object(part) or {}
    text = fields.get("text", fields.get("refusal"))
    return _text_tokens(text) if isinstance(text, str) else _TOKENS_PER_OTHER_PART


def _text_tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "surrogatepass")) // _BYTES_PER_TOKEN)
