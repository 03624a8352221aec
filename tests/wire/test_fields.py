"""Stored fields are read strictly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.errors import FormatError
from continuations.wire.fields import (
    FieldReader,
    from_milliseconds,
    omit_empty,
    to_milliseconds,
)
from tests.sampling import examples

if TYPE_CHECKING:
    from collections.abc import Callable

TIMES = st.datetimes(datetime(1970, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis adds the zone

# Each method of FieldReader, with a stored value and the value that it returns.
FIELD_READERS: dict[str, tuple[Callable[[FieldReader], object], object, object]] = {
    "text": (lambda f: f.text("x"), "é", "é"),
    "text_or_none": (lambda f: f.text_or_none("x"), "", ""),
    "number": (lambda f: f.number("x"), 2**63, 2**63),
    "number_or_none": (lambda f: f.number_or_none("x"), 0, 0),
    "flag": (lambda f: f.flag("x"), True, True),
    "binary": (lambda f: f.binary("x"), b"\0", b"\0"),
    "timestamp": (lambda f: f.timestamp("x"), 1500, from_milliseconds(1500)),
    "timestamp_or_none": (lambda f: f.timestamp_or_none("x"), 0, from_milliseconds(0)),
    "texts": (lambda f: f.texts("x"), ["a", ""], ("a", "")),
    "mapping": (lambda f: f.mapping("x"), {"a": 1}, {"a": 1}),
    "one_of": (lambda f: f.one_of("x", frozenset({"on"})), "on", "on"),
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
DEFAULTS: dict[str, Any] = {
    "text_or_none": None,
    "number_or_none": None,
    "flag": False,
    "timestamp_or_none": None,
    "texts": (),
    "mapping": {},
}


@pytest.mark.parametrize("name", FIELD_READERS)
def test_field_of_the_right_type_is_read(name: str) -> None:
    read, value, expected = FIELD_READERS[name]
    fields = FieldReader({"x": value}, "the row")

    assert expected == read(fields)
    fields.check_all_read()


@pytest.mark.parametrize("odd", ODD_VALUES, ids=repr)
@pytest.mark.parametrize("name", FIELD_READERS)
def test_field_of_another_type_is_rejected_with_its_path(
    name: str, odd: object
) -> None:
    """No value is converted: a bool is not a number, bytes are not a string."""
    read, value, _ = FIELD_READERS[name]
    fits = type(odd) is type(value) and odd not in (-1, [1], [True], [None])
    if name == "one_of":
        fits = odd == "on"
    fields = FieldReader({"x": odd}, "the row")

    if fits:
        read(fields)
    else:
        with pytest.raises(FormatError, match=r"^the row.*x"):
            read(fields)


@pytest.mark.parametrize("name", FIELD_READERS)
def test_missing_field_is_named_or_has_a_default(name: str) -> None:
    read = FIELD_READERS[name][0]

    if name in DEFAULTS:
        assert DEFAULTS[name] == read(FieldReader({}, "the row"))
    else:
        with pytest.raises(FormatError, match=r"^the row is invalid: 'x' is missing\."):
            read(FieldReader({}, "the row"))


@pytest.mark.parametrize("value", [None, [], "x", 1, b"", [("a", 1)]], ids=repr)
def test_row_that_is_not_a_mapping_is_rejected(value: object) -> None:
    with pytest.raises(FormatError, match=r"^the row is invalid: it must be a mapping"):
        FieldReader(value, "the row")


def test_unknown_fields_are_rejected_by_name() -> None:
    """A field that a newer release added is not dropped silently."""
    fields = FieldReader({"x": "1", "z": 2, "a": 3}, "the row")
    fields.text("x")

    with pytest.raises(FormatError, match="the row is invalid: unknown fields: a, z"):
        fields.check_all_read()


def test_field_can_be_read_only_once() -> None:
    fields = FieldReader({"x": "1"}, "the row")
    fields.text("x")

    with pytest.raises(FormatError, match="'x' is missing"):
        fields.text("x")


def test_reading_does_not_change_the_mapping() -> None:
    value = {"x": "1"}
    FieldReader(value, "the row").text("x")

    assert {"x": "1"} == value


def test_error_names_the_path_of_the_item() -> None:
    def read(value: object, where: str) -> str:
        return FieldReader(value, where).text("y")

    fields: dict[str, Any] = {"rows": [{"y": "1"}, {"y": 2}], "row": {"y": 3}}

    with pytest.raises(
        FormatError, match=r"^it\.rows\[1\] is invalid: 'y' must be str, got int\."
    ):
        FieldReader(fields, "it").list_of("rows", read)
    with pytest.raises(
        FormatError, match=r"^it\.row is invalid: 'y' must be str, got int\."
    ):
        FieldReader(fields, "it").nested_or_none("row", read)
    assert FieldReader(fields, "it").nested_or_none("none", read) is None


def test_errors_never_contain_the_value() -> None:
    """The value may be a secret from a conversation."""
    with pytest.raises(FormatError) as caught:
        FieldReader({"x": b"my secret"}, "the row").text("x")

    assert "secret" not in str(caught.value)


# Times ------------------------------------------------------------------------


@settings(max_examples=examples(200), deadline=None, derandomize=True)
@given(TIMES)
def test_times_keep_their_milliseconds(when: datetime) -> None:
    back = from_milliseconds(to_milliseconds(when))

    assert timedelta() <= when - back < timedelta(milliseconds=1)
    assert to_milliseconds(when) == to_milliseconds(back)
    assert back == FieldReader({"x": to_milliseconds(when)}, "it").timestamp("x")


def test_time_in_another_zone_is_the_same_time() -> None:
    zone = timezone(timedelta(hours=-7))
    local = datetime(2026, 11, 21, 2, 30, tzinfo=zone)

    assert local == from_milliseconds(to_milliseconds(local))


@pytest.mark.parametrize("value", [253_402_300_800_000, 2**63, 2**64 - 1])
def test_time_after_year_9999_is_rejected(value: int) -> None:
    with pytest.raises(FormatError, match="year 9999"):
        FieldReader({"x": value}, "the row").timestamp("x")


# Writing ----------------------------------------------------------------------


def test_omit_empty_drops_none_false_and_empty_containers() -> None:
    """`0`, the empty string and empty bytes are kept."""
    written = omit_empty(
        a=None, b=False, c=[], d={}, zero=0, empty="", yes=True, data=b"", one=[0]
    )

    assert {"zero": 0, "empty": "", "yes": True, "data": b"", "one": [0]} == written
