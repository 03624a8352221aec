"""Stored fields are read strictly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.errors import FormatError
from continuations.wire import fields
from continuations.wire.fields import Row
from tests.sampling import examples

TIMES = st.datetimes(datetime(1970, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone

# Each type of field, with a stored value and the value that it stands for.
FIELDS: dict[str, tuple[fields.Field, object, object]] = {
    "id": (fields.ID, "é", "é"),
    "text": (fields.TEXT, "", ""),
    "number": (fields.NUMBER, 2**63, 2**63),
    "count": (fields.COUNT, 7, 7),
    "optional number": (fields.OPTIONAL_NUMBER, 0, 0),
    "numbers": (fields.NUMBERS, [0, 7], (0, 7)),
    "flag": (fields.FLAG, True, True),
    "binary": (fields.BINARY, b"\0", b"\0"),
    "at": (fields.AT, 1500, fields.from_milliseconds(1500)),
    "time": (fields.TIME, 0, fields.from_milliseconds(0)),
    "texts": (fields.TEXTS, ["a", ""], ("a", "")),
    "json": (fields.JSON, "[1]", "[1]"),
    "json object": (fields.JSON_OBJECT, '{"a":1}', '{"a":1}'),
    "one of": (fields.one_of(frozenset({"on"})), "on", "on"),
}
MISSING: dict[str, object] = {
    "text": None,
    "count": 0,
    "optional number": None,
    "numbers": (),
    "flag": False,
    "binary": None,
    "time": None,
    "texts": (),
    "json": None,
    "json object": None,
}
ODD_VALUES: tuple[object, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.0,
    "",
    "on",
    b"on",
    [],
    ["a"],
    [1],
    [True],
    [None],
    {},
    {"a": 1},
)


class Item(NamedTuple):
    """A value with one attribute."""

    value: Any


def table(field: fields.Field) -> Row[Item]:
    """Return the table of a value whose attribute is stored as `x`."""
    return Row("item", Item, x=field.of("value"))


@pytest.mark.parametrize("name", FIELDS)
def test_value_is_read_as_it_was_written(name: str) -> None:
    field, stored, value = FIELDS[name]
    row = table(field)

    assert {"x": stored} == row.write(Item(value))
    assert type(value) is type(row.read({"x": stored}, "the row").value)
    assert Item(value) == row.read({"x": stored}, "the row")


@pytest.mark.parametrize("odd", ODD_VALUES, ids=repr)
@pytest.mark.parametrize("name", FIELDS)
def test_field_of_another_type_is_rejected_with_its_path(
    name: str, odd: object
) -> None:
    """No value is converted: a bool is not a number, bytes are not a string."""
    field, stored, _ = FIELDS[name]
    fits = type(odd) is type(stored) and repr(odd) not in ("-1", "[True]", "[None]")
    if name in ("texts", "numbers"):
        fits = fits and odd != ([1] if name == "texts" else ["a"])
    if name in ("one of", "json", "json object"):
        fits = odd == stored

    if fits:
        table(field).read({"x": odd}, "the row")
    else:
        with pytest.raises(FormatError, match=r"^the row.*x"):
            table(field).read({"x": odd}, "the row")


@pytest.mark.parametrize("name", FIELDS)
def test_missing_field_is_named_or_has_a_default(name: str) -> None:
    """A field that is left out has the value that is never written."""
    row = table(FIELDS[name][0])

    if name in MISSING:
        assert Item(MISSING[name]) == row.read({}, "the row")
        assert {} == row.write(Item(MISSING[name]))
    else:
        with pytest.raises(FormatError, match=r"^the row is invalid: 'x' is missing\."):
            row.read({}, "the row")


def test_zero_and_the_empty_text_are_written_if_missing_means_none() -> None:
    assert {"x": 0} == table(fields.OPTIONAL_NUMBER).write(Item(0))
    assert {"x": ""} == table(fields.TEXT).write(Item(""))
    assert {"x": 0} == table(fields.NUMBER).write(Item(0))


@pytest.mark.parametrize("value", [None, [], "x", 1, b"", [("a", 1)]], ids=repr)
def test_row_that_is_not_a_mapping_is_rejected(value: object) -> None:
    with pytest.raises(FormatError, match=r"^the row is invalid: it must be a mapping"):
        table(fields.TEXT).read(value, "the row")


def test_unknown_fields_are_rejected_by_name() -> None:
    """A field that a newer release added is not dropped silently."""
    with pytest.raises(FormatError, match="the row is invalid: unknown fields: a, z"):
        table(fields.TEXT).read({"x": "1", "z": 2, "a": 3}, "the row")


def test_reading_does_not_change_the_mapping() -> None:
    value = {"x": "1"}
    table(fields.ID).read(value, "the row")

    assert {"x": "1"} == value


def test_error_names_the_path_of_the_item() -> None:
    inner = table(fields.ID)

    with pytest.raises(
        FormatError, match=r"^it\.x\[1\] is invalid: 'x' must be str, got int\."
    ):
        table(fields.rows_of(lambda: inner)).read({"x": [{"x": "1"}, {"x": 2}]}, "it")
    with pytest.raises(
        FormatError, match=r"^it\.x is invalid: 'x' must be str, got int\."
    ):
        table(fields.row_of(lambda: inner)).read({"x": {"x": 3}}, "it")


def test_errors_never_contain_the_value() -> None:
    """The value may be a secret from a conversation."""
    with pytest.raises(FormatError) as caught:
        table(fields.TEXT).read({"x": b"my secret"}, "the row")

    assert "secret" not in str(caught.value)


def test_constant_attributes_of_a_delta_come_from_its_base() -> None:
    row = table(fields.ID.in_full_copies())

    assert {} == row.write(Item("a"), full_copy=False)
    assert Item("b") == row.read({}, "the row", Item("b"))
    with pytest.raises(FormatError, match="unknown fields: x"):
        row.read({"x": "a"}, "the row", Item("b"))


# Times ------------------------------------------------------------------------


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(TIMES)
def test_times_keep_their_milliseconds(when: datetime) -> None:
    back = fields.from_milliseconds(fields.to_milliseconds(when))

    assert timedelta() <= when - back < timedelta(milliseconds=1)
    assert fields.to_milliseconds(when) == fields.to_milliseconds(back)
    assert back == fields.AT.read(fields.to_milliseconds(when), "it", "x")


def test_time_in_another_zone_is_the_same_time() -> None:
    zone = timezone(timedelta(hours=-7))
    local = datetime(2026, 11, 21, 2, 30, tzinfo=zone)

    assert local == fields.from_milliseconds(fields.to_milliseconds(local))


@pytest.mark.parametrize("value", [253_402_300_800_000, 2**63, 2**64 - 1])
def test_time_after_year_9999_is_rejected(value: int) -> None:
    with pytest.raises(FormatError, match="year 9999"):
        fields.AT.read(value, "the row", "x")
