"""Write a tool's result as the text that the model reads.

This module imports pydantic; it is imported on first use.

A `str` reaches the model unchanged, every other value as JSON. A value without a JSON
type is written in one way only, or refused with its place. It never changes silently:

| value | text |
|---|---|
| `None`, `bool`, `int`, finite `float`, `str` | the JSON value |
| `list`, `tuple` (named ones too), `deque` | an array |
| `set`, `frozenset` | an array, sorted by the JSON text of the members |
| a mapping whose keys are all `str`, a `TypedDict` | an object, keys in their order |
| a pydantic model or dataclass | as pydantic writes it, by alias |
| a dataclass | an object of its fields |
| an `Enum` member | its value |
| finite `Decimal`, `UUID`, path, URL, pattern, IP address, `complex` | a string |
| `datetime`, `date`, `time`, `timedelta` | a string, ISO 8601 |
| `SecretStr` and its like | a string of asterisks |
| `bytes`, `bytearray` | a string, if they are UTF-8 |
| an `Image`, `Audio` or `File`, or a list of texts and of these | parts |

Refused:

- NaN and the infinities, and integers of over 4,300 digits
- bytes that are not UTF-8
- mappings with keys that are not `str`
- iterators and generators
- values that contain themselves, and more than 100 levels
- every other object
"""

from __future__ import annotations

import math
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, cast

from pydantic_core import to_jsonable_python

from continuations.authoring.arguments import json_values
from continuations.authoring.errors import ResultNotSerializable
from continuations.core import jsontext

if TYPE_CHECKING:
    from continuations.core.rows.attachments import Content, ResultWithFiles


_ATTACHMENTS = "continuations.core.rows.attachments"
_MAX_DEPTH = 100
_MAX_PLACE_LENGTH = 80
_Converter: TypeAlias = Callable[[Any, str, int], Any]
_ITERATOR_TYPES: tuple[type[Any], ...] = (Iterator, AsyncIterator)


def serialize_result(result: object) -> str | ResultWithFiles:
    """Return a result as text for the model; raises `ResultNotSerializable`.

    An `Image`, `Audio` or `File`, or a list of texts and of these, keeps its parts.
    """
    if isinstance(result, str):
        return str.__str__(result)  # a member of a str enum becomes its value
    if _ATTACHMENTS in sys.modules:  # without it, there is no attachment
        from continuations.core.rows.attachments import is_content  # noqa: PLC0415 - few tools return one

        items = cast("Sequence[object]", result) if _is_listed(result) else (result,)
        if any(map(is_content, items)):
            return _result_with_files(items)
    return JsonText(to_json_text(result))


class JsonText(str):
    """The JSON of a result; a result that is a text is a plain `str`."""

    __slots__ = ()


def _is_listed(result: object) -> bool:
    return isinstance(result, list | tuple)


def _result_with_files(items: Sequence[object]) -> ResultWithFiles:
    """Return the parts of a result; raises `ResultNotSerializable`."""
    from continuations.core.rows import attachments  # noqa: PLC0415 - few tools return one

    parts: list[dict[str, Any]] = []
    texts: list[str] = []
    contents: list[Content] = []
    for index, item in enumerate(items):
        if attachments.is_content(item):
            content = cast("Content", item)
            contents.append(content)
            parts.append(content.attachment.part)
            texts.append(content.attachment.label)
        elif isinstance(item, str):
            text = str.__str__(item)
            parts += [attachments.text_part(text)] if text else []
            texts += [text] if text else []
        else:
            raise ResultNotSerializable(
                f"result[{index}] is of type {type(item).__name__}: a list with an "
                "attachment has only texts, Image, Audio and File"
            )
    return attachments.ResultWithFiles(
        text="\n".join(texts), parts_json=jsontext.dump(parts), contents=tuple(contents)
    )


def to_json_text(result: object) -> str:
    """Return a value as JSON text; raises `ResultNotSerializable`."""
    try:
        return jsontext.dump(_Serializer().to_json_value(result, "result", 0))
    except ResultNotSerializable:
        raise
    except Exception as error:
        # NotJson, RecursionError, or any exception that a class of the application
        # raises while it is read.
        msg = f"result cannot be written: {json_values.first_line(error, 200)}"
        raise ResultNotSerializable(msg) from error


class _Serializer:
    """One walk through a result; it keeps the ids of the objects around a value."""

    def __init__(self) -> None:
        self._ancestor_ids: set[int] = set()

    def to_json_value(self, value: Any, where: str, depth: int) -> Any:
        """Return a value as JSON values."""
        if isinstance(value, Enum):
            return self.to_json_value(value.value, where, depth)
        if isinstance(value, str):
            return str.__str__(value)
        if value is None or isinstance(value, int | float | Decimal):
            return _scalar(value, where)
        converter = self._converter_for(value)
        if converter is None:
            return _convert_leaf(value, where)
        if depth == _MAX_DEPTH:
            problem = f"is nested deeper than {_MAX_DEPTH} levels"
            _raise_not_serializable(
                json_values.truncate(where, _MAX_PLACE_LENGTH), problem
            )
        if id(value) in self._ancestor_ids:
            _raise_not_serializable(where, "contains itself")
        self._ancestor_ids.add(id(value))
        try:
            return converter(value, where, depth + 1)
        finally:
            self._ancestor_ids.discard(id(value))

    def _converter_for(self, value: Any) -> _Converter | None:
        kinds: tuple[tuple[tuple[type[Any], ...], _Converter], ...] = (
            (json_values.MAPPING_TYPES, self._mapping),
            (json_values.SEQUENCE_TYPES, self._sequence),
            (json_values.SET_TYPES, self._set),
        )
        for types, converter in kinds:
            if isinstance(value, types):
                return converter
        if isinstance(value, type):
            return None
        if _ATTACHMENTS in sys.modules:
            from continuations.core.rows.attachments import is_content  # noqa: PLC0415 - rarely needed

            if is_content(value):
                return _refuse_content
        if hasattr(value, "__pydantic_serializer__"):
            return self._pydantic
        return self._dataclass if is_dataclass(value) else None

    def _mapping(self, value: Any, where: str, depth: int) -> Any:
        members: dict[str, Any] = {}
        for key, each in value.items():
            name = _checked_key(key, where)
            members[name] = self.to_json_value(
                each, json_values.member_location(where, name), depth
            )
        return members

    def _sequence(self, value: Any, where: str, depth: int) -> Any:
        return [
            self.to_json_value(each, f"{where}[{index}]", depth)
            for index, each in enumerate(value)
        ]

    def _set(self, value: Any, where: str, depth: int) -> Any:
        return json_values.sorted_by_json(self._sequence(value, where, depth))

    def _dataclass(self, value: Any, where: str, depth: int) -> Any:
        members: dict[str, Any] = {}
        for each in fields(value):
            inner = getattr(value, each.name)
            members[each.name] = self.to_json_value(
                inner, json_values.member_location(where, each.name), depth
            )
        return members

    def _pydantic(self, value: Any, where: str, depth: int) -> Any:
        """Write a value with the serializer of its type, unless data would be lost."""
        write: Callable[..., Any] = value.__pydantic_serializer__.to_python
        plain = write(value, by_alias=True, warnings="error")
        _check_lossless(plain, where)
        try:
            data = write(value, mode="json", by_alias=True, warnings="error")
        except Exception:
            self.to_json_value(
                plain, where, depth
            )  # raises an error with the place, if a member has no JSON form
            raise
        try:
            return json_values.normalize_json(plain, data, where)
        except jsontext.NotJson as error:
            raise ResultNotSerializable(str(error)) from None


def _refuse_content(value: Any, where: str, depth: int) -> NoReturn:
    del depth
    _raise_not_serializable(
        where,
        f"is {_type_text(value)} within another value: return it alone, or in a list "
        "of texts and attachments",
    )


def _check_lossless(python_value: Any, where: str) -> None:
    """Refuse values that pydantic would change silently."""
    if isinstance(python_value, _ITERATOR_TYPES):
        _raise_for_iterator(python_value, where)
    if isinstance(python_value, json_values.MAPPING_TYPES):
        for key, value in python_value.items():
            _check_lossless(
                value, json_values.member_location(where, _checked_key(key, where))
            )
    elif isinstance(python_value, json_values.SEQUENCE_TYPES):
        for index, value in enumerate(python_value):
            _check_lossless(value, f"{where}[{index}]")


def _scalar(value: float | Decimal | None, where: str) -> Any:
    match value:
        case Decimal() if value.is_finite():
            return str(value)
        case float() if math.isfinite(value):
            return float(value)
        case Decimal() | float():
            return _raise_not_serializable(
                where, f"is {value}, which is not a JSON number"
            )
        case None | bool():
            return value
        case _:
            return _checked_integer(int(value), where)


def _checked_integer(value: int, where: str) -> int:
    try:
        str(value)
    except ValueError:  # CPython writes at most 4,300 digits
        _raise_not_serializable(where, "is an integer of too many digits")
    return value


def _convert_leaf(value: Any, where: str) -> Any:
    if isinstance(value, _ITERATOR_TYPES):
        _raise_for_iterator(value, where)
    try:
        return to_jsonable_python(value)
    except UnicodeDecodeError:
        _raise_not_serializable(where, "is bytes that are not UTF-8")
    except Exception:  # noqa: BLE001 - from pydantic, or from the object itself
        _raise_not_serializable(
            where, f"is {_type_text(value)}, which has no JSON form"
        )


def _checked_key(key: object, where: str) -> str:
    if not isinstance(key, str):
        _raise_not_serializable(where, f"has a key {_type_text(key)}, not a string")
    return str.__str__(key)


def _raise_for_iterator(value: object, where: str) -> NoReturn:
    _raise_not_serializable(
        where, f"is {_type_text(value)}, which can be read only once: make it a list"
    )


def _raise_not_serializable(where: str, problem: str) -> NoReturn:
    raise ResultNotSerializable(f"{where} {problem}")


def _type_text(value: object) -> str:
    return f"of type {type(value).__name__}"
