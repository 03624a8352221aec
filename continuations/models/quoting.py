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

_LONGEST = 400
# What looks like somebody's key, masked or whole, or like a header that held one.
_KEYLIKE = re.compile(
    r"(?i)\b(?:bearer|basic)\s+\S+|\b(?:sk|pk|rk|api|key)[-_][\w*.…-]+"
)
_WORD = re.compile(r"[\w*.…/+=-]{4,}")
# Long enough not to be anyone's turn of phrase, short enough to be a secret.
_ECHO = 16
# A gateway's password, and no shorter word that a sentence could need.
_SECRET = 8


def quotable(
    text: str, *, key: str, messages: Iterable[Message], headers: Iterable[str] = ()
) -> str:
    """Return a provider's words on one line, without the key or the conversation.

    Of the conversation it leaves out every stretch of 16 characters or more, and a
    shorter message that is quoted whole; of the headers the values that are so long
    that they may be secrets.
    """
    shown = "".join(c if c.isprintable() else " " for c in text)
    shown = " ".join(shown.split())
    for value in headers:
        if len(value) >= _SECRET:
            shown = shown.replace(value, "[header]")
    shown = _without_key(shown[:_LONGEST], key)
    for spoken in _spoken(messages):
        shown = _without_echo(shown, spoken)
    return shown


def _without_key(text: str, key: str) -> str:
    def masked(found: re.Match[str]) -> str:
        word = found.group().rstrip(".")
        known = key and (key in word or key.startswith(word) or key.endswith(word))
        starred = key and word[:3] == key[:3] and re.search(r"[*…]|\.\.", word)
        return "[key]" if known or starred else found.group()

    if key:
        text = text.replace(key, "[key]")
    return _WORD.sub(masked, _KEYLIKE.sub("[key]", text))


def _without_echo(text: str, spoken: str) -> str:
    for quote in "'\"`":
        text = text.replace(f"{quote}{spoken}{quote}", f"{quote}[...]{quote}")
    start = 0
    while start + _ECHO <= len(text):
        end = start + _ECHO
        if text[start] == " " or text[start:end] not in spoken:
            start += 1
            continue
        while end < len(text) and text[start : end + 1] in spoken:
            end += 1
        end = start + len(text[start:end].rstrip())
        text = f"{text[:start]}[...]{text[end:]}"
        start += len("[...]")
    return text


def _spoken(messages: Iterable[Message]) -> Iterator[str]:
    # Names and ids are not among it: they say which message was wrong.
    for message in messages:
        data = message.data
        yield from _words(data.get("content"))
        for request in message.requests if message.calls else ():
            yield from _words(request.arguments)


def _words(content: Any) -> Iterator[str]:
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
