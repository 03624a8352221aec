"""The OpenAPI 3.1 document of the HTTP API.

Its schemas are those of `docs/schemas/continuations.schema.json`. The tests validate
the document, and every response of the API against the document.
"""

from __future__ import annotations

import json
from typing import Any

from continuations import __version__
from continuations.present import schemas
from continuations.serve.http.openapi_callbacks import callback_paths, webhook_paths
from continuations.serve.http.openapi_drift import drift_paths
from continuations.serve.http.openapi_files import file_paths
from continuations.serve.http.openapi_forms import LINK_FORM
from continuations.serve.http.openapi_parts import (
    AFTER_PARAMETER,
    APPROVER_PARAMETER,
    EVENT_RESPONSES,
    EVENTS_AFTER_PARAMETER,
    EVENTS_WAIT_PARAMETER,
    GRANT_PARAMETER,
    LIMIT_PARAMETER,
    ORDER_PARAMETER,
    RUN_FILTER_PARAMETERS,
    RUN_ID_PARAMETER,
    WAIT_ID_PARAMETER,
    Json,
    json_response,
    link_operation,
    operation,
    or_recorded,
    page_response,
    problem_response,
    request_body,
    streamed,
)
from continuations.serve.http.openapi_past import past_paths
from continuations.serve.http.openapi_threads import thread_paths
from continuations.serve.http.route_rights import RIGHTS, hides_content

_SECURITY_SCHEME: Json = {
    "type": "http",
    "scheme": "bearer",
    "description": "The scheme that the verifier of this API accepts.",
}


def _component_schemas() -> Json:
    """Return the definitions with references as an OpenAPI document has them."""
    text = json.dumps(schemas.definitions())
    components: Json = json.loads(text.replace("#/$defs/", "#/components/schemas/"))
    return {**components, "link_form": LINK_FORM}


def _wait_paths() -> Json:
    return {
        "/waits": {
            "get": operation(
                "listWaits",
                "List open waits. A wait that was just decided may still be listed.",
                {"200": json_response("wait_page", "One page of open waits.")},
                *(400, 503),
                parameters=(
                    LIMIT_PARAMETER,
                    AFTER_PARAMETER,
                    ORDER_PARAMETER,
                    APPROVER_PARAMETER,
                ),
            )
        },
        "/waits/{wait_id}": {
            "get": operation(
                "showWait",
                "Show a wait with everything that its decider needs",
                {"200": json_response("wait", "The wait; it is not decided.")},
                *(404, 409, 410, 503),
                parameters=(WAIT_ID_PARAMETER,),
            )
        },
        "/waits/{wait_id}/decision": {
            "post": operation(
                "decide",
                "Decide a wait; the first decision is recorded",
                {
                    "200": json_response(
                        "decide_response",
                        "The decision is recorded, now or by an equal earlier request.",
                    )
                },
                *(400, 404, 409, 410, 415, 422, 503),
                parameters=(WAIT_ID_PARAMETER,),
                body=request_body("application/json", "verdict"),
            )
        },
    }


def _run_list_paths(started: Json) -> Json:
    return {
        "/runs": {
            "get": operation(
                "listRuns",
                "List runs: live ones by id, then ended ones by day",
                {"200": json_response("run_page", "One page of runs.")},
                *(400, 503),
                parameters=(LIMIT_PARAMETER, *RUN_FILTER_PARAMETERS),
            ),
            "post": operation(
                "start",
                "Start a run and work on it until it ends or waits, or only store it",
                started,
                *(400, 409, 410, 415, 502, 503),
                body=request_body("application/json", "start_request"),
            ),
        },
        **drift_paths(),
    }


def _run_paths() -> Json:
    run = {"200": json_response("run", "The run.")}
    last_step = json_response("outcome", "The run, after its last step.")
    outcome = {"200": streamed(last_step, "outcome")}
    stored = {"202": json_response("outcome", "The run is stored, and no more.")}
    woken = {"202": json_response("wake_response", "The dispatcher resumes the run.")}
    return {
        **_run_list_paths({**outcome, **stored}),
        "/runs/{run_id}": {
            "get": operation(
                "showRun",
                "Show a run",
                run,
                *(400, 404, 410, 503),
                parameters=(RUN_ID_PARAMETER,),
            ),
            "delete": operation(
                "erase",
                "Erase a run; a repeated request returns an empty receipt",
                {"200": json_response("erased_run", "The run is erased.")},
                *(400, 404, 409, 503),
                parameters=(RUN_ID_PARAMETER,),
            ),
        },
        "/runs/{run_id}/resume": {
            "post": operation(
                "resume",
                "Resume a run in this process, or by the dispatcher",
                {**outcome, **woken},
                *(400, 404, 409, 410, 415, 502, 503),
                parameters=(RUN_ID_PARAMETER,),
                body=request_body(
                    "application/json", "resume_request", is_required=False
                ),
            )
        },
        "/sweep": {
            "post": operation(
                "sweep",
                "Check every run that has a due marker",
                {"200": json_response("sweep_result", "The result of the sweep.")},
                503,
            )
        },
    }


def _approval_paths() -> Json:
    return {
        "/decisions": {
            "post": operation(
                "decideAll",
                "Decide several waits; each has a result of its own",
                {"200": json_response("decision_results", "One result for each.")},
                *(400, 415),
                body=request_body("application/json", "decision_batch"),
            )
        },
        "/runs/{run_id}/audit": {
            "get": operation(
                "auditRun",
                "Show who decided what about a run, how and when",
                {"200": json_response("audit", "The recorded decisions.")},
                *(400, 404, 410, 503),
                parameters=(RUN_ID_PARAMETER,),
            )
        },
        "/runs/{run_id}/events": {
            "get": operation(
                "listEvents",
                "List what happened in a run, derived from its versions",
                EVENT_RESPONSES,
                *(400, 404, 410, 503),
                parameters=(
                    *(RUN_ID_PARAMETER, LIMIT_PARAMETER),
                    *(EVENTS_AFTER_PARAMETER, EVENTS_WAIT_PARAMETER),
                ),
            )
        },
        "/runs/{run_id}/grants": {
            "get": operation(
                "listGrants",
                "List the grants of a run that have not ended",
                {"200": json_response("grant_list", "The grants.")},
                *(400, 404, 410, 503),
                parameters=(RUN_ID_PARAMETER,),
            )
        },
        "/runs/{run_id}/grants/{grant}/revoke": {
            "post": operation(
                "revokeGrant",
                "Revoke a grant; it ends at the next claim of the run",
                {"200": json_response("revoked_grant", "The grant is revoked.")},
                *(400, 404, 410, 415, 503),
                parameters=(RUN_ID_PARAMETER, GRANT_PARAMETER),
                body=request_body("application/json", "revoke_request"),
            )
        },
    }


def _operator_paths() -> Json:
    run = {"200": json_response("run", "The run.")}
    return {
        "/runs/{run_id}/cancel": {
            "post": operation(
                "cancel",
                "Cancel a run, or one of its calls",
                run,
                *(400, 404, 409, 410, 415, 503),
                parameters=(RUN_ID_PARAMETER,),
                body=request_body("application/json", "cancel_request"),
            )
        },
        "/runs/{run_id}/pause": {
            "post": operation(
                "pause",
                "Pause a run until it is unpaused",
                run,
                *(400, 404, 410, 415, 503),
                parameters=(RUN_ID_PARAMETER,),
                body=request_body("application/json", "pause_request"),
            )
        },
        "/runs/{run_id}/unpause": {
            "post": operation(
                "unpause",
                "End a pause, and the waits of conditions of agents",
                run,
                *(400, 404, 410, 415, 503),
                parameters=(RUN_ID_PARAMETER,),
                body=request_body("application/json", "unpause_request"),
            )
        },
        "/runs/{run_id}/signals": {
            "get": operation(
                "listSignals",
                "List the signals that no wait of a run has taken",
                {"200": json_response("signal_list", "The signals.")},
                *(400, 404, 410, 503),
                parameters=(RUN_ID_PARAMETER,),
            )
        },
        "/runs/{run_id}/signals/drop": {
            "post": operation(
                "dropSignals",
                "Drop the signals that no wait of a run has taken",
                {"200": json_response("dropped_signals", "The signals are dropped.")},
                *(400, 404, 410, 415, 503),
                parameters=(RUN_ID_PARAMETER,),
                body=request_body("application/json", "drop_signals_request"),
            )
        },
    }


def _signal_paths() -> Json:
    return {
        "/runs/{run_id}/wake": {
            "post": operation(
                "wake",
                "Let the next resume ask the models that a run waits for",
                {"200": json_response("woken_waits", "The waits have ended.")},
                *(400, 404, 410, 415, 503),
                parameters=(RUN_ID_PARAMETER,),
                body=request_body("application/json", "wake_request"),
            )
        },
        "/runs/{run_id}/messages": {
            "post": operation(
                "send",
                "Send a message to a run; its root agent reads it before its next turn",
                {"200": json_response("sent_message", "The message is recorded.")},
                *(400, 404, 410, 415, 429, 503),
                parameters=(RUN_ID_PARAMETER,),
                body=request_body("application/json", "run_message_request"),
            )
        },
        "/signals": {
            "post": operation(
                "signal",
                "Send a signal to a run; it ends a wait for an event, or is kept",
                {"200": json_response("sent_signal", "The signal is recorded.")},
                *(400, 404, 410, 415, 503),
                body=request_body("application/json", "signal_request"),
            )
        },
        "/events": {
            "post": operation(
                "publish",
                "Publish an event for all runs that wait for its name and key",
                {"200": json_response("published_event", "The event is published.")},
                *(400, 415, 503),
                body=request_body("application/json", "event_request"),
            )
        },
    }


def _link_paths() -> Json:
    show = link_operation(
        "showLink",
        "Show the wait of a signed link; change nothing",
        {"200": page_response("The wait, or its recorded decision.")},
        *(404, 413, 500, 503),
    )
    decide = link_operation(
        "decideByLink",
        "Decide the wait of a signed link",
        {
            "200": page_response(
                "The decision is recorded, now or by an equal earlier request."
            )
        },
        *(400, 403, 404, 409, 410, 413, 415, 500, 503),
    )
    decide["requestBody"] = request_body(
        "application/x-www-form-urlencoded", "link_form"
    )
    return {"/d/{token}": {"get": show, "post": decide}}


def _service_paths() -> Json:
    health = {"200": json_response("health", "The process answers.")}
    content = {"application/json": {"schema": {"type": "object"}}}
    itself = {"200": {"description": "This document.", "content": content}}
    return {
        "/healthz": {
            "get": {
                "operationId": "healthz",
                "summary": "Report that the process answers",
                "security": [],
                "responses": {**health, "413": problem_response(413)},
            }
        },
        "/openapi.json": {"get": operation("openapi", "Return this document", itself)},
    }


def _paths() -> Json:
    paths = {
        **_wait_paths(),
        **_run_paths(),
        **_approval_paths(),
        **_operator_paths(),
        **_signal_paths(),
        **past_paths(),
        **file_paths(),
        **thread_paths(),
        **callback_paths(),
        **webhook_paths(),
        **_link_paths(),
        **_service_paths(),
    }
    for (method, path), right in RIGHTS.items():
        if right is not None:
            responses = paths[path][method.lower()]["responses"]
            responses["403"] = problem_response(403)
            if hides_content(right):
                responses["202"] = or_recorded(responses.get("202"))
    return paths


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
