"""The building blocks of the OpenAPI document: operations, parameters, responses."""

from __future__ import annotations

from typing import Any

from continuations.present.schema_parts import RUN_ID_PATTERN, WAIT_ID_PATTERN

Json = dict[str, Any]

TEXT: Json = {"type": "string"}


def ref(name: str) -> Json:
    """Return a reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}


STATUS_TEXTS = {
    400: "The request is malformed. Nothing was changed.",
    401: "The request has no valid identity.",
    403: "The link or the application does not allow this. Nothing was changed.",
    404: "The run or wait does not exist, or the link is not valid.",
    409: "Another decision is recorded, or another process holds the run.",
    410: "The wait or run is expired, cancelled or erased.",
    413: "The body is too large. Nothing was changed.",
    415: "The body has the wrong media type. Nothing was changed.",
    422: "The decision does not fit the wait. Nothing was recorded.",
    429: "The run has too many unread messages. Nothing was changed.",
    500: "Internal error; the log has the details.",
    502: "The model gave no usable reply. The run is kept.",
    503: "Temporarily unavailable; send the request again later.",
}
PROBLEM_TYPE = "application/problem+json"
PAGE_TYPE = "text/html"


def json_response(schema: str, description: str) -> Json:
    """Return a response with a body of a schema."""
    content = {"application/json": {"schema": ref(schema)}}
    return {"description": description, "content": content}


def or_recorded(response: Json | None) -> Json:
    """Return a response that a sender without the right to view gets instead."""
    recorded = json_response("recorded_request", "The request is recorded.")
    if response is None:
        return recorded
    content = response["content"]
    schemas = [each["content"]["application/json"] for each in (response, recorded)]
    either = {"schema": {"anyOf": [each["schema"] for each in schemas]}}
    return {**response, "content": {**content, "application/json": either}}


def problem_response(status: int) -> Json:
    """Return the response of a status that says what went wrong."""
    content = {PROBLEM_TYPE: {"schema": ref("problem")}}
    return {"description": STATUS_TEXTS[status], "content": content}


def page_response(description: str) -> Json:
    """Return a response with a page."""
    return {"description": description, "content": {PAGE_TYPE: {"schema": TEXT}}}


def request_body(media_type: str, schema: str, *, is_required: bool = True) -> Json:
    """Return a body of a schema."""
    return {"required": is_required, "content": {media_type: {"schema": ref(schema)}}}


def path_parameter(name: str, description: str, pattern: str) -> Json:
    """Return a parameter in a path."""
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", "pattern": f"^{pattern}$"},
    }


WAIT_ID_PARAMETER = path_parameter(
    "wait_id", "The id of a wait; it contains an @.", WAIT_ID_PATTERN
)
RUN_ID_PARAMETER = path_parameter("run_id", "The id of a run.", RUN_ID_PATTERN)
GRANT_PARAMETER = path_parameter("grant", "The id of a grant.", "[0-9a-z]{1,40}")
CALLBACK_PARAMETER = path_parameter(
    "token", "The token of a callback URL.", "[A-Za-z0-9_-]+"
)
TOKEN_PARAMETER = path_parameter(
    "token", "The token of a signed link.", "[A-Za-z0-9_-]+"
)
LIMIT_PARAMETER: Json = {
    "name": "limit",
    "in": "query",
    "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
}
ORDER_PARAMETER: Json = {
    "name": "order",
    "in": "query",
    "description": "`due`: the next deadlines first, and all fields of each wait.",
    "schema": {"enum": ["id", "due"], "default": "id"},
}
AFTER_PARAMETER: Json = {
    "name": "after",
    "in": "query",
    "description": "The `next` of the previous page.",
    "schema": TEXT,
}


def query_parameter(name: str, description: str) -> Json:
    """Return an optional parameter in a query."""
    return {"name": name, "in": "query", "description": description, "schema": TEXT}


APPROVER_PARAMETER: Json = {
    **query_parameter(
        "approver", "Only waits that this person may decide now, sorted by id."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 63},
}
EVENTS_AFTER_PARAMETER: Json = {
    **query_parameter("after", "The `cursor` of an event: only those that follow."),
    "schema": {"type": "string", "pattern": "^[1-9][0-9]{0,8}\\.[1-9][0-9]{0,8}$"},
}
EVENTS_WAIT_PARAMETER: Json = {
    **query_parameter(
        "wait",
        "With server-sent events: how many seconds the response waits for an event.",
    ),
    "schema": {"type": "integer", "minimum": 0, "maximum": 20, "default": 0},
}
EVENT_STREAM: Json = {
    "text/event-stream": {
        "schema": {
            "type": "string",
            "description": "Server-sent events after `Last-Event-ID`; the data of each "
            "is an `event`.",
        }
    }
}


def streamed(response: Json, last: str) -> Json:
    """Return a response that may also be the events of the work, and its result."""
    stream: Json = {
        "schema": {
            "type": "string",
            "description": "With `Accept: text/event-stream`: server-sent events while "
            "this process works. The data of each is an `event` with an id, or a "
            f"`live_event` without one. The last one is named `{last}` and has what "
            "the JSON response has, or `error` and has a `problem`. A server that "
            "cannot stream responds with JSON.",
        }
    }
    content: Json = {**response["content"], "text/event-stream": stream}
    return {**response, "content": content}


EVENT_RESPONSES: Json = {
    "200": {
        "description": "One page of events.",
        "content": {"application/json": {"schema": ref("event_page")}, **EVENT_STREAM},
    },
    "204": {"description": "Server-sent events: the run has ended; ask no more."},
}
RUN_FILTER_PARAMETERS = (
    query_parameter("agent", "Only runs of this root agent."),
    query_parameter("status", "`live`, `ended` or one status."),
    query_parameter("label", "Only runs with this label, as `team=finance`."),
    query_parameter("after", "The `next` of the previous page."),
)


def operation(
    operation_id: str,
    summary: str,
    success: Json,
    *problems: int,
    parameters: tuple[Json, ...] = (),
    body: Json | None = None,
) -> Json:
    """Return an operation of a path."""
    # Every route with an identity has these responses.
    statuses = {401, 413, 500, *problems}
    operation: Json = {
        "operationId": operation_id,
        "summary": summary,
        "parameters": list(parameters),
        "responses": {
            **success,
            **{str(status): problem_response(status) for status in sorted(statuses)},
        },
    }
    if body is not None:
        operation["requestBody"] = body
    return operation


def link_operation(
    operation_id: str, summary: str, success: Json, *problems: int
) -> Json:
    """Return an operation of a signed link: no identity, and pages as responses."""
    pages = {
        str(status): page_response(STATUS_TEXTS[status]) for status in sorted(problems)
    }
    return {
        "operationId": operation_id,
        "summary": summary,
        "security": [],
        "parameters": [TOKEN_PARAMETER],
        "responses": {**success, **pages},
    }
