"""Reading stored values strictly: right type, nothing missing, nothing unknown.

Done by hand and not by a validation library, because deciding and resuming in a cold
process are what people wait for (docs/decisions/0003-reading-by-hand.md).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from continuations.core import jsontext
from continuations.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# 9999-12-31, the last day that datetime knows.
_MAX_MILLISECONDS = 253_402_300_799_999


def to_milliseconds(time: datetime) -> int:
    """Return a moment as whole milliseconds since 1970, UTC."""
    return (time - _EPOCH) // _MILLISECOND


def from_milliseconds(value: int) -> datetime:
    """Return the moment of whole milliseconds since 1970."""
    return _EPOCH + value * _MILLISECOND


class FieldReader:
    """The fields of one stored mapping; each is taken once, by its type."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            msg = f"{where} is not a mapping"
            raise FormatError(msg)
        self._remaining = dict(cast("dict[str, Any]", value))
        self.where = where

    def _take(self, name: str, kind: type, default: object) -> Any:
        if name not in self._remaining:
            if default is _REQUIRED:
                msg = f"{self.where} lacks {name}"
                raise FormatError(msg)
            return default
        value = self._remaining.pop(name)
        # bool is an int to isinstance, and must not be one to us.
        if type(value) is not kind:
            msg = f"{self.where}: {name} is a {type(value).__name__}"
            raise FormatError(msg)
        return value

    def text(self, name: str) -> str:
        """Take a text."""
        value: str = self._take(name, str, _REQUIRED)
        return value

    def text_or_none(self, name: str) -> str | None:
        """Take a text that may be missing."""
        value: str | None = self._take(name, str, None)
        return value

    def json_object(self, name: str) -> str:
        """Take a text that is a JSON object, so that who parses it later can."""
        text = self.text(name)
        if len(text) < _MAX_CACHED_LENGTH and _is_json_object(text):
            return text
        if not isinstance(_parse_json(text, f"{self.where}: {name}"), dict):
            msg = f"{self.where}: {name} is not a JSON object"
            raise FormatError(msg)
        return text

    def json_object_or_none(self, name: str) -> str | None:
        """Take the text of a JSON object that may be missing."""
        return self.json_object(name) if name in self._remaining else None

    def json_or_none(self, name: str) -> str | None:
        """Take the text of any JSON value that may be missing."""
        text = self.text_or_none(name)
        if text is not None:
            _parse_json(text, f"{self.where}: {name}")
        return text

    def number(self, name: str, default: int | None = None) -> int:
        """Take a whole number that is not negative."""
        value: int = self._take(name, int, _REQUIRED if default is None else default)
        if value < 0:
            msg = f"{self.where}: {name} is negative"
            raise FormatError(msg)
        return value

    def number_or_none(self, name: str) -> int | None:
        """Take a whole number that may be missing."""
        return self.number(name) if name in self._remaining else None

    def flag(self, name: str) -> bool:
        """Take a flag; missing means no."""
        value: bool = self._take(name, bool, default=False)
        return value

    def binary(self, name: str) -> bytes:
        """Take bytes."""
        value: bytes = self._take(name, bytes, _REQUIRED)
        return value

    def binary_or_none(self, name: str) -> bytes | None:
        """Take bytes that may be missing."""
        return self.binary(name) if name in self._remaining else None

    def timestamp(self, name: str) -> datetime:
        """Take a moment."""
        value = self.number(name)
        if value > _MAX_MILLISECONDS:
            msg = f"{self.where}: {name} is no moment"
            raise FormatError(msg)
        return from_milliseconds(value)

    def timestamp_or_none(self, name: str) -> datetime | None:
        """Take a moment that may be missing."""
        return self.timestamp(name) if name in self._remaining else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of texts; missing means empty."""
        return self.list_of(name, _read_text)

    def list_of(
        self, name: str, read_item: Callable[[object, str], T]
    ) -> tuple[T, ...]:
        """Take a list, reading each item; missing means empty."""
        items = self._take(name, list, [])
        where = f"{self.where}.{name}"
        return tuple(read_item(item, f"{where}[{i}]") for i, item in enumerate(items))

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Take a mapping with text keys; missing means empty."""
        value: dict[str, Any] = self._take(name, dict, {})
        return value

    def nested_or_none(
        self, name: str, read_value: Callable[[object, str], T]
    ) -> T | None:
        """Take a nested mapping that may be missing."""
        if name not in self._remaining:
            return None
        return read_value(self._remaining.pop(name), f"{self.where}.{name}")

    def one_of(self, name: str, choices: frozenset[str]) -> Any:
        """Take a text that is one of a few."""
        value = self.text(name)
        if value not in choices:
            msg = f"{self.where}: {name} is not one of {', '.join(sorted(choices))}"
            raise FormatError(msg)
        return value

    def check_all_read(self) -> None:
        """Check that nothing unknown is left."""
        if self._remaining:
            msg = (
                f"{self.where} has unknown fields: {', '.join(sorted(self._remaining))}"
            )
            raise FormatError(msg)


_REQUIRED = object()


def _read_text(value: object, where: str) -> str:
    if type(value) is not str:
        msg = f"{where} is not a text"
        raise FormatError(msg)
    return value


# A hundred waits for one tool have one schema, which is parsed once.
_MAX_CACHED_LENGTH = 4096


@lru_cache(maxsize=512)
def _is_json_object(text: str) -> bool:
    try:
        return isinstance(jsontext.parse(text), dict)
    except jsontext.NotJson:
        return False


def _parse_json(text: str, where: str) -> object:
    try:
        return jsontext.parse(text)
    except jsontext.NotJson as error:
        msg = f"{where} is not JSON: {error}"
        raise FormatError(msg) from None


def omit_empty(**fields: object) -> dict[str, object]:
    """Return the fields that say something; the reader knows what missing means."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value is not False and value not in ([], {})
    }
