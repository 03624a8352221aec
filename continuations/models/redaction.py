"""What may be quoted of a provider's error: it ends in logs that others read.

Providers echo what they were sent: a piece of the key ("Incorrect API key provided:
sk-abc***wxyz"), or the input that failed to validate (every server built on
pydantic). Their words are worth having; what they echo is not for a log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from continuations.core.messages import Message

_MAX_LENGTH = 400
# What looks like somebody's key, masked or whole, or like a header that held one.
_KEYLIKE = re.compile(
    r"(?i)\b(?:bearer|basic)\s+\S+|\b(?:sk|pk|rk|api|key)[-_][\w*.…-]+"
)
_WORD = re.compile(r"[\w*.…/+=-]{4,}")
# Long enough not to be anyone's turn of phrase, short enough to be a secret.
_MIN_ECHO_LENGTH = 16
# A gateway's password, and no shorter word that a sentence could need.
_MIN_SECRET_LENGTH = 8


def redact_provider_text(
    text: str, *, api_key: str, messages: Iterable[Message], headers: Iterable[str] = ()
) -> str:
    """Return a provider's words on one line, without the key or the conversation.

    Of the conversation it leaves out every stretch of 16 characters or more, and a
    shorter message that is quoted whole; of the headers the values that are so long
    that they may be secrets.
    """
    shown = "".join(c if c.isprintable() else " " for c in text)
    shown = " ".join(shown.split())
    for value in headers:
        if len(value) >= _MIN_SECRET_LENGTH:
            shown = shown.replace(value, "[header]")
    shown = _redact_key(shown[:_MAX_LENGTH], api_key)
    for spoken in _conversation_texts(messages):
        shown = _redact_echo(shown, spoken)
    return shown


def _redact_key(text: str, api_key: str) -> str:
    def masked(found: re.Match[str]) -> str:
        word = found.group().rstrip(".")
        known = api_key and (
            api_key in word or api_key.startswith(word) or api_key.endswith(word)
        )
        starred = api_key and word[:3] == api_key[:3] and re.search(r"[*…]|\.\.", word)
        return "[key]" if known or starred else found.group()

    if api_key:
        text = text.replace(api_key, "[key]")
    return _WORD.sub(masked, _KEYLIKE.sub("[key]", text))


def _redact_echo(text: str, sent_text: str) -> str:
    for quote in "'\"`":
        text = text.replace(f"{quote}{sent_text}{quote}", f"{quote}[...]{quote}")
    start = 0
    while start + _MIN_ECHO_LENGTH <= len(text):
        end = start + _MIN_ECHO_LENGTH
        if text[start] == " " or text[start:end] not in sent_text:
            start += 1
            continue
        while end < len(text) and text[start : end + 1] in sent_text:
            end += 1
        end = start + len(text[start:end].rstrip())
        text = f"{text[:start]}[...]{text[end:]}"
        start += len("[...]")
    return text


def _conversation_texts(messages: Iterable[Message]) -> Iterator[str]:
    # Names and ids are not among it: they say which message was wrong.
    for message in messages:
        data = message.data
        yield from _content_texts(data.get("content"))
        for request in message.tool_calls if message.tool_call_ids else ():
            yield from _content_texts(request.arguments)


def _content_texts(content: Any) -> Iterator[str]:
    # Text, or a list of parts whose fields hold text. A stack, since what a provider
    # nests as deep as JSON allows must not end in a RecursionError.
    left: list[Any] = [content]
    while left:
        part = left.pop()
        if isinstance(part, str) and part.strip():
            yield " ".join(part.split())
        elif isinstance(part, dict):
            left.extend(cast("dict[str, Any]", part).values())
        elif isinstance(part, list):
            left.extend(cast("Sequence[Any]", part))
