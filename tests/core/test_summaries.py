"""Summaries and readings: exact, on one line, and made by code."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuations.core.words.summaries import (
    MAX_TITLE_CHARS,
    MoneyReading,
    TemplateInvalid,
    date_text,
    money_in,
    money_text,
    parse_template,
    readings_by_place,
    render_template,
)

CENTS = MoneyReading("EUR", 100)


@pytest.mark.parametrize(
    ("value", "money", "text"),
    [
        (1240000, CENTS, "€12,400.00"),
        (5, MoneyReading("USD", 100), "$0.05"),
        (-5, MoneyReading("GBP", 100), "-£0.05"),
        (0, CENTS, "€0.00"),
        (12345, MoneyReading("CHF", 1), "CHF 12,345"),
        (12345, MoneyReading("KWD", 1000), "KWD 12.345"),
        ("12.50", MoneyReading("EUR", 1), "€12.50"),
        ("12.505", MoneyReading("EUR", 1), "€12.505"),
        (12.5, MoneyReading("EUR", 1), "€12.50"),
        (5.0, MoneyReading("EUR", 1), "€5"),
        (10**30, CENTS, "€10,000,000,000,000,000,000,000,000,000.00"),
        (7, MoneyReading("", 100), "0.07"),
    ],
)
def test_amount_is_read_exactly(value: Any, money: MoneyReading, text: str) -> None:
    assert text == money_text(value, money)


@pytest.mark.parametrize("value", [True, None, "1e5", "ten", "", [5], 10**60, "NaN"])
def test_value_that_is_no_amount_has_no_reading(value: Any) -> None:
    assert money_text(value, CENTS) is None


@given(st.integers(-(10**18), 10**18), st.sampled_from([1, 10, 100, 1000]))
def test_reading_of_an_amount_has_the_same_value(cents: int, units: int) -> None:
    text = money_text(cents, MoneyReading("CHF", units))

    assert text is not None
    number = Decimal(text.removeprefix("CHF ").replace(",", ""))
    assert Decimal(cents) == number * units


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2026-11-24", "Tuesday, 24 November 2026"),
        ("2026-11-24T09:00:00Z", "Tuesday, 24 November 2026, 09:00 UTC"),
        ("2026-11-24T09:00:01+02:00", "Tuesday, 24 November 2026, 09:00:01 +02:00"),
        ("2026-11-24T09:00:00", "Tuesday, 24 November 2026, 09:00 (no time zone)"),
        ("2026-13-24", None),
        ("tomorrow", None),
        (20261124, None),
    ],
)
def test_date_is_read_in_words(value: Any, text: str | None) -> None:
    assert text == date_text(value)


def test_readings_name_their_places() -> None:
    arguments = {"cents": 5, "items": [{"cents": 700}, {"cents": "x"}], "on": None}
    schema = {
        "properties": {"on": {"anyOf": [{"format": "date"}, {"type": "null"}]}},
    }
    money = {"cents": CENTS, "items/*/cents": CENTS}

    found = readings_by_place(arguments, schema, money)
    later = readings_by_place({**arguments, "on": "2026-11-24"}, schema, {})

    assert {"cents": "€0.05", "items[0].cents": "€7.00"} == found
    assert {"on": "Tuesday, 24 November 2026"} == later


def test_amount_of_a_template_is_a_reading_unless_the_tool_declares_one() -> None:
    template = "Send {cents:money/100 CHF} and {fee:money/1} to {to}"

    found = money_in(template, {"fee": CENTS})

    assert {"cents": MoneyReading("CHF", 100), "fee": CENTS} == found
    arguments = {"cents": 1250, "fee": 5, "to": "Kim"}
    readings = {"cents": "CHF 12.50", "fee": "€0.05"}
    assert readings == readings_by_place(arguments, {}, found)
    assert {"fee": CENTS} == money_in("", {"fee": CENTS})


def test_template_uses_the_reading_of_an_argument_or_a_format() -> None:
    arguments = {
        "cents": 1240000,
        "to": {"name": "Meridian"},
        "on": "2026-11-24",
        "files": ["a", "b", "c", "d", "e"],
        "flag": True,
        "none": None,
    }
    template = (
        "Send {cents} ({cents:money/1000}, {cents:money/100 CHF}) to {to.name} on "
        "{on:date}: {files:count} files, {files}, {flag}, {none}, {{x}}, {missing}"
    )

    assert (
        "Send €12,400.00 (€1,240.000, CHF 12,400.00) to Meridian on "
        "Tuesday, 24 November 2026: 5 files, a, b, c and 2 more, yes, nothing, {x}, "
        "nothing"
    ) == render_template(template, arguments, {"cents": CENTS})


@pytest.mark.parametrize(
    "template",
    [
        "",
        "  ",
        "x" * 501,
        "a\nb",
        "a\u202eb",
        "{",
        "}",
        "{}",
        "{0}",
        "{to!r}",
        "{to[0]}",
        "{to.}",
        "{to.__class__!s}",
        "{cents:>10}",
        "{cents:money}",
        "{cents:money/7}",
        "{cents:money/100EUR}",
        "{cents:money/100 eur}",
        f"{{cents:money/1{'0' * 10}}}",
        "{to:{cents}}",
    ],
)
def test_invalid_template_is_refused(template: str) -> None:
    with pytest.raises(TemplateInvalid):
        parse_template(template)


HOSTILE = [
    "Kim\nApproved: yes",
    "\u202eevil\u202c",
    "zero\u200bwidth",
    "<script>alert(1)</script>",
    "{cents}",
    "x" * 100_000,
    "\x1b[2J" * 50,
    "\ud800",
    ["\n"] * 1000,
    {"a": {"b": ["\u2066"]}},
]


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_title_of_hostile_text_is_one_short_visible_line(value: Any) -> None:
    """A value cannot begin another line, reorder the title or push its end away."""
    title = render_template("Send {cents} to {to} now", {"to": value, "cents": 5}, {})

    assert title.isprintable()
    assert len(title) <= MAX_TITLE_CHARS + len("… (100,000 characters)")
    assert title.startswith("Send 5 to ")
    if len(title) <= MAX_TITLE_CHARS:
        assert title.endswith(" now")


def test_shortened_value_says_its_length() -> None:
    title = render_template("Delete {name} for ever", {"name": "x" * 5210}, {})

    assert f"Delete {'x' * 80}… (5,210 characters) for ever" == title
