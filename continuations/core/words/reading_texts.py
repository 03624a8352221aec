"""Readings: the texts by which people understand values, made by code.

The reading of `1240000` may be `€12,400.00`. A reading never replaces the value, and a
reading is exact. Other values are shown alone.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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
