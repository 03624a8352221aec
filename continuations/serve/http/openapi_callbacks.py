"""The paths for other systems in the OpenAPI document: callbacks and webhooks."""

from __future__ import annotations

from continuations.serve.http.openapi_parts import (
    CALLBACK_PARAMETER,
    Json,
    json_response,
    operation,
    path_parameter,
    request_body,
)


def callback_paths() -> Json:
    """Return the paths of callback URLs."""
    report = operation(
        "reportResult",
        "Record the result of a job at its callback URL",
        {"200": json_response("reported_result", "The result is recorded.")},
        *(400, 404, 409, 410, 415, 422, 503),
        parameters=(CALLBACK_PARAMETER,),
        body=request_body("application/json", "job_result"),
    )
    extend = operation(
        "extendJob",
        "Say at a callback URL that the job is in progress",
        {"200": json_response("extended_job", "The job has more time.")},
        *(400, 404, 409, 410, 415, 503),
        parameters=(CALLBACK_PARAMETER,),
        body=request_body("application/json", "heartbeat"),
    )
    del report["responses"]["401"], extend["responses"]["401"]
    return {
        "/callbacks/{token}": {"post": {**report, "security": []}},
        "/callbacks/{token}/heartbeat": {"post": {**extend, "security": []}},
    }


def webhook_paths() -> Json:
    """Return the path of webhooks."""
    name = path_parameter("name", "The name of a webhook.", "[^/]+")
    receive = operation(
        "receiveWebhook",
        "Do what a message means that is signed as Standard Webhooks say",
        {"200": json_response("received_webhook", "The message is recorded.")},
        *(400, 404, 422, 503),
        parameters=(name,),
    )
    body: Json = {"content": {"application/json": {"schema": {}}}}
    return {
        "/webhooks/{name}": {"post": {**receive, "security": [], "requestBody": body}}
    }
