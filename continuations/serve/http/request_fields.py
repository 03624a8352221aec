"""The fields of the JSON body and of the query of a request, checked with schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.serve.field_checks import (
    FieldsInvalid,
    check_fields,
    request_schema,
)
from continuations.serve.http import decision_bodies, problems
from continuations.serve.http.parameters import QUERY_PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.serve.http.request_context import RequestContext


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
