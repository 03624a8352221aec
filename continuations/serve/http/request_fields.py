"""The fields of the JSON body, the form and the query of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.core import jsontext
from continuations.core.rows.run import Budget
from continuations.present import requests
from continuations.present.schema_parts import RUN_ID_PATTERN, WAIT_ID_PATTERN
from continuations.serve.http import problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from continuations.serve.http.request_context import RequestContext
    from continuations.serve.http.request_response import Request

JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"


def body(context: RequestContext) -> Mapping[str, Any]:
    """Return the fields of the JSON body of an operation.

    Raises:
        RequestRefused: The body is not what the schema of the operation says.
    """
    if not context.operation.needs_body and not context.request.body:
        return {}
    # A JSON body is required: a form of another site cannot send one.
    fields = parse_json_object(context.request)
    check(fields, requests.REQUESTS[context.operation.body])
    return fields


def check(
    fields: Mapping[str, Any], schema: Mapping[str, Any], where: str = "The body"
) -> None:
    """Raise `RequestRefused` unless fields are those of a schema."""
    try:
        requests.check_fields(fields, schema, where)
    except requests.FieldsInvalid as error:
        raise problems.malformed(str(error)) from None


def text_with_files(fields: Mapping[str, Any], text: str) -> Any:
    """Return a text, with the attachments of the field `files` if the body has some.

    Raises `RequestRefused`, and `AttachmentsTooLarge` for more than any run can have.
    """
    if "files" not in fields:
        return text
    try:
        return requests.text_with_files(text, fields["files"])
    except requests.FieldsInvalid as error:
        raise problems.malformed(f"{error}.".replace("..", ".")) from None


def start_options(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return checked fields of a start as options of `AsyncRunner.start`."""
    options = {**fields}
    if "budget" in options:
        options["budget"] = Budget(**options["budget"])
    return options


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
    number = digits(text, len(str(most)))
    if number is None or not least <= number <= most:
        raise problems.malformed(f'"{name}" must be a number from {least} to {most}.')
    return number


def digits(text: str, most: int) -> int | None:
    """Return the number that a text is, or `None`; it has at most so many digits."""
    is_number = text.isascii() and text.isdigit() and len(text) <= most
    return int(text) if is_number else None


def parse_json_object(request: Request) -> Mapping[str, Any]:
    """Return the JSON object in a body; raise `RequestRefused` for anything else."""
    _check_content_type(request, JSON_TYPE)
    if not request.body:
        raise problems.malformed("The body is empty. Send a JSON object, such as {}.")
    try:
        value = jsontext.parse(request.body, lossless=True)
    except jsontext.NotJson as error:
        raise problems.malformed(f"The body is not JSON: {error}.") from None
    fields = jsontext.as_object(value)
    if fields is None:
        raise problems.malformed("The body must be a JSON object.")
    return fields


def form_fields(request: Request) -> Mapping[str, str]:
    """Return the fields of a posted form, whose lines end as in a text.

    Raises `RequestRefused` for an invalid form.
    """
    from urllib.parse import parse_qsl  # noqa: PLC0415 - JSON bodies do not need it

    _check_content_type(request, FORM_TYPE)
    # Not Starlette's parser: one parser decides what approves, also in AWS Lambda
    # (docs/decisions/0012-http-and-cold-start.md).
    try:
        pairs = parse_qsl(
            request.body.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
        )
    except ValueError:
        raise problems.malformed("The body is not a valid form.") from None
    # Browsers send each line end as CR LF (HTML standard, 4.10.21.4).
    fields = {name: text.replace("\r\n", "\n") for name, text in pairs}
    if len(fields) != len(pairs):
        raise problems.malformed("The form has a repeated field.")
    return fields


def check_length(name: str, text: str) -> None:
    """Raise `RequestRefused` for a text of a form that is too long."""
    try:
        requests.check_text(name, text)
    except requests.FieldsInvalid as error:
        raise problems.malformed(str(error)) from None


def _check_content_type(request: Request, expected: str) -> None:
    content_type = request.headers.get("content-type", "")
    media_type, _, parameters = content_type.partition(";")
    charset = parameters.strip().lower().replace('"', "")
    is_expected = media_type.strip().lower() == expected
    if not is_expected or charset not in {"", "charset=utf-8"}:
        raise problems.unsupported_media_type(expected)


# Parameters -------------------------------------------------------------------

Json: TypeAlias = dict[str, Any]

TEXT: Json = {"type": "string"}
_VERSION: Json = {"type": "integer", "minimum": 1, "maximum": 9_999_999_999}
_NEXT = "The `next` of the previous page."


def _matching(pattern: str) -> Json:
    return {**TEXT, "pattern": f"^{pattern}$"}


def _path(name: str, description: str, schema: Json) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
    }


def _query(name: str, description: str, schema: Json | None = None) -> Json:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": TEXT if schema is None else schema,
    }


def _version(name: str, description: str) -> Json:
    return {**_path(name, description, _VERSION), "in": "query"}


# The parameters as the OpenAPI document has them. The same schemas read a query.
#
# By the name in a path; a prefix of the path tells equal names apart.
PATH_PARAMETERS: Mapping[str, Json] = {
    "wait_id": _path(
        "wait_id", "The id of a wait; it contains an @.", _matching(WAIT_ID_PATTERN)
    ),
    "run_id": _path("run_id", "The id of a run.", _matching(RUN_ID_PATTERN)),
    "grant": _path("grant", "The id of a grant.", _matching("[0-9a-z]{1,40}")),
    "number": _path("number", "The number of a version.", _VERSION),
    "digest": _path(
        "digest", "The digest of an attachment.", _matching("sha256:[0-9a-f]{64}")
    ),
    "agent": _path("agent", "The name of the agent.", {**TEXT, "minLength": 1}),
    "key": _path(
        "key",
        "The key of the thread, percent-encoded: a slash is %2F.",
        {**TEXT, "minLength": 1, "maxLength": 500},
    ),
    "name": _path("name", "The name of a webhook.", _matching("[^/]+")),
    "/threads number": _path(
        "number", "The number of a message.", {"type": "integer", "minimum": 1}
    ),
    "/callbacks token": _path(
        "token", "The token of a callback URL.", _matching("[A-Za-z0-9_-]+")
    ),
    "/d token": _path(
        "token", "The token of a signed link.", _matching("[A-Za-z0-9_-]+")
    ),
}
# By the name in `Operation.query`; the parameter itself may have a shorter name.
QUERY_PARAMETERS: Mapping[str, Json] = {
    "limit": {
        "name": "limit",
        "in": "query",
        "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
    },
    "order": _query(
        "order",
        "`due`: the next deadlines first, and all fields of each wait.",
        {"enum": ["id", "due"], "default": "id"},
    ),
    "after": _query("after", _NEXT),
    "after_run": _query("after", _NEXT, _matching(f"({RUN_ID_PATTERN})?")),
    "after_version": _query("after", _NEXT, {**_VERSION, "minimum": 0, "default": 0}),
    "after_event": _query(
        "after",
        "The `cursor` of an event: only those that follow.",
        _matching("[1-9][0-9]{0,8}\\.[1-9][0-9]{0,8}"),
    ),
    "approver": _query(
        "approver",
        "Only waits that this person may decide now, sorted by id.",
        {**TEXT, "minLength": 1, "maxLength": 63},
    ),
    "agent": _query("agent", "Only runs of this root agent."),
    "status": _query("status", "`live`, `ended` or one status."),
    "label": _query("label", "Only runs with this label, as `team=finance`."),
    "wait": _query(
        "wait",
        "With server-sent events: how many seconds the response waits for an event.",
        {"type": "integer", "minimum": 0, "maximum": 20, "default": 0},
    ),
    "version": _version("version", "The earlier version."),
    "from": _version("from", "The first version."),
    "to": _version("to", "The second version."),
    "name": _query(
        "name",
        "The name of the attachment in a message, which may name the same bytes "
        "differently than another message.",
    ),
    "media_type": _query("media_type", "The media type of the attachment there."),
    "run_id": _query(
        "run_id", "The run that had the message, if the thread was closed since."
    ),
    "words": _query(
        "words",
        "Also send the words while they are written, as events without "
        "an id. The response then goes on for a while, also before the first message.",
        {"type": "boolean", "default": False},
    ),
}
