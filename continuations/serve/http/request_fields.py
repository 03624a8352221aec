"""The fields of the JSON body and of the query of a request, checked with schemas."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.core.run import Budget
from continuations.engine.worker_options import is_number
from continuations.present.json_forms import MAX_TEXT_CHARS
from continuations.serve.http import decision_bodies, problems
from continuations.serve.http.parameters import QUERY_PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations.serve.http.request_context import RequestContext

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


def body(context: RequestContext) -> Mapping[str, Any]:
    """Return the fields of the JSON body of an operation.

    Raises:
        RequestRefused: The body is not what the schema of the operation says.
    """
    if not context.operation.needs_body and not context.request.body:
        return {}
    # A JSON body is required: a form of another site cannot send one.
    fields = decision_bodies.parse_json_object(context.request)
    try:
        check_fields(fields, request_schema(context.operation.body))
    except FieldsInvalid as error:
        raise problems.malformed(str(error)) from None
    return fields


def query(context: RequestContext) -> dict[str, Any]:
    """Return the parameters of the query of an operation, with their defaults.

    Raises:
        RequestRefused: The query is not what the operation says.
    """
    operation, given = context.operation, context.request.query
    known = [QUERY_PARAMETERS[each] for each in operation.query]
    names = [parameter["name"] for parameter in known]
    if not operation.ignores_unknown_query and not given.keys() <= set(names):
        raise problems.malformed(f"The query may have {', '.join(names)}.")
    values: dict[str, Any] = {}
    for parameter in known:
        name, schema = parameter["name"], parameter["schema"]
        if name in given or parameter.get("required"):
            values[name] = _query_value(name, given.get(name, ""), schema)
        elif "default" in schema:
            values[name] = schema["default"]
    return values


def _query_value(name: str, text: str, schema: Mapping[str, Any]) -> Any:
    choices = schema.get("enum")
    if choices is not None and text not in choices:
        listed = " or ".join(f'"{each}"' for each in choices)
        raise problems.malformed(f'"{name}" must be {listed}.')
    if schema.get("type") == "boolean":
        if text not in ("true", "false"):
            raise problems.malformed(f'"{name}" must be true or false.')
        return text == "true"
    if schema.get("type") == "integer":
        return _number(name, text, schema["minimum"], schema["maximum"])
    return text


def _number(name: str, text: str, least: int, most: int) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if not is_number or not least <= int(text) <= most:
        msg = f'"{name}" must be a number from {least} to {most}.'
        raise problems.malformed(msg)
    return int(text)
