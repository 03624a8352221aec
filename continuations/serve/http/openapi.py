"""The OpenAPI 3.1 document of the HTTP API.

Its schemas are those of `docs/schemas/continuations.schema.json`. The tests validate
the document, and every response of the API against the document.
"""

from __future__ import annotations

import json
from typing import Any

from continuations import __version__
from continuations.present import schemas
from continuations.present.schema_parts import RUN_ID_PATTERN, WAIT_ID_PATTERN
from continuations.serve.http.openapi_forms import LINK_FORM

_Json = dict[str, Any]

_TEXT: _Json = {"type": "string"}


def _ref(name: str) -> _Json:
    return {"$ref": f"#/components/schemas/{name}"}


_SECURITY_SCHEME: _Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "The scheme that the verifier of this API accepts.",
}


def _component_schemas() -> _Json:
    """Return the definitions with references as an OpenAPI document has them."""
    text = json.dumps(schemas.definitions())
    components: _Json = json.loads(text.replace("#/$defs/", "#/components/schemas/"))
    return {**components, "link_form": LINK_FORM}


_STATUS_TEXTS = {
    400: "The request is malformed. Nothing was changed.",
    401: "The request has no valid identity.",
    403: "The link does not allow this decision.",
    404: "The run or wait does not exist, or the link is not valid.",
    409: "Another decision is recorded, or another process holds the run.",
    410: "The wait or run is expired, cancelled or erased.",
    413: "The body is too large. Nothing was changed.",
    415: "The body has the wrong media type. Nothing was changed.",
    422: "The decision does not fit the wait. Nothing was recorded.",
    500: "Internal error; the log has the details.",
    502: "The model gave no usable reply. The run is kept.",
    503: "Temporarily unavailable; send the request again later.",
}
_PROBLEM_TYPE = "application/problem+json"
_PAGE_TYPE = "text/html"


def _json_response(schema: str, description: str) -> _Json:
    content = {"application/json": {"schema": _ref(schema)}}
    return {"description": description, "content": content}


def _problem_response(status: int) -> _Json:
    content = {_PROBLEM_TYPE: {"schema": _ref("problem")}}
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
    "wait_id", "The id of a wait; it contains an @.", WAIT_ID_PATTERN
)
_RUN_ID_PARAMETER = _path_parameter("run_id", "The id of a run.", RUN_ID_PATTERN)
_GRANT_PARAMETER = _path_parameter("grant", "The id of a grant.", "[0-9a-z]{1,40}")
_CALLBACK_PARAMETER = _path_parameter(
    "token", "The token of a callback URL.", "[A-Za-z0-9_-]+"
)
_TOKEN_PARAMETER = _path_parameter(
    "token", "The token of a signed link.", "[A-Za-z0-9_-]+"
)
_LIMIT_PARAMETER: _Json = {
    "name": "limit",
    "in": "query",
    "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
}
_ORDER_PARAMETER: _Json = {
    "name": "order",
    "in": "query",
    "description": "`due`: the next deadlines first, and all fields of each wait.",
    "schema": {"enum": ["id", "due"], "default": "id"},
}
_AFTER_PARAMETER: _Json = {
    "name": "after",
    "in": "query",
    "description": "The `next` of the previous page.",
    "schema": _TEXT,
}


def _query_parameter(name: str, description: str) -> _Json:
    return {"name": name, "in": "query", "description": description, "schema": _TEXT}


_RUN_FILTER_PARAMETERS = (
    _query_parameter("agent", "Only runs of this root agent."),
    _query_parameter("status", "`live`, `ended` or one status."),
    _query_parameter("label", "Only runs with this label, as `team=finance`."),
    _query_parameter("after", "The `next` of the previous page."),
)


def _operation(
    operation_id: str,
    summary: str,
    success: _Json,
    *problems: int,
    parameters: tuple[_Json, ...] = (),
    body: _Json | None = None,
) -> _Json:
    # Every route with an identity has these responses.
    statuses = {401, 413, 500, *problems}
    operation: _Json = {
        "operationId": operation_id,
        "summary": summary,
        "parameters": list(parameters),
        "responses": {
            **success,
            **{str(status): _problem_response(status) for status in sorted(statuses)},
        },
    }
    if body is not None:
        operation["requestBody"] = body
    return operation


def _link_operation(
    operation_id: str, summary: str, success: _Json, *problems: int
) -> _Json:
    pages = {
        str(status): _page_response(_STATUS_TEXTS[status])
        for status in sorted(problems)
    }
    return {
        "operationId": operation_id,
        "summary": summary,
        "security": [],
        "parameters": [_TOKEN_PARAMETER],
        "responses": {**success, **pages},
    }


def _wait_paths() -> _Json:
    return {
        "/waits": {
            "get": _operation(
                "listWaits",
                "List open waits. A wait that was just decided may still be listed.",
                {"200": _json_response("wait_page", "One page of open waits.")},
                *(400, 503),
                parameters=(_LIMIT_PARAMETER, _AFTER_PARAMETER, _ORDER_PARAMETER),
            )
        },
        "/waits/{wait_id}": {
            "get": _operation(
                "showWait",
                "Show a wait with everything that its decider needs",
                {"200": _json_response("wait", "The wait; it is not decided.")},
                *(404, 409, 410, 503),
                parameters=(_WAIT_ID_PARAMETER,),
            )
        },
        "/waits/{wait_id}/decision": {
            "post": _operation(
                "decide",
                "Decide a wait; the first decision is recorded",
                {
                    "200": _json_response(
                        "decide_response",
                        "The decision is recorded, now or by an equal earlier request.",
                    )
                },
                *(400, 404, 409, 410, 415, 422, 503),
                parameters=(_WAIT_ID_PARAMETER,),
                body=_request_body("application/json", "verdict"),
            )
        },
    }


def _run_list_paths(started: _Json) -> _Json:
    return {
        "/runs": {
            "get": _operation(
                "listRuns",
                "List runs: live ones by id, then ended ones by day",
                {"200": _json_response("run_page", "One page of runs.")},
                *(400, 503),
                parameters=(_LIMIT_PARAMETER, *_RUN_FILTER_PARAMETERS),
            ),
            "post": _operation(
                "start",
                "Start a run and work on it until it ends or waits, or only store it",
                started,
                *(400, 409, 410, 415, 502, 503),
                body=_request_body("application/json", "start_request"),
            ),
        },
    }


def _run_paths() -> _Json:
    run = {"200": _json_response("run", "The run.")}
    outcome = {"200": _json_response("outcome", "The run, after its last step.")}
    stored = {"202": _json_response("outcome", "The run is stored, and no more.")}
    woken = {"202": _json_response("wake_response", "The dispatcher resumes the run.")}
    return {
        **_run_list_paths({**outcome, **stored}),
        "/runs/{run_id}": {
            "get": _operation(
                "showRun",
                "Show a run",
                run,
                *(400, 404, 410, 503),
                parameters=(_RUN_ID_PARAMETER,),
            ),
            "delete": _operation(
                "erase",
                "Erase a run; a repeated request returns an empty receipt",
                {"200": _json_response("erased_run", "The run is erased.")},
                *(400, 404, 409, 503),
                parameters=(_RUN_ID_PARAMETER,),
            ),
        },
        "/runs/{run_id}/resume": {
            "post": _operation(
                "resume",
                "Resume a run in this process, or by the dispatcher",
                {**outcome, **woken},
                *(400, 404, 409, 410, 502, 503),
                parameters=(_RUN_ID_PARAMETER,),
            )
        },
        "/sweep": {
            "post": _operation(
                "sweep",
                "Check every run that has a due marker",
                {"200": _json_response("sweep_result", "The result of the sweep.")},
                503,
            )
        },
    }


def _approval_paths() -> _Json:
    return {
        "/decisions": {
            "post": _operation(
                "decideAll",
                "Decide several waits; each has a result of its own",
                {"200": _json_response("decision_results", "One result for each.")},
                *(400, 415),
                body=_request_body("application/json", "decision_batch"),
            )
        },
        "/runs/{run_id}/audit": {
            "get": _operation(
                "auditRun",
                "Show who decided what about a run, how and when",
                {"200": _json_response("audit", "The recorded decisions.")},
                *(400, 404, 410, 503),
                parameters=(_RUN_ID_PARAMETER,),
            )
        },
        "/runs/{run_id}/grants": {
            "get": _operation(
                "listGrants",
                "List the grants of a run that have not ended",
                {"200": _json_response("grant_list", "The grants.")},
                *(400, 404, 410, 503),
                parameters=(_RUN_ID_PARAMETER,),
            )
        },
        "/runs/{run_id}/grants/{grant}/revoke": {
            "post": _operation(
                "revokeGrant",
                "Revoke a grant; it ends at the next claim of the run",
                {"200": _json_response("revoked_grant", "The grant is revoked.")},
                *(400, 404, 410, 415, 503),
                parameters=(_RUN_ID_PARAMETER, _GRANT_PARAMETER),
                body=_request_body("application/json", "revoke_request"),
            )
        },
    }


def _operator_paths() -> _Json:
    run = {"200": _json_response("run", "The run.")}
    return {
        "/runs/{run_id}/cancel": {
            "post": _operation(
                "cancel",
                "Cancel a run, or one of its calls",
                run,
                *(400, 404, 409, 410, 415, 503),
                parameters=(_RUN_ID_PARAMETER,),
                body=_request_body("application/json", "cancel_request"),
            )
        },
        "/runs/{run_id}/pause": {
            "post": _operation(
                "pause",
                "Pause a run until it is unpaused",
                run,
                *(400, 404, 410, 415, 503),
                parameters=(_RUN_ID_PARAMETER,),
                body=_request_body("application/json", "pause_request"),
            )
        },
        "/runs/{run_id}/unpause": {
            "post": _operation(
                "unpause",
                "End a pause, and the waits of conditions of agents",
                run,
                *(400, 404, 410, 415, 503),
                parameters=(_RUN_ID_PARAMETER,),
                body=_request_body("application/json", "unpause_request"),
            )
        },
    }


def _signal_paths() -> _Json:
    return {
        "/runs/{run_id}/wake": {
            "post": _operation(
                "wake",
                "Let the next resume ask the models that a run waits for",
                {"200": _json_response("woken_waits", "The waits have ended.")},
                *(400, 404, 410, 415, 503),
                parameters=(_RUN_ID_PARAMETER,),
                body=_request_body("application/json", "wake_request"),
            )
        },
        "/signals": {
            "post": _operation(
                "signal",
                "Send a signal to a run; it ends a wait for an event, or is kept",
                {"200": _json_response("sent_signal", "The signal is recorded.")},
                *(400, 404, 410, 415, 503),
                body=_request_body("application/json", "signal_request"),
            )
        },
        "/events": {
            "post": _operation(
                "publish",
                "Publish an event for all runs that wait for it",
                {"200": _json_response("published_event", "The event is published.")},
                *(400, 415, 503),
                body=_request_body("application/json", "event_request"),
            )
        },
    }


def _link_paths() -> _Json:
    show = _link_operation(
        "showLink",
        "Show the wait of a signed link; change nothing",
        {"200": _page_response("The wait, or its recorded decision.")},
        *(404, 413, 500, 503),
    )
    decide = _link_operation(
        "decideByLink",
        "Decide the wait of a signed link",
        {
            "200": _page_response(
                "The decision is recorded, now or by an equal earlier request."
            )
        },
        *(400, 403, 404, 409, 410, 413, 415, 500, 503),
    )
    decide["requestBody"] = _request_body(
        "application/x-www-form-urlencoded", "link_form"
    )
    return {"/d/{token}": {"get": show, "post": decide}}


def _callback_paths() -> _Json:
    report = _operation(
        "reportResult",
        "Record the result of a job at its callback URL",
        {"200": _json_response("reported_result", "The result is recorded.")},
        *(400, 404, 409, 410, 415, 422, 503),
        parameters=(_CALLBACK_PARAMETER,),
        body=_request_body("application/json", "job_result"),
    )
    extend = _operation(
        "extendJob",
        "Say at a callback URL that the job is in progress",
        {"200": _json_response("extended_job", "The job has more time.")},
        *(400, 404, 409, 410, 415, 503),
        parameters=(_CALLBACK_PARAMETER,),
        body=_request_body("application/json", "heartbeat"),
    )
    del report["responses"]["401"], extend["responses"]["401"]
    return {
        "/callbacks/{token}": {"post": {**report, "security": []}},
        "/callbacks/{token}/heartbeat": {"post": {**extend, "security": []}},
    }


def _webhook_paths() -> _Json:
    name = _path_parameter("name", "The name of a webhook.", "[^/]+")
    operation = _operation(
        "receiveWebhook",
        "Do what a message means that is signed as Standard Webhooks say",
        {"200": _json_response("received_webhook", "The message is recorded.")},
        *(400, 404, 422, 503),
        parameters=(name,),
    )
    body: _Json = {"content": {"application/json": {"schema": {}}}}
    return {
        "/webhooks/{name}": {"post": {**operation, "security": [], "requestBody": body}}
    }


def _service_paths() -> _Json:
    health = {"200": _json_response("health", "The process answers.")}
    content = {"application/json": {"schema": {"type": "object"}}}
    itself = {"200": {"description": "This document.", "content": content}}
    return {
        "/healthz": {
            "get": {
                "operationId": "healthz",
                "summary": "Report that the process answers",
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
            "description": "Show and decide what runs of agents wait for.",
        },
        # Relative to the URL of this document: the API may have any mount prefix.
        "servers": [{"url": "."}],
        "security": [{"identity": []}],
        "paths": {
            **_wait_paths(),
            **_run_paths(),
            **_approval_paths(),
            **_operator_paths(),
            **_signal_paths(),
            **_callback_paths(),
            **_webhook_paths(),
            **_link_paths(),
            **_service_paths(),
        },
        "components": {
            "schemas": _component_schemas(),
            "securitySchemes": {"identity": _SECURITY_SCHEME},
        },
    }
