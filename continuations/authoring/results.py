"""Results: what a tool returned, as the text that the model reads.

Imported on first use: it needs pydantic.

A `str` reaches the model as it is, anything else as JSON. What JSON has no word for
is written in one way only, or refused with its place, never changed in silence:

| value | text |
|---|---|
| `None`, `bool`, `int`, finite `float`, `str` | as JSON has them |
| `list`, `tuple` (named ones too), `deque` | an array |
| `set`, `frozenset` | an array, in the order of its members' JSON |
| a mapping whose keys are all `str`, a `TypedDict` | an object, keys in their order |
| a pydantic model or dataclass | as pydantic writes it, by alias |
| a dataclass | an object of its fields |
| an `Enum` member | its value |
| finite `Decimal`, `UUID`, path, URL, pattern, IP address, `complex` | a string |
| `datetime`, `date`, `time`, `timedelta` | a string, ISO 8601 |
| `SecretStr` and its like | a string of asterisks |
| `bytes`, `bytearray` | a string, if they are UTF-8 |

Refused: NaN and the infinities, other bytes, keys that are not `str`, iterators and
generators, what contains itself, more than 100 levels, integers of over 4,300 digits,
and every other object.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, NoReturn, TypeAlias

from pydantic_core import to_jsonable_python

from continuations.authoring.dumping import (
    MAPPINGS,
    SEQUENCES,
    SETS,
    in_order,
    member,
    settled,
)
from continuations.authoring.faults import ResultUnstorable
from continuations.core import jsontext

_DEEPEST = 100
_Container: TypeAlias = Callable[[Any, str, int], Any]
_ITERATORS: tuple[type[Any], ...] = (Iterator, AsyncIterator)


def text_of(result: object) -> str:
    """Return a result as the model reads it; raises `ResultUnstorable`."""
    if isinstance(result, str):
        return str.__str__(result)  # of a member of a str enum: its value
    try:
        return jsontext.dump(_Walk().json(result, "result", 0))
    except ResultUnstorable:
        raise
    except Exception as error:
        # NotJson, RecursionError, or what a class of the application's own raises
        # while it is read.
        msg = f"result cannot be written: {_first_line(error)}"
        raise ResultUnstorable(msg) from error


class _Walk:
    """One walk through a result; it knows which objects it stands in."""

    def __init__(self) -> None:
        self._inside: set[int] = set()

    def json(self, value: Any, where: str, depth: int) -> Any:
        """Return a value as plain JSON values."""
        if isinstance(value, Enum):
            return self.json(value.value, where, depth)
        if isinstance(value, str):
            return str.__str__(value)
        if value is None or isinstance(value, int | float | Decimal):
            return _scalar(value, where)
        container = self._container(value)
        if container is None:
            return _leaf(value, where)
        if depth == _DEEPEST:
            _refuse(where, f"is nested deeper than {_DEEPEST} levels")
        if id(value) in self._inside:
            _refuse(where, "contains itself")
        self._inside.add(id(value))
        try:
            return container(value, where, depth + 1)
        finally:
            self._inside.discard(id(value))

    def _container(self, value: Any) -> _Container | None:
        kinds: tuple[tuple[tuple[type[Any], ...], _Container], ...] = (
            (MAPPINGS, self._mapping),
            (SEQUENCES, self._sequence),
            (SETS, self._set),
        )
        for types, container in kinds:
            if isinstance(value, types):
                return container
        if isinstance(value, type):
            return None
        if hasattr(value, "__pydantic_serializer__"):
            return self._pydantic
        return self._dataclass if is_dataclass(value) else None

    def _mapping(self, value: Any, where: str, depth: int) -> Any:
        found: dict[str, Any] = {}
        for key, each in value.items():
            name = _key(key, where)
            found[name] = self.json(each, member(where, name), depth)
        return found

    def _sequence(self, value: Any, where: str, depth: int) -> Any:
        return [
            self.json(each, f"{where}[{index}]", depth)
            for index, each in enumerate(value)
        ]

    def _set(self, value: Any, where: str, depth: int) -> Any:
        return in_order(self._sequence(value, where, depth))

    def _dataclass(self, value: Any, where: str, depth: int) -> Any:
        found: dict[str, Any] = {}
        for each in fields(value):
            inner = getattr(value, each.name)
            found[each.name] = self.json(inner, member(where, each.name), depth)
        return found

    def _pydantic(self, value: Any, where: str, depth: int) -> Any:
        """Write a value as its own type says, unless that would lose something."""
        write: Callable[..., Any] = value.__pydantic_serializer__.to_python
        plain = write(value, by_alias=True, warnings="error")
        _refuse_changed(plain, where)
        try:
            data = write(value, mode="json", by_alias=True, warnings="error")
        except Exception:
            self.json(plain, where, depth)  # knows the place, if the fault is ours
            raise
        try:
            return settled(plain, data, where)
        except jsontext.NotJson as error:
            raise ResultUnstorable(str(error)) from None


def _refuse_changed(plain: Any, where: str) -> None:
    """Refuse what pydantic would turn into something else without a word."""
    if isinstance(plain, _ITERATORS):
        _refuse_iterator(plain, where)
    if isinstance(plain, MAPPINGS):
        for key, value in plain.items():
            _refuse_changed(value, member(where, _key(key, where)))
    elif isinstance(plain, SEQUENCES):
        for index, value in enumerate(plain):
            _refuse_changed(value, f"{where}[{index}]")


def _scalar(value: float | Decimal | None, where: str) -> Any:
    match value:
        case Decimal() if value.is_finite():
            return str(value)
        case float() if math.isfinite(value):
            return float(value)
        case Decimal() | float():
            return _refuse(where, f"is {value}, which is no JSON number")
        case None | bool():
            return value
        case _:
            return _whole(int(value), where)


def _whole(value: int, where: str) -> int:
    try:
        str(value)
    except ValueError:  # CPython writes no more than 4,300 digits
        _refuse(where, "is an integer of too many digits")
    return value


def _leaf(value: Any, where: str) -> Any:
    if isinstance(value, _ITERATORS):
        _refuse_iterator(value, where)
    try:
        return to_jsonable_python(value)
    except UnicodeDecodeError:
        _refuse(where, "is bytes that are not UTF-8")
    except Exception:  # noqa: BLE001 - pydantic, or the object while it is looked at
        _refuse(where, f"is {_kind(value)}, which has no JSON form")


def _key(key: object, where: str) -> str:
    if not isinstance(key, str):
        _refuse(where, f"has a key {_kind(key)}, not a string")
    return str.__str__(key)


def _refuse_iterator(value: object, where: str) -> NoReturn:
    _refuse(where, f"is {_kind(value)}, which can be read only once: make it a list")


def _refuse(where: str, what: str) -> NoReturn:
    msg = f"{where} {what}"
    raise ResultUnstorable(msg)


def _kind(value: object) -> str:
    return f"of type {type(value).__name__}"


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
