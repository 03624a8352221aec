"""The OpenAPI 3.1 document of the HTTP API, made from the table of operations.

Its schemas are those of `docs/schemas/continuations.schema.json`. The tests validate
the document, and every response of the API against the document.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from continuations import __version__
from continuations.present import schemas
from continuations.present.json_forms import MAX_TEXT_CHARS
from continuations.serve.http.file_routes import OTHER_MEDIA_TYPE, SAFE_MEDIA_TYPES
from continuations.serve.http.request_fields import (
    PATH_PARAMETERS,
    QUERY_PARAMETERS,
    TEXT,
    Json,
)
from continuations.serve.operation_calls import PATH_NAME
from continuations.serve.operations import OPERATIONS, Operation

if TYPE_CHECKING:
    from collections.abc import Mapping


_SECURITY_SCHEME: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "The scheme that the verifier of this API accepts.",
}
_STATUS_TEXTS = {
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
_PROBLEM_TYPE, _PAGE_TYPE = "application/problem+json", "text/html"
_JSON_TYPE, _FORM_TYPE = "application/json", "application/x-www-form-urlencoded"
_EVENT_STREAM: Json = {
    "text/event-stream": {
        "schema": {
            "type": "string",
            "description": "Server-sent events after `Last-Event-ID`; the data of each "
            "is an `event`.",
        }
    }
}


# Bodies -------------------------------------------------------------------------


def _form_body(kind: str, **fields: Json) -> Json:
    shown = {**TEXT, "description": "The digest of the wait that the page showed."}
    properties: Json = {
        "decision": {"const": kind},
        "shown": shown,
        "reason": {**TEXT, "maxLength": MAX_TEXT_CHARS},
        **fields,
    }
    required = {"answer": ["value"], "fail": ["error"]}.get(kind, [])
    return {
        "type": "object",
        "properties": properties,
        "required": ["decision", "shown", *required],
        "additionalProperties": False,
    }


def _typed_body(kind: str) -> Json:
    """Return the body of an answer, or of an approval with a form, in typed fields."""
    return {
        **_form_body(kind, **{"as": {"const": "fields"}}),
        "required": ["decision", "shown", "as"],
        "patternProperties": {
            "^value:(object|(text|number|json)[?]?):": {
                **TEXT,
                "maxLength": MAX_TEXT_CHARS,
                "description": "A part of the value; the name ends with its place.",
            }
        },
    }


# The form of a link page. Every other body is JSON and in the schema file.
_LINK_FORM: Json = {
    "oneOf": [
        _form_body("approve"),
        _typed_body("approve"),
        _form_body("deny"),
        _form_body(
            "answer",
            value={**TEXT, "maxLength": MAX_TEXT_CHARS},
            **{"as": {"const": "json", "description": "The value is JSON."}},
        ),
        _typed_body("answer"),
        _form_body("fail", error={**TEXT, "maxLength": MAX_TEXT_CHARS}),
    ]
}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _request_body(operation: Operation) -> Json:
    if operation.id == "receiveWebhook":
        return {"requestBody": {"content": {_JSON_TYPE: {"schema": {}}}}}
    if not operation.body:
        return {}
    media_type = _FORM_TYPE if operation.is_html_page else _JSON_TYPE
    content = {media_type: {"schema": _ref(operation.body)}}
    return {"requestBody": {"required": operation.needs_body, "content": content}}


# Parameters ---------------------------------------------------------------------


def _parameters(operation: Operation) -> list[Json]:
    room = f"/{operation.path.split('/')[1]}"
    in_path = PATH_NAME.findall(operation.path)
    return [
        *(PATH_PARAMETERS.get(f"{room} {n}") or PATH_PARAMETERS[n] for n in in_path),
        *(QUERY_PARAMETERS[name] for name in operation.query),
    ]


# Responses ----------------------------------------------------------------------


def _json_response(schema: str, description: str) -> Json:
    content = {_JSON_TYPE: {"schema": _ref(schema)}}
    return {"description": description, "content": content}


def _problem(status: int, *, is_page: bool) -> Json:
    schema, kind = _ref("problem"), _PROBLEM_TYPE
    if is_page:
        schema, kind = TEXT, _PAGE_TYPE
    return {"description": _STATUS_TEXTS[status], "content": {kind: {"schema": schema}}}


def _recorded(response: Json | None) -> Json:
    """Return what a sender without the right to view gets instead of a response."""
    recorded = _json_response("recorded_request", "The request is recorded.")
    if response is None:
        return recorded
    both = [each["content"][_JSON_TYPE]["schema"] for each in (response, recorded)]
    content = {**response["content"], _JSON_TYPE: {"schema": {"anyOf": both}}}
    return {**response, "content": content}


def _streamed(response: Json, last: str) -> Json:
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


def _content_without_form(operation: Operation) -> Json:
    """Return the content of a response that is no JSON form."""
    if operation.is_html_page:
        return {_PAGE_TYPE: {"schema": TEXT}}
    if operation.id == "downloadFile":
        kinds = sorted({*SAFE_MEDIA_TYPES, OTHER_MEDIA_TYPE})
        return {kind: {"schema": {}} for kind in kinds}
    if operation.id == "openapi":
        return {_JSON_TYPE: {"schema": {"type": "object"}}}
    return _EVENT_STREAM


def _success(operation: Operation) -> Json:
    if not operation.form:
        content = _content_without_form(operation)
        return {"200": {"description": operation.returns, "content": content}}
    response = _json_response(operation.form, operation.returns)
    if operation.streams:
        response = _streamed(response, operation.streams)
    if operation.id != "listEvents":
        return {"200": response}
    ended = {"description": "Server-sent events: the run has ended; ask no more."}
    content = {**response["content"], **_EVENT_STREAM}
    return {"200": {**response, "content": content}, "204": ended}


def _statuses(operation: Operation) -> list[int]:
    statuses = {413, *operation.problems}
    if operation.body:
        statuses.add(415)
    if operation.id != "healthz":
        statuses.add(500)
    if not operation.is_public:
        statuses.add(401)
    if operation.right is not None:
        statuses.add(403)
    return sorted(statuses)


def _responses(operation: Operation) -> Json:
    responses = _success(operation)
    if operation.accepted is not None:
        responses["202"] = _json_response(*operation.accepted)
    for status in _statuses(operation):
        responses[str(status)] = _problem(status, is_page=operation.is_html_page)
    if operation.hides_content:
        responses["202"] = _recorded(responses.get("202"))
    return responses


# The document -------------------------------------------------------------------


def _described(operation: Operation) -> Json:
    return {
        "operationId": operation.id,
        "summary": operation.summary,
        **({"security": []} if operation.is_public else {}),
        "parameters": _parameters(operation),
        "responses": _responses(operation),
        **_request_body(operation),
    }


def _paths() -> Mapping[str, Json]:
    paths: dict[str, Json] = {}
    for operation in OPERATIONS:
        path = paths.setdefault(operation.path, {})
        path[operation.method.lower()] = _described(operation)
    return paths


def _component_schemas() -> Json:
    """Return the definitions with references as an OpenAPI document has them."""
    text = json.dumps(schemas.definitions())
    components: Json = json.loads(text.replace("#/$defs/", "#/components/schemas/"))
    return {**components, "link_form": _LINK_FORM}


def document() -> dict[str, Any]:
    """Return the document as JSON values."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "continuations",
            "version": __version__,
            "description": "Show and decide what runs of agents wait for.",
        },
        # Relative to the URL of this document: the API may have any mount prefix.
        "servers": [{"url": "."}],
        "security": [{"identity": []}],
        "paths": _paths(),
        "components": {
            "schemas": _component_schemas(),
            "securitySchemes": {"identity": _SECURITY_SCHEME},
        },
    }
