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
_LAST_MOMENT = 253_402_300_799_999


def milliseconds(moment: datetime) -> int:
    """Return a moment as whole milliseconds since 1970, UTC."""
    return (moment - _EPOCH) // _MILLISECOND


def moment(value: int) -> datetime:
    """Return the moment of whole milliseconds since 1970."""
    return _EPOCH + value * _MILLISECOND


class Fields:
    """The fields of one stored mapping; each is taken once, by its type."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            msg = f"{where} is not a mapping"
            raise FormatError(msg)
        self._left = dict(cast("dict[str, Any]", value))
        self.where = where

    def _take(self, name: str, kind: type, default: object) -> Any:
        if name not in self._left:
            if default is _REQUIRED:
                msg = f"{self.where} lacks {name}"
                raise FormatError(msg)
            return default
        value = self._left.pop(name)
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
        if len(text) < _SHORT and _is_object(text):
            return text
        if not isinstance(_parsed(text, f"{self.where}: {name}"), dict):
            msg = f"{self.where}: {name} is not a JSON object"
            raise FormatError(msg)
        return text

    def json_object_or_none(self, name: str) -> str | None:
        """Take the text of a JSON object that may be missing."""
        return self.json_object(name) if name in self._left else None

    def json_or_none(self, name: str) -> str | None:
        """Take the text of any JSON value that may be missing."""
        text = self.text_or_none(name)
        if text is not None:
            _parsed(text, f"{self.where}: {name}")
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
        return self.number(name) if name in self._left else None

    def flag(self, name: str) -> bool:
        """Take a flag; missing means no."""
        value: bool = self._take(name, bool, default=False)
        return value

    def data(self, name: str) -> bytes:
        """Take bytes."""
        value: bytes = self._take(name, bytes, _REQUIRED)
        return value

    def data_or_none(self, name: str) -> bytes | None:
        """Take bytes that may be missing."""
        return self.data(name) if name in self._left else None

    def moment(self, name: str) -> datetime:
        """Take a moment."""
        value = self.number(name)
        if value > _LAST_MOMENT:
            msg = f"{self.where}: {name} is no moment"
            raise FormatError(msg)
        return moment(value)

    def moment_or_none(self, name: str) -> datetime | None:
        """Take a moment that may be missing."""
        return self.moment(name) if name in self._left else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Take a list of texts; missing means empty."""
        return self.each(name, _text)

    def each(self, name: str, read: Callable[[object, str], T]) -> tuple[T, ...]:
        """Take a list, reading each item; missing means empty."""
        items = self._take(name, list, [])
        where = f"{self.where}.{name}"
        return tuple(read(item, f"{where}[{i}]") for i, item in enumerate(items))

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Take a mapping with text keys; missing means empty."""
        value: dict[str, Any] = self._take(name, dict, {})
        return value

    def one(self, name: str, read: Callable[[object, str], T]) -> T | None:
        """Take a nested mapping that may be missing."""
        if name not in self._left:
            return None
        return read(self._left.pop(name), f"{self.where}.{name}")

    def chosen(self, name: str, among: frozenset[str]) -> Any:
        """Take a text that is one of a few."""
        value = self.text(name)
        if value not in among:
            msg = f"{self.where}: {name} is not one of {', '.join(sorted(among))}"
            raise FormatError(msg)
        return value

    def end(self) -> None:
        """Check that nothing unknown is left."""
        if self._left:
            msg = f"{self.where} has unknown fields: {', '.join(sorted(self._left))}"
            raise FormatError(msg)


_REQUIRED = object()


def _text(value: object, where: str) -> str:
    if type(value) is not str:
        msg = f"{where} is not a text"
        raise FormatError(msg)
    return value


# A hundred waits for one tool have one schema, which is parsed once.
_SHORT = 4096


@lru_cache(maxsize=512)
def _is_object(text: str) -> bool:
    try:
        return isinstance(jsontext.parse(text), dict)
    except jsontext.NotJson:
        return False


def _parsed(text: str, where: str) -> object:
    try:
        return jsontext.parse(text)
    except jsontext.NotJson as error:
        msg = f"{where} is not JSON: {error}"
        raise FormatError(msg) from None


def present(**fields: object) -> dict[str, object]:
    """Return the fields that say something; the reader knows what missing means."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value is not False and value not in ([], {})
    }
