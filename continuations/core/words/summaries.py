"""Summaries: one sentence about a call, from a template and the call's arguments.

    Send {cents:money/100} to {to}

A field is the name of an argument, or a path into it: `{person.name}`. After a colon
follows a format: `money/100`, `money/100 EUR`, `date` or `count`. `{{` is a brace.

Readings are the texts by which people understand values, made by code. The reading of
`1240000` may be `€12,400.00`. A reading never replaces the value, and a reading is
exact. Other values are shown alone.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from string import Formatter
from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.core import jsontext
from continuations.core.messages import Message
from continuations.core.visible_text import escape_invisible, shorten
from continuations.core.words.secret_arguments import MASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


CURRENCY = re.compile(r"[A-Z]{3}")
# Powers of ten, so that an amount has an exact text.
UNITS = tuple(10**power for power in range(10))
_SYMBOLS = {"EUR": "€", "GBP": "£", "USD": "$"}
_DECIMAL = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?")
_MAX_DIGITS = 40
_MAX_READINGS = 100
_DAYS = (
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
)
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


class MoneyReading(NamedTuple):
    """An amount of money: the currency, and how many units of the value are 1.

    Attributes:
        currency: ISO 4217 code, or "" for an amount without a currency.
        units: 100 for cents, 1 for whole amounts: a power of ten.
    """

    currency: str
    units: int


def readings_by_place(
    arguments: Mapping[str, Any],
    schema: Mapping[str, Any],
    money_by_path: Mapping[str, MoneyReading],
) -> dict[str, str]:
    """Return the readings of arguments by their places, such as `items[0].cents`.

    Args:
        arguments: The arguments as JSON values.
        schema: Their JSON Schema. Dates of the top level are read by their formats.
        money_by_path: The amounts; a path is as in `secret_arguments`.
    """
    found: dict[str, str] = {}
    for path, money in money_by_path.items():
        for place, value in _values_at(arguments, tuple(path.split("/")), ""):
            text = money_text(value, money)
            if text is not None and len(found) < _MAX_READINGS:
                found[place] = text
    properties = jsontext.as_object(schema.get("properties")) or {}
    for name, value in arguments.items():
        if name not in found and _format_of(properties.get(name)) in _DATE_FORMATS:
            text = date_text(value)
            if text is not None:
                found[name] = text
    return found


def money_text(value: object, money: MoneyReading) -> str | None:
    """Return an amount, such as `€12,400.00` or `CHF 5.00`; `None` for no number."""
    amount = _decimal_text(value, UNITS.index(money.units))
    if amount is None:
        return None
    sign, digits = ("-", amount[1:]) if amount.startswith("-") else ("", amount)
    symbol = _SYMBOLS.get(money.currency)
    if symbol is not None:
        return f"{sign}{symbol}{digits}"
    return f"{money.currency} {amount}".strip()


def date_text(value: object) -> str | None:
    """Return a date or a time in words; `None` for another value."""
    if type(value) is not str:
        return None
    try:
        moment = datetime.fromisoformat(value)
        day = moment.date()
        has_time = len(value) > len("2026-11-24")
    except ValueError:
        return None
    text = f"{_DAYS[day.weekday()]}, {_day_text(day)}"
    if not has_time:
        return text
    seconds = moment.second or moment.microsecond
    clock = moment.time().isoformat("auto" if seconds else "minutes")
    return f"{text}, {clock} {_zone_text(moment)}"


_DATE_FORMATS = frozenset({"date", "date-time"})


def _day_text(day: date) -> str:
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def _zone_text(moment: datetime) -> str:
    offset = moment.utcoffset()
    if offset is None:
        return "(no time zone)"
    return "UTC" if offset == timedelta() else moment.isoformat()[-6:]


def _format_of(property_: object) -> object:
    fields = jsontext.as_object(property_) or {}
    options = jsontext.as_array(fields.get("anyOf")) or [fields]
    formats = [(jsontext.as_object(each) or {}).get("format") for each in options]
    return next((each for each in formats if isinstance(each, str)), None)


def _values_at(
    value: object, steps: tuple[str, ...], place: str
) -> Iterator[tuple[str, object]]:
    if not steps:
        yield place, value
    elif (items := jsontext.as_array(value)) is not None:
        rest = steps[1:] if steps[0] == "*" else steps
        for index, item in enumerate(items):
            yield from _values_at(item, rest, f"{place}[{index}]")
    elif (fields := jsontext.as_object(value)) is not None:
        for name in fields if steps[0] == "*" else (steps[0],):
            if name in fields:
                inner = f"{place}.{name}" if place else name
                yield from _values_at(fields[name], steps[1:], inner)


def _decimal_text(value: object, places: int) -> str | None:
    """Return a number divided by a power of ten, exactly; `None` for other values."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    elif isinstance(value, str) and _DECIMAL.fullmatch(value):
        number = Decimal(value)
    else:
        return None
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or abs(exponent) + len(digits) > _MAX_DIGITS:
        return None
    exponent -= places
    text = "".join(map(str, digits)) + "0" * max(exponent, 0)
    decimals = max(-exponent, 0)
    text = text.rjust(decimals + 1, "0")
    whole, fraction = text[: len(text) - decimals], text[len(text) - decimals :]
    # 5.0 euros have no more decimals than 5 euros.
    while (
        len(fraction) > places and fraction.endswith("0") and isinstance(value, float)
    ):
        fraction = fraction[:-1]
    if len(fraction) == 1:
        fraction += "0"  # 12.5 is read as 12.50
    grouped = f"{int(whole):,}" + (f".{fraction}" if fraction else "")
    is_negative = sign and any(digits)
    return f"-{grouped}" if is_negative else grouped


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
        raise TemplateInvalid(f"it must have 1 to {_MAX_TEMPLATE_CHARS} characters")
    if escape_invisible(template) != template:
        raise TemplateInvalid("it must be one line of visible characters")
    try:
        pieces = list(Formatter().parse(template))
    except ValueError as error:
        raise TemplateInvalid(str(error).lower()) from None
    return [_field(*piece) for piece in pieces]


def money_in(
    template: str, money_by_path: Mapping[str, MoneyReading]
) -> dict[str, MoneyReading]:
    """Return how amounts are read, those of a template too."""
    found = dict(money_by_path)
    for field in parse_template(template) if template else ():
        if field.money is not None:
            found.setdefault("/".join(field.path), field.money)
    return found


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
        raise TemplateInvalid(f"{{{name}}} is not the name of an argument")
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
