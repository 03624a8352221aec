"""Read typed forms: each field is named by its kind and its place in the value.

`serve.pages.form_view` describes the names. A form says nothing about the wait: the
value is checked with the schema of the stored wait.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from continuations.core import jsontext
from continuations.serve.http import problems
from continuations.serve.pages.form_view import PREFIX, below, steps_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.core.rows.waits import Wait

__all__ = ["PREFIX", "FieldsRead", "read_fields", "value_from_fields"]


class FieldsRead(NamedTuple):
    """The value of the typed fields of a form.

    Attributes:
        value: The value, without the fields that cannot be read.
        errors: Why a field cannot be read, by the pointer of its place.
    """

    value: Any
    errors: Mapping[str, str]


def value_from_fields(fields: Mapping[str, str]) -> Any:
    """Return the value of the typed fields of a form; raise `RequestRefused`."""
    read = read_fields(fields)
    for pointer, error in read.errors.items():
        place = pointer.strip("/")
        what = f'"{place}"' if place else "The answer"
        raise problems.malformed(f"{what} {error}")
    return read.value


def read_fields(fields: Mapping[str, str]) -> FieldsRead:
    """Return the value of the typed fields, and the errors of single fields.

    Raises `RequestRefused` for fields that no page of this library has.
    """
    holder: dict[str, Any] = {}
    errors: dict[str, str] = {}
    # A browser sends the fields of a page in their order: an object before its parts.
    for name, text in fields.items():
        kind, _, pointer = name.removeprefix(PREFIX).partition(":")
        if kind.endswith("?") and not text:
            continue
        *above, last = ["", *steps_of(pointer)]
        place = _place(holder, above, kind)
        if not _is_free(place, last, kind) or pointer[:1] not in ("", "/"):
            msg = f'The field "{name:.80}" has no place. Open the page again.'
            raise problems.malformed(msg)
        try:
            value = _value(kind.removesuffix("?"), text)
        except _NotReadable as error:
            errors[pointer] = str(error)
            value = None
        if kind == "item":
            place.append(value)
        else:
            place[last] = value
    if "" not in holder:
        raise problems.malformed("The form has no value. Open the page again.")
    return FieldsRead(holder[""], errors)


class _NotReadable(ValueError):
    """The text of a field is not a value of its kind."""


def _place(holder: dict[str, Any], steps: list[str], kind: str) -> Any:
    """Return the object or list that a field belongs to, or `None`."""
    place: Any = holder
    for step in steps:
        found = jsontext.as_object(place)
        place = None if found is None else found.get(step)
    expected = jsontext.as_array if kind == "item" else jsontext.as_object
    return expected(place)


def _is_free(place: Any, step: str, kind: str) -> bool:
    """Return whether a field may put its value there."""
    if place is None or kind == "item":
        return place is not None
    if kind == "checked":
        return place.get(step) is False
    return step not in place


def _value(kind: str, text: str) -> Any:
    if kind in _MARKS:
        return _MARKS[kind]()
    if kind == "text":
        return text
    if kind not in ("number", "json", "checked", "item"):
        msg = f'The kind "{kind:.20}" of a field is unknown. Open the page again.'
        raise problems.malformed(msg)
    try:
        value = jsontext.parse(text.strip(), lossless=True)
    except jsontext.NotJson as error:
        if kind == "number":
            raise _NotReadable(_NO_NUMBER) from None
        raise _NotReadable(json_problem(text.strip(), error)) from None
    if kind == "number" and type(value) not in (int, float):
        raise _NotReadable(_NO_NUMBER)
    return value


# The words for people for what Python's reader of JSON misses.
_MISSING: Mapping[str, str] = {
    "Expecting ','": "a comma or a closing bracket",
    "Expecting ':'": "a colon",
    "Expecting property": "a name in double quotes",
    "Expecting value": "a value",
    "Unterminated string": "a closing quote",
}


def json_problem(text: str, error: Exception) -> str:
    """Return why a text of a person is not JSON, and what to do, after its name."""
    if not text:
        return "is empty. Write a value, for example a text in double quotes."
    why = str(error)
    missing = next((words for sign, words in _MISSING.items() if sign in why), "")
    place = _PLACE.search(why)
    if not place:
        return f"is not written as JSON: {why}. Correct it there."
    before = text[: int(place[1])]
    line, character = before.count("\n") + 1, len(before) - before.rfind("\n")
    where = f"character {character}" + (f" of line {line}" if "\n" in text else "")
    if missing:
        return f"is not written as JSON: {missing} is missing at {where}."
    return f"is not written as JSON: {where} is wrong. Correct it there."


_PLACE = re.compile(r"\(char (\d+)\)")
_MARKS: Mapping[str, type] = {"object": dict, "flag": bool, "list": list}
_NO_NUMBER = "must be a number. Write digits, for example 12."


def typed_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the typed fields of a form."""
    return {name: text for name, text in fields.items() if name.startswith(PREFIX)}


def field_errors(wait: Wait, fields: Mapping[str, str]) -> dict[str, str]:
    """Return why the values of a form are refused, by their pointers.

    Raises `RequestRefused` for a form that no page has.
    """
    schema = wait.form_schema
    if fields.get("decision") == "answer":
        schema = wait.answer_schema
    if fields.get("as") != "fields" or schema is None:
        return {}
    read = read_fields(typed_fields(fields))
    return dict(read.errors) or value_errors(schema, read.value)


def value_errors(schema: Mapping[str, Any], value: object) -> dict[str, str]:
    """Return why a value does not fit a schema, by the pointers of its places."""
    from continuations.ledger.edits import schema_problems  # noqa: PLC0415 - loads jsonschema_rs

    errors: dict[str, str] = {}
    try:
        found = schema_problems(schema, jsontext.parse(jsontext.dump(value)))
    except (ValueError, RecursionError):
        return {"": "cannot be checked with its schema."}
    for place, message in found:
        pointer = ""
        for step in place:
            pointer = below(pointer, str(step))
        errors.setdefault(pointer, message)
    return errors
