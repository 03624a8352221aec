"""Read stored values strictly: right type, no missing field, no unknown field.

The code uses no validation library, because a library would slow down decisions and
resumes in a cold process (docs/decisions/0003-reading-by-hand.md).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from continuations.core import jsontext
from continuations.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# 9999-12-31, the last day that datetime can represent.
_MAX_MILLISECONDS = 253_402_300_799_999


def to_milliseconds(time: datetime) -> int:
    """Return a time as whole milliseconds since 1970, UTC."""
    return (time - _EPOCH) // _MILLISECOND


def from_milliseconds(value: int) -> datetime:
    """Return the time of whole milliseconds since 1970, in UTC."""
    return _EPOCH + value * _MILLISECOND


def whole_milliseconds(time: datetime) -> datetime:
    """Return a time as it is stored: in whole milliseconds."""
    return time - timedelta(microseconds=time.microsecond % 1000)


def readable_time(moment: datetime) -> str:
    """Return a moment for people: `2026-11-21 14:00:00 UTC`."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


class FieldReader:
    """The fields of one stored mapping; each is read once, with its type.

    Every method removes the field that it reads and raises `FormatError` if the field
    is missing or invalid. `where` names the mapping in errors.
    """

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise invalid_object(
                where, f"it must be a mapping, got {_type_name(value)}"
            )
        self._remaining = dict(cast("dict[str, Any]", value))
        self.where = where

    @property
    def names(self) -> Collection[str]:
        """The names of the fields that were not read yet."""
        return self._remaining.keys()

    def _take(self, name: str, kind: type, default: object) -> Any:
        if name not in self._remaining:
            if default is _REQUIRED:
                raise self._error(name, "is missing")
            return default
        value = self._remaining.pop(name)
        # isinstance would accept a bool as an int.
        if type(value) is not kind:
            raise self._error(name, f"must be {kind.__name__}, got {_type_name(value)}")
        return value

    def text(self, name: str) -> str:
        """Read a string."""
        value: object = self._remaining.get(name)
        if type(value) is str:  # most fields are texts
            del self._remaining[name]
            return value
        return str(self._take(name, str, _REQUIRED))

    def text_or_none(self, name: str) -> str | None:
        """Read a string that may be missing."""
        value: str | None = self._take(name, str, None)
        return value

    def json_object(self, name: str) -> str:
        """Read a string that is the text of a JSON object."""
        text = self.text(name)
        if len(text) < _MAX_CACHED_LENGTH and _is_json_object(text):
            return text
        if not isinstance(self._parse_json(name, text), dict):
            raise self._error(name, "must be a JSON object")
        return text

    def json_object_or_none(self, name: str) -> str | None:
        """Read the text of a JSON object that may be missing."""
        return self.json_object(name) if name in self._remaining else None

    def json_or_none(self, name: str) -> str | None:
        """Read the text of any JSON value; it may be missing."""
        text = self.text_or_none(name)
        if text is not None:
            self._parse_json(name, text)
        return text

    def number(self, name: str, default: int | None = None) -> int:
        """Read an integer of at least 0."""
        value: int = self._take(name, int, _REQUIRED if default is None else default)
        if value < 0:
            raise self._error(name, "must not be negative")
        return value

    def number_or_none(self, name: str) -> int | None:
        """Read an integer of at least 0 that may be missing."""
        return self.number(name) if name in self._remaining else None

    def numbers(self, name: str) -> tuple[int, ...]:
        """Read a list of integers of at least 0; a missing one is empty."""
        return self.list_of(name, _read_number)

    def flag(self, name: str) -> bool:
        """Read a bool; a missing one is false."""
        value: bool = self._take(name, bool, default=False)
        return value

    def binary(self, name: str) -> bytes:
        """Read bytes."""
        value: bytes = self._take(name, bytes, _REQUIRED)
        return value

    def binary_or_none(self, name: str) -> bytes | None:
        """Read bytes that may be missing."""
        return self.binary(name) if name in self._remaining else None

    def timestamp(self, name: str) -> datetime:
        """Read a time."""
        value = self.number(name)
        if value > _MAX_MILLISECONDS:
            raise self._error(name, "must not be after the year 9999")
        return from_milliseconds(value)

    def timestamp_or_none(self, name: str) -> datetime | None:
        """Read a time that may be missing."""
        return self.timestamp(name) if name in self._remaining else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Read a list of strings; a missing one is empty."""
        items = self._remaining.get(name)
        if type(items) is list and set(map(type, cast("list[object]", items))) == {str}:
            return tuple(self._take(name, list, _REQUIRED))
        return self.list_of(name, _read_text)

    def list_of(
        self, name: str, read_item: Callable[[object, str], T]
    ) -> tuple[T, ...]:
        """Read a list, and each item with `read_item`; a missing one is empty."""
        items = self._take(name, list, [])
        where = f"{self.where}.{name}"
        return tuple(read_item(item, f"{where}[{i}]") for i, item in enumerate(items))

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Read a mapping; a missing one is empty."""
        value: dict[str, Any] = self._take(name, dict, {})
        return value

    def nested_or_none(
        self, name: str, read_value: Callable[[object, str], T]
    ) -> T | None:
        """Read a nested value with `read_value`; it may be missing."""
        if name not in self._remaining:
            return None
        return read_value(self._remaining.pop(name), f"{self.where}.{name}")

    def one_of(self, name: str, choices: frozenset[str]) -> Any:
        """Read a string that must be one of `choices`."""
        value = self.text(name)
        if value not in choices:
            raise self._error(name, f"must be one of {', '.join(sorted(choices))}")
        return value

    def check_all_read(self) -> None:
        """Raise `FormatError` if a field was not read, because it is unknown."""
        if self._remaining:
            unknown = ", ".join(sorted(self._remaining))
            raise invalid_object(self.where, f"unknown fields: {unknown}")

    def _parse_json(self, name: str, text: str) -> object:
        try:
            return jsontext.parse(text)
        except jsontext.NotJson as error:
            raise self._error(name, f"is not valid JSON: {error}") from None

    def _error(self, name: str, problem: str) -> FormatError:
        return invalid_object(self.where, f"{name!r} {problem}")


_REQUIRED = object()


def _read_number(value: object, where: str) -> int:
    if type(value) is not int or value < 0:
        raise invalid_object(where, "it must be an integer of at least 0")
    return value


def _read_text(value: object, where: str) -> str:
    if type(value) is not str:
        raise invalid_object(where, f"it must be str, got {_type_name(value)}")
    return value


def invalid_object(where: str, problem: str) -> FormatError:
    """Return the error for intact bytes that do not hold what they should."""
    return FormatError(
        f"{where} is invalid: {problem}. It was not changed. Check which program "
        "wrote it."
    )


def _type_name(value: object) -> str:
    return type(value).__name__


# All waits for one tool have the same schema, which is parsed only once.
_MAX_CACHED_LENGTH = 4096


@lru_cache(maxsize=512)
def _is_json_object(text: str) -> bool:
    try:
        return isinstance(jsontext.parse(text), dict)
    except jsontext.NotJson:
        return False


def omit_empty(**fields: object) -> dict[str, object]:
    """Return the fields that are stored: all but `None`, false and empty ones."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value is not False and value not in ([], {})
    }


def late(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module of this package, which the first call imports.

    Few objects have the fields of such a module, and a cold process should not load it.
    """

    def call(*arguments: object) -> Any:
        loaded = import_module(f"continuations.wire.{module}")
        return getattr(loaded, name)(*arguments)

    return call
