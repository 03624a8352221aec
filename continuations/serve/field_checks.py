"""Check the fields of a request with its JSON Schema, for HTTP and AWS Lambda.

A check compares the names of fields, those that are required, and their types and
lengths. The runner checks the values, with errors of its own. No schema library is
loaded: it does not know the numbers of `jsontext.parse(lossless=True)`, and its
messages do not say what to send.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.run import Budget
from continuations.engine.worker_options import is_number
from continuations.present.json_forms import MAX_TEXT_CHARS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Only the limit of the whole request applies: these may be long documents.
_DOCUMENTS = frozenset({"input", "message", "text"})
_TYPES: Mapping[str, tuple[Callable[[Any], object], str]] = {
    "string": (lambda value: type(value) is str, "a string"),
    "boolean": (lambda value: type(value) is bool, "true or false"),
    "integer": (lambda value: type(value) is int, "an integer"),
    "number": (is_number, "a number"),
    "object": (lambda value: jsontext.as_object(value) is not None, "an object"),
    "array": (lambda value: jsontext.as_array(value) is not None, "a list"),
}


class FieldsInvalid(ValueError):
    """The fields are not those of the schema; the text names the field."""


@cache
def request_schema(name: str) -> Mapping[str, Any]:
    """Return the schema of a request by its name."""
    from continuations.present import schemas  # noqa: PLC0415 - many requests need none

    schema: Mapping[str, Any] = schemas.definitions()[name]
    return schema


def check_fields(
    fields: Mapping[str, Any], schema: Mapping[str, Any], where: str = "The body"
) -> None:
    """Check the fields of an object.

    Args:
        fields: The fields.
        schema: The schema of the object; it lists all properties.
        where: The object, as the beginning of a sentence.

    Raises:
        FieldsInvalid: The fields are others, or a value has another type.
    """
    properties: Mapping[str, Any] = schema["properties"]
    if not fields.keys() <= properties.keys():
        allowed = ", ".join(sorted(properties))
        msg = f"{where} has unknown fields. Allowed: {allowed}."
        raise FieldsInvalid(msg)
    if not fields.keys() >= set(schema["required"]):
        names = " and ".join(f'"{name}"' for name in schema["required"])
        msg = f"{where} needs {names}."
        raise FieldsInvalid(msg)
    for name, value in fields.items():
        _check_value(name, value, properties[name])


def _check_value(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    given = schema.get("type", [])
    types = [given] if isinstance(given, str) else given
    if types and not any(_TYPES[each][0](value) for each in types):
        words = " or ".join(_TYPES[each][1] for each in types)
        msg = f'"{name}" must be {words}.'
        raise FieldsInvalid(msg)
    choices = schema.get("enum")
    # A list or an object equals no text.
    if choices is not None and value not in list(choices):
        listed = " or ".join(f'"{each}"' for each in choices)
        msg = f'"{name}" must be {listed}.'
        raise FieldsInvalid(msg)
    if "properties" in schema:
        check_fields(value, schema, f'"{name}"')
    elif isinstance(value, str):
        _check_text(name, value)


def _check_text(name: str, value: str) -> None:
    if name in _DOCUMENTS:
        if not value:
            msg = f'"{name}" must not be empty.'
            raise FieldsInvalid(msg)
    elif len(value) > MAX_TEXT_CHARS:
        msg = f'"{name}" has {len(value)} characters; the maximum is {MAX_TEXT_CHARS}.'
        raise FieldsInvalid(msg)


def start_options(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked fields of a start as options of `AsyncRunner.start`."""
    options = {**fields}
    if "budget" in options:
        options["budget"] = Budget(**options["budget"])
    return options
