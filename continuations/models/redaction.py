"""Redact a provider's error text, so that it can be written to a log.

Providers quote parts of a request: a piece of the key ("Incorrect API key provided:
sk-abc***wxyz"), or the input that failed to validate (every server built on pydantic).
Their text helps to find the cause. The quoted parts must not be in a log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from continuations.core import jsontext
from continuations.models.responses_items import ITEMS_FIELD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from continuations.core.messages import Message

_MAX_LENGTH = 400
# The fields of a stored item that say which item is wrong.
_ITEM_NAMES = frozenset({"id", "type", "call_id", "name", "role", "status", "phase"})
# A text that looks like a key, masked or whole, or like a header with a key.
_KEYLIKE = re.compile(
    r"(?i)\b(?:bearer|basic)\s+\S+|\b(?:sk|pk|rk|api|key)[-_][\w*.…-]+"
)
_PLAIN_WORD = re.compile(r"(?<![A-Za-z0-9])[a-z]{1,7}(?![A-Za-z0-9])")
# "Incorrect API key provided: x", "token 'x'".
_BEFORE_KEY = r"\b((?i:key|token|bearer|password)\b(?:\W{1,3}\w+)?\W{1,4})"
# The escapes of JSON and of Python's repr.
_ESCAPE = re.compile(
    r"\\(?:u(?P<u>[0-9a-fA-F]{4})|U(?P<U>00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})"
    r"|x(?P<x>[0-9a-fA-F]{2})|(?P<other>.))",
    re.DOTALL,
)
# Between the parts of a header: a scheme and a token, cookies, parameters.
_VALUE_SEPARATOR = re.compile(r"[\s;,=]+")
_WORD = re.compile(r"[\w*.…/+=-]{4,}")
# Longer than most common phrases, shorter than most secrets.
_MIN_ECHO_LENGTH = 16
# As long as a gateway's password, longer than most words of an error text.
_MIN_SECRET_LENGTH = 8


def redact_provider_text(
    text: str,
    *,
    api_key: str,
    messages: Iterable[Message],
    client_values: Iterable[str] = (),
) -> str:
    """Return a provider's text as one line, without the key and the conversation.

    Providers quote an input as JSON or as Python's `repr`. So texts are compared
    without the escapes of both.

    These parts are replaced:

    - everything that looks like a key
    - a key of less than 8 characters, but only behind a word such as "key": a server
      without keys gets "x" or "none"
    - a part of the conversation of 16 characters or more
    - a shorter message, if the provider quotes the whole message
    - a value of `client_values`, or a part of it, of 8 characters or more: such a value
      may be a secret, as in "Token 1234abcd" or "session=1234abcd"

    Args:
        text: The provider's text.
        api_key: The key of the client; may be empty.
        messages: The conversation that was sent.
        client_values: The values of headers and query parameters that the application
            set on its client.

    Returns:
        The text, at most about 400 characters.
    """
    shown = _one_line(text)
    for value in _secret_parts(client_values, api_key):
        shown = shown.replace(value, "[hidden]")
    shown = _redact_key(shown[:_MAX_LENGTH], api_key)
    for sent_text in _conversation_texts(messages):
        shown = _redact_echo(shown, sent_text)
    return shown


def _one_line(text: str) -> str:
    """Return a text as one line of printable characters, without escapes."""
    if "\\" in text:
        text = _without_escapes(text)
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return " ".join("".join(c if c.isprintable() else " " for c in line).split())


def _without_escapes(text: str) -> str:
    # More than once: the arguments of a call are JSON, and quoted in JSON.
    plain = _ESCAPE.sub(_unescaped, text)
    while plain != text:
        text, plain = plain, _ESCAPE.sub(_unescaped, plain)
    # Two escapes of JSON make one character beyond U+FFFF.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(match: re.Match[str]) -> str:
    digits = match["u"] or match["U"] or match["x"]
    if digits:
        return chr(int(digits, 16))
    return " " if match["other"] in "bfnrt" else match["other"]


def _secret_parts(client_values: Iterable[str], api_key: str) -> list[str]:
    """Return the values and their parts that may be secrets, the longest first."""
    lines = [_one_line(value) for value in client_values]
    parts = {*lines, *(part for line in lines for part in _VALUE_SEPARATOR.split(line))}
    secrets = {part for part in parts if len(part) >= _MIN_SECRET_LENGTH}
    return sorted(secrets - {api_key, f"Bearer {api_key}"}, key=len, reverse=True)


def _redact_key(text: str, api_key: str) -> str:
    if len(api_key) < _MIN_SECRET_LENGTH:
        return _KEYLIKE.sub("[key]", _redact_short_key(text, api_key))

    # The words of a key such as "test-key-1234" are words of other texts too.
    plain_words = set(_PLAIN_WORD.findall(api_key))

    def masked(match: re.Match[str]) -> str:
        word = match.group().rstrip(".")
        part = api_key.startswith(word) or api_key.endswith(word)
        part = part and word not in plain_words
        starred = word[:3] == api_key[:3] and re.search(r"[*…]|\.\.", word)
        return "[key]" if api_key in word or part or starred else match.group()

    text = text.replace(api_key, "[key]")
    return _WORD.sub(masked, _KEYLIKE.sub("[key]", text))


def _redact_short_key(text: str, api_key: str) -> str:
    if not api_key:
        return text
    return re.sub(rf"{_BEFORE_KEY}{re.escape(api_key)}(?!\w)", r"\1[key]", text)


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
    # Names and ids are not redacted: they say which message is wrong.
    for message in messages:
        data = message.data
        yield from _content_texts(data.get("content"))
        for item in jsontext.as_array(data.get(ITEMS_FIELD)) or ():
            fields = jsontext.as_object(item) or {}
            told = [v for k, v in fields.items() if k not in _ITEM_NAMES]
            yield from _content_texts(told)
        for request in message.tool_calls if message.tool_call_ids else ():
            yield from _content_texts(request.arguments)


def _content_texts(content: Any) -> Iterator[str]:
    # The content is a text, or a list of parts with texts in their fields. A stack, not
    # recursion: deeply nested JSON must not raise a RecursionError.
    stack: list[Any] = [content]
    while stack:
        part = stack.pop()
        if isinstance(part, str) and part.strip():
            yield _one_line(part)
        elif isinstance(part, dict):
            stack.extend(cast("dict[str, Any]", part).values())
        elif isinstance(part, list):
            stack.extend(cast("Sequence[Any]", part))
