"""Summaries: one sentence about a call, from a template and the call's arguments.

    Send {cents:money/100} to {to}

A field is the name of an argument, or a path into it: `{person.name}`. After a colon
follows a format: `money/100`, `money/100 EUR`, `date` or `count`. `{{` is a brace.
"""

from __future__ import annotations

import re
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.core import jsontext
from continuations.core.messages import Message
from continuations.core.visible_text import escape_invisible, shorten
from continuations.core.words.reading_texts import (
    UNITS,
    MoneyReading,
    date_text,
    money_text,
)
from continuations.core.words.secret_arguments import MASK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


MAX_TITLE_CHARS = 300
_MAX_TEMPLATE_CHARS = 500
_MAX_VALUE_CHARS = 80
_MAX_ITEMS = 3
_MONEY = re.compile(r"money/(1|10+)( [A-Z]{3})?")
FORMATS_TEXT = '"money/100", "money/100 EUR", "date" or "count"'


class TemplateInvalid(ValueError):
    """A template cannot be read; the text says why."""


class Field(NamedTuple):
    """A piece of a template: a literal text, then the text of a value.

    Attributes:
        literal: The text before the value.
        path: The names that lead to the value; empty at the end of the template.
        format: The name of the format, or "".
        money: The amount, for the format `money`.
    """

    literal: str
    path: tuple[str, ...] = ()
    format: str = ""
    money: MoneyReading | None = None


def parse_template(template: str) -> list[Field]:
    """Return the pieces of a template; raises `TemplateInvalid`."""
    if not template.strip() or len(template) > _MAX_TEMPLATE_CHARS:
        msg = f"it must have 1 to {_MAX_TEMPLATE_CHARS} characters"
        raise TemplateInvalid(msg)
    if escape_invisible(template) != template:
        msg = "it must be one line of visible characters"
        raise TemplateInvalid(msg)
    try:
        pieces = list(Formatter().parse(template))
    except ValueError as error:
        raise TemplateInvalid(str(error).lower()) from None
    return [_field(*piece) for piece in pieces]


def render_template(
    template: str,
    arguments: Mapping[str, Any],
    money_by_path: Mapping[str, MoneyReading],
) -> str:
    """Return the sentence for arguments, escaped, with long values shortened.

    Secret values must be masked already.
    """
    parts: list[str] = []
    for field in parse_template(template):
        parts.append(field.literal)
        if field.path:
            parts.append(_value_text(_value_at(arguments, field), field, money_by_path))
    return title_text("".join(parts))


def title_text(text: str) -> str:
    """Return a title on one line, with invisible characters escaped, not too long."""
    return shorten(escape_invisible(text), MAX_TITLE_CHARS)


def _field(
    literal: str, name: str | None, spec: str | None, conversion: str | None
) -> Field:
    if name is None:
        return Field(literal)
    path = tuple(name.split("."))
    if conversion or not all(step.isidentifier() for step in path):
        msg = f"{{{name}}} is not the name of an argument"
        raise TemplateInvalid(msg)
    match spec or "":
        case "" | "date" | "count" as known:
            return Field(literal, path, known)
        case other:
            found = _MONEY.fullmatch(other)
            if found is None or int(found[1]) not in UNITS:
                msg = f"{{{name}:{other}}} has no known format; write {FORMATS_TEXT}"
                raise TemplateInvalid(msg)
            money = MoneyReading((found[2] or "").strip(), int(found[1]))
            return Field(literal, path, "money", money)


def _value_at(arguments: Mapping[str, Any], field: Field) -> Any:
    value: Any = arguments
    for step in field.path:
        value = (jsontext.as_object(value) or {}).get(step)
    return value


def _value_text(
    value: Any, field: Field, money_by_path: Mapping[str, MoneyReading]
) -> str:
    known = money_by_path.get("/".join(field.path))
    money = field.money
    if money is None and not field.format:
        money = known
    elif money is not None and not money.currency and known is not None:
        money = MoneyReading(known.currency, money.units)
    text = None
    if money is not None:
        text = money_text(value, money)
    elif field.format == "date":
        text = date_text(value)
    elif field.format == "count":
        text = _count_text(value)
    return shorten(text or plain_text(value), _MAX_VALUE_CHARS)


def plain_text(value: Any) -> str:
    """Return a value as a person reads it in a sentence."""
    match value:
        case str():
            return value
        case None:
            return "nothing"
        case bool():
            return "yes" if value else "no"
        case _ if (items := jsontext.as_array(value)) is not None:
            if not items:
                return "nothing"
            texts = [shorten(plain_text(each), _MAX_VALUE_CHARS) for each in items]
            more = len(items) - _MAX_ITEMS
            shown = ", ".join(texts[:_MAX_ITEMS])
            return f"{shown} and {more} more" if more > 0 else shown
        case _:
            return jsontext.dump(value)


def _count_text(value: Any) -> str | None:
    if value == MASK:
        return None
    items = jsontext.as_array(value)
    fields = jsontext.as_object(value) if items is None else items
    return None if fields is None else f"{len(fields):,}"


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
