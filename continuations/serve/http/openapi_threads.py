"""The paths of threads in the OpenAPI document."""

from __future__ import annotations

from continuations.serve.http.openapi_parts import (
    EVENT_STREAM,
    EVENTS_WAIT_PARAMETER,
    LIMIT_PARAMETER,
    TEXT,
    Json,
    json_response,
    operation,
    query_parameter,
    request_body,
    streamed,
)


def _parameter(name: str, description: str, schema: Json) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
    }


_THREAD = (
    _parameter("agent", "The name of the agent.", {**TEXT, "minLength": 1}),
    _parameter(
        "key",
        "The key of the thread, percent-encoded: a slash is %2F.",
        {**TEXT, "minLength": 1, "maxLength": 500},
    ),
)
_NUMBER = _parameter(
    "number", "The number of a message.", {"type": "integer", "minimum": 1}
)
_RUN_ID = query_parameter(
    "run_id", "The run that had the message, if the thread was closed since."
)


_WORDS: Json = {
    **query_parameter(
        "words",
        "Also send the words of this process while they are written, as events without "
        "an id. The response then goes on for a while, also before the first message.",
    ),
    "schema": {"type": "boolean", "default": False},
}


def _events() -> Json:
    return operation(
        "streamThreadEvents",
        "Return the next events of a thread, as server-sent events",
        {"200": {"description": "The events.", "content": EVENT_STREAM}},
        *(400, 404, 410, 503),
        parameters=(*_THREAD, LIMIT_PARAMETER, EVENTS_WAIT_PARAMETER, _WORDS),
    )


def thread_paths() -> Json:
    """Return the paths of threads."""
    path = "/threads/{agent}/{key}"
    reply: Json = {
        "200": json_response("thread_reply", "The reply, or why it failed."),
        "202": json_response("thread_reply", "The reply is missing."),
    }
    worked = {**reply, "200": streamed(reply["200"], "reply")}
    changed = {"200": json_response("changed_thread", "The request is recorded.")}
    return {
        path: {
            "get": operation(
                "showThread",
                "Show a thread with its conversation",
                {"200": json_response("thread", "The thread.")},
                *(400, 404, 410, 503),
                parameters=_THREAD,
            )
        },
        f"{path}/messages": {
            "post": operation(
                "postMessage",
                "Post a message, and work on the thread until it has its reply",
                worked,
                *(400, 409, 410, 415, 429, 502, 503),
                parameters=_THREAD,
                body=request_body("application/json", "message_request"),
            )
        },
        f"{path}/messages/{{number}}": {
            "get": operation(
                "showMessage",
                "Return the reply to a message; nothing runs",
                reply,
                *(400, 404, 410, 503),
                parameters=(*_THREAD, _NUMBER, _RUN_ID),
            )
        },
        f"{path}/events": {"get": _events()},
        f"{path}/stop": {
            "post": operation(
                "stopTurn",
                "Stop the reply to the present message",
                changed,
                *(400, 404, 410, 415, 503),
                parameters=_THREAD,
                body=request_body("application/json", "stop_request"),
            )
        },
        f"{path}/close": {
            "post": operation(
                "closeThread",
                "Close a thread once the messages before have their replies",
                changed,
                *(400, 404, 409, 410, 415, 502, 503),
                parameters=_THREAD,
                body=request_body("application/json", "close_request"),
            )
        },
    }
