"""The fields of a JSON body and of a query, checked with the schemas of the document.

A check compares the names of fields, those that are required, and their types and
lengths. The runner checks the values, with errors of its own. No schema library is
loaded: it does not know the numbers of `jsontext.parse(lossless=True)`, and its
messages are not those of this API.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from continuations.core import jsontext
from continuations.engine.worker_options import is_number
from continuations.present import schemas
from continuations.present.json_forms import MAX_TEXT_CHARS
from continuations.serve.http import decision_bodies, problems
from continuations.serve.http.parameters import QUERY_PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations.serve.http.request_context import RequestContext

# Only the limit of the body applies: these may be long documents.
_DOCUMENTS = frozenset({"input", "text"})
_TYPES: Mapping[str, tuple[Callable[[Any], object], str]] = {
    "string": (lambda value: type(value) is str, "a string"),
    "boolean": (lambda value: type(value) is bool, "true or false"),
    "integer": (lambda value: type(value) is int, "an integer"),
    "number": (is_number, "a number"),
    "object": (lambda value: jsontext.as_object(value) is not None, "an object"),
    "array": (lambda value: jsontext.as_array(value) is not None, "a list"),
}


def body(context: RequestContext) -> Mapping[str, Any]:
    """Return the fields of the JSON body of an operation.

    Raises:
        RequestRefused: The body is not what the schema of the operation says.
    """
    if not context.operation.needs_body and not context.request.body:
        return {}
    # A JSON body is required: a form of another site cannot send one.
    fields = decision_bodies.parse_json_object(context.request)
    _check(fields, _schema(context.operation.body))
    return fields


@cache
def _schema(name: str) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = schemas.definitions()[name]
    return schema


def _check(fields: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    properties: Mapping[str, Any] = schema["properties"]
    decision_bodies.refuse_unknown_fields(fields, frozenset(properties))
    missing = [name for name in schema["required"] if name not in fields]
    if missing:
        names = " and ".join(f'"{name}"' for name in schema["required"])
        raise problems.malformed(f"The body needs {names}.")
    for name, value in fields.items():
        _check_value(name, value, properties[name])


def _check_value(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    expected = schema.get("type")
    if not isinstance(expected, str):
        return
    is_expected, words = _TYPES[expected]
    if not is_expected(value):
        raise problems.malformed(f'"{name}" must be {words}.')
    if expected != "string":
        return
    if not value and name in _DOCUMENTS:
        raise problems.malformed(f'"{name}" must not be empty.')
    longest = len(value) if name in _DOCUMENTS else MAX_TEXT_CHARS
    decision_bodies.check_length(name, value, longest)


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
