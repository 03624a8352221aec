"""The desk as an OpenAPI 3.1 document, written by hand and tested against the desk."""

from __future__ import annotations

from typing import Any

from continuations import __version__
from continuations.serve.http.decision_bodies import MAX_TEXT
from continuations.serve.http.problems import TYPE_PREFIX

_Json = dict[str, Any]

_TEXT: _Json = {"type": "string"}
_TEXT_OR_NONE: _Json = {"type": ["string", "null"]}
_TIME: _Json = {"type": "string", "format": "date-time"}
_COUNT: _Json = {"type": "integer", "minimum": 0}
_BOOLEAN: _Json = {"type": "boolean"}
_REASON: _Json = {**_TEXT, "maxLength": MAX_TEXT}


def _ref(name: str) -> _Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _array(items: _Json) -> _Json:
    return {"type": "array", "items": items}


def _object(required: _Json, /, **optional: _Json) -> _Json:
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def _decision_body(kind: str, required: _Json, /, **optional: _Json) -> _Json:
    return _object({"decision": {"const": kind}, **required}, **optional)


_SECURITY_SCHEME: _Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "Whatever the verifier of this desk asks for.",
}
_RUN_ID_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
# A ULID of the next two hundred and fifty years.
_WAIT_ID_PATTERN = (
    f"(approval|unknown)-0[0-8][0-9a-hjkmnp-tv-z]{{24}}@{_RUN_ID_PATTERN}"
)

_WAIT_SUMMARY = {"id": _TEXT, "run_id": _TEXT, "kind": _TEXT, "since": _TIME}
_WAIT = {
    "id": _TEXT,
    "run_id": _TEXT,
    "call_id": _TEXT,
    "kind": {"enum": ["approval", "unknown"]},
    "path": _array(_TEXT),
    "tool": _TEXT,
    "arguments": {
        "type": "object",
        "description": "The effective arguments: exactly this runs if approved.",
    },
    "schema": {"type": "object", "description": "The JSON Schema of the arguments."},
    "digest": _TEXT,
    "created_at": _TIME,
    "deadline": {"type": ["string", "null"], "format": "date-time"},
    "valid_for": {
        "type": ["integer", "null"],
        "description": "For how many seconds after an approval the call may begin.",
    },
    "policy": _TEXT_OR_NONE,
    "denial_stops": _BOOLEAN,
    "expiry_stops": _BOOLEAN,
    "note": _TEXT_OR_NONE,
    "state": {"enum": ["open", "expired"]},
}
_DECISION = {
    "id": _TEXT,
    "wait_id": _TEXT,
    "kind": {"enum": ["approve", "deny", "answer", "expire", "cancel"]},
    "at": _TIME,
    "by": _TEXT_OR_NONE,
    "reason": _TEXT_OR_NONE,
    "digest": _TEXT,
}
_RUN = {
    "run_id": _TEXT,
    "version": _COUNT,
    "status": {"enum": ["running", "suspended", "finished", "failed", "cancelled"]},
    "output": _TEXT_OR_NONE,
    "failure": {
        "oneOf": [{"type": "null"}, _object({"code": _TEXT, "message": _TEXT})]
    },
    "usage": {"type": "object", "additionalProperties": _COUNT},
    "waits": {**_array(_ref("Wait")), "description": "Those that nobody decided yet."},
    "decided": {
        **_array(_TEXT),
        "description": "Waits that are decided; a resume takes them in.",
    },
}
_SWEPT = {
    "looked": _COUNT,
    "resumed": _array(_object({"run_id": _TEXT, "status": _TEXT})),
    "failed": {
        "type": "object",
        "additionalProperties": _TEXT,
        "description": "What kept a run from going on: the end of a problem's type.",
    },
}
_PROBLEM: _Json = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "properties": {
        "type": {"type": "string", "pattern": f"^{TYPE_PREFIX}[a-z-]+$"},
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "run_id": _TEXT,
        "wait_id": _TEXT,
        "until": _TIME,
        "error_id": {**_TEXT, "description": "What the log of the desk tells more of."},
        "decision": {**_ref("Decision"), "description": "The one that stands."},
    },
    "required": ["type", "title", "status"],
}

_SCHEMAS: _Json = {
    "WaitSummary": _object(_WAIT_SUMMARY),
    "Wait": _object(_WAIT),
    "Waits": _object({"waits": _array(_ref("WaitSummary")), "next": _TEXT_OR_NONE}),
    "Decision": _object(_DECISION, arguments={"type": "object"}, value={}),
    "Decided": _object({"decision": _ref("Decision"), "woken": _BOOLEAN}),
    "Run": _object(_RUN),
    "Woken": _object({"run_id": _TEXT, "woken": {"const": True}}),
    "Swept": _object(_SWEPT),
    "Health": _object({"status": {"const": "ok"}}),
    "Problem": _PROBLEM,
    "Verdict": {
        "description": "Who decides is the verified identity, never the body's.",
        "oneOf": [
            _decision_body("approve", {}, arguments={"type": "object"}),
            _decision_body("deny", {}, reason=_REASON),
            _decision_body("answer", {"value": {}}),
        ],
    },
    "Start": _object(
        {
            "run_id": {
                "type": "string",
                "pattern": f"^{_RUN_ID_PATTERN}$",
                "description": "An id of your own: asking twice begins one run.",
            },
            "input": {"type": "string", "minLength": 1},
        },
        agent={**_TEXT, "description": "The root agent, where there are several."},
    ),
    "Cancellation": _object({}, reason=_REASON),
    "Click": {
        "oneOf": [
            _decision_body("approve", {}),
            _decision_body("deny", {}, reason=_REASON),
            _decision_body("answer", {"value": _TEXT}),
        ]
    },
}

_STATUS_TEXTS = {
    400: "The request is malformed; nothing was done.",
    401: "It is not known who asks.",
    403: "The link does not allow that answer.",
    404: "There is no such run or wait, or the link is not valid.",
    409: "Something else stands, or another process is at it.",
    410: "It is over: expired, cancelled or erased.",
    413: "The body is too long; nothing was done.",
    415: "The body is of another type; nothing was done.",
    422: "The decision does not fit; nothing was recorded.",
    500: "Something went wrong here; it was logged.",
    502: "The model gave no usable reply; the run is kept.",
    503: "Try again later.",
}
_PROBLEM_TYPE = "application/problem+json"
_PAGE_TYPE = "text/html"


def _json_response(schema: str, description: str) -> _Json:
    content = {"application/json": {"schema": _ref(schema)}}
    return {"description": description, "content": content}


def _problem_response(status: int) -> _Json:
    content = {_PROBLEM_TYPE: {"schema": _ref("Problem")}}
    return {"description": _STATUS_TEXTS[status], "content": content}


def _page_response(description: str) -> _Json:
    return {"description": description, "content": {_PAGE_TYPE: {"schema": _TEXT}}}


def _request_body(media_type: str, schema: str) -> _Json:
    return {"required": True, "content": {media_type: {"schema": _ref(schema)}}}


def _path_parameter(name: str, description: str, pattern: str) -> _Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": {"type": "string", "pattern": f"^{pattern}$"},
    }


_WAIT_ID_PARAMETER = _path_parameter(
    "wait_id", "The id of a wait; it holds an @.", _WAIT_ID_PATTERN
)
_RUN_ID_PARAMETER = _path_parameter("run_id", "The id of a run.", _RUN_ID_PATTERN)
_TOKEN_PARAMETER = _path_parameter(
    "token", "The token of a signed link.", "[A-Za-z0-9_-]+"
)
_LIMIT_PARAMETER: _Json = {
    "name": "limit",
    "in": "query",
    "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
}
_AFTER_PARAMETER: _Json = {
    "name": "after",
    "in": "query",
    "description": "The `next` of the page before.",
    "schema": {"type": "string", "pattern": f"^{_WAIT_ID_PATTERN}$"},
}


def _operation(
    operation_id: str,
    summary: str,
    success: _Json,
    *problems: int,
    parameters: tuple[_Json, ...] = (),
    body: _Json | None = None,
) -> _Json:
    # What any path can answer that asks who is there.
    told = {401, 413, 500, *problems}
    operation: _Json = {
        "operationId": operation_id,
        "summary": summary,
        "parameters": list(parameters),
        "responses": {
            **success,
            **{str(status): _problem_response(status) for status in sorted(told)},
        },
    }
    if body is not None:
        operation["requestBody"] = body
    return operation


def _link_operation(
    operation_id: str, summary: str, success: _Json, *problems: int
) -> _Json:
    told = {
        str(status): _page_response(_STATUS_TEXTS[status])
        for status in sorted(problems)
    }
    return {
        "operationId": operation_id,
        "summary": summary,
        "security": [],
        "parameters": [_TOKEN_PARAMETER],
        "responses": {**success, **told},
    }


def _wait_paths() -> _Json:
    return {
        "/waits": {
            "get": _operation(
                "listWaits",
                "List open waits; the list may lag, a wait by itself never does",
                {"200": _json_response("Waits", "A page of them.")},
                *(400, 503),
                parameters=(_LIMIT_PARAMETER, _AFTER_PARAMETER),
            )
        },
        "/waits/{wait_id}": {
            "get": _operation(
                "showWait",
                "Show all that a decider needs",
                {"200": _json_response("Wait", "The wait; nobody has decided it.")},
                *(404, 409, 410, 503),
                parameters=(_WAIT_ID_PARAMETER,),
            )
        },
        "/waits/{wait_id}/decision": {
            "post": _operation(
                "decide",
                "Decide a wait; the first decision stands",
                {"200": _json_response("Decided", "It is recorded, now or before.")},
                *(400, 404, 409, 410, 415, 422, 503),
                parameters=(_WAIT_ID_PARAMETER,),
                body=_request_body("application/json", "Verdict"),
            )
        },
    }


def _run_paths() -> _Json:
    run = {"200": _json_response("Run", "How the run stands.")}
    woken = {"202": _json_response("Woken", "It was asked for, elsewhere.")}
    return {
        "/runs": {
            "post": _operation(
                "start",
                "Begin a run, and work on it until it ends or must wait",
                run,
                *(400, 409, 410, 415, 502, 503),
                body=_request_body("application/json", "Start"),
            )
        },
        "/runs/{run_id}": {
            "get": _operation(
                "showRun",
                "Show how a run stands",
                run,
                *(400, 404, 410, 503),
                parameters=(_RUN_ID_PARAMETER,),
            )
        },
        "/runs/{run_id}/resume": {
            "post": _operation(
                "resume",
                "Resume a run, here or by the dispatcher",
                {**run, **woken},
                *(400, 404, 409, 410, 502, 503),
                parameters=(_RUN_ID_PARAMETER,),
            )
        },
        "/runs/{run_id}/cancel": {
            "post": _operation(
                "cancel",
                "End a run for good",
                run,
                *(400, 404, 409, 410, 415, 503),
                parameters=(_RUN_ID_PARAMETER,),
                body=_request_body("application/json", "Cancellation"),
            )
        },
        "/sweep": {
            "post": _operation(
                "sweep",
                "Look at every run whose time has come",
                {"200": _json_response("Swept", "What was found.")},
                503,
            )
        },
    }


def _link_paths() -> _Json:
    look = _link_operation(
        "look",
        "Show the wait of a signed link; changes nothing",
        {"200": _page_response("The question, or what stands.")},
        *(404, 413, 500, 503),
    )
    click = _link_operation(
        "click",
        "Decide the wait of a signed link",
        {"200": _page_response("It is recorded, now or before.")},
        *(400, 403, 404, 409, 410, 413, 415, 500, 503),
    )
    click["requestBody"] = _request_body("application/x-www-form-urlencoded", "Click")
    return {"/d/{token}": {"get": look, "post": click}}


def _service_paths() -> _Json:
    health = {"200": _json_response("Health", "It answers.")}
    content = {"application/json": {"schema": {"type": "object"}}}
    itself = {"200": {"description": "This document.", "content": content}}
    return {
        "/healthz": {
            "get": {
                "operationId": "healthz",
                "summary": "Tell that the desk answers",
                "security": [],
                "responses": {**health, "413": _problem_response(413)},
            }
        },
        "/openapi.json": {"get": _operation("openapi", "Return this document", itself)},
    }


def document() -> dict[str, Any]:
    """Return the document as JSON values."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "continuations",
            "version": __version__,
            "description": "Runs that wait for people: what waits, and how to decide.",
        },
        # Relative to where this document is: the desk may stand under any prefix.
        "servers": [{"url": "."}],
        "security": [{"identity": []}],
        "paths": {**_wait_paths(), **_run_paths(), **_link_paths(), **_service_paths()},
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"identity": _SECURITY_SCHEME},
        },
    }
