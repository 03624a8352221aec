"""The paths of the past of a run in the OpenAPI document."""

from __future__ import annotations

from continuations.serve.http.openapi_parts import (
    LIMIT_PARAMETER,
    RUN_ID_PARAMETER,
    Json,
    json_response,
    operation,
    request_body,
)

_NUMBER: Json = {"type": "integer", "minimum": 1, "maximum": 9_999_999_999}


def _number_parameter(name: str, place: str, description: str) -> Json:
    return {
        "name": name,
        "in": place,
        "required": True,
        "description": description,
        "schema": _NUMBER,
    }


_AFTER: Json = {
    "name": "after",
    "in": "query",
    "description": "The `next` of the previous page.",
    "schema": {**_NUMBER, "minimum": 0, "default": 0},
}


def past_paths() -> Json:
    """Return the paths of versions, differences and forks."""
    return {
        "/runs/{run_id}/fork": {
            "post": operation(
                "fork",
                "Start a new run from a version of a run; a resume continues it",
                {"200": json_response("forked_run", "The fork is stored.")},
                *(400, 404, 409, 410, 415, 422, 503),
                parameters=(RUN_ID_PARAMETER,),
                body=request_body("application/json", "fork_request"),
            )
        },
        **_rewind_path(),
        "/runs/{run_id}/versions": {
            "get": operation(
                "listVersions",
                "List the versions of a run, the oldest first",
                {"200": json_response("version_page", "One page of versions.")},
                *(400, 404, 410, 503),
                parameters=(RUN_ID_PARAMETER, LIMIT_PARAMETER, _AFTER),
            )
        },
        "/runs/{run_id}/versions/{number}": {
            "get": operation(
                "showVersion",
                "Show a run as it was in a version, with its agents and messages",
                {"200": json_response("run", "The run in this version.")},
                *(400, 404, 410, 503),
                parameters=(
                    RUN_ID_PARAMETER,
                    _number_parameter("number", "path", "The number of a version."),
                ),
            )
        },
        "/runs/{run_id}/diff": {
            "get": operation(
                "compareVersions",
                "Compare two versions of a run",
                {"200": json_response("run_difference", "The differences.")},
                *(400, 404, 410, 503),
                parameters=(
                    RUN_ID_PARAMETER,
                    _number_parameter("from", "query", "The first version."),
                    _number_parameter("to", "query", "The second version."),
                ),
            )
        },
    }


def _rewind_path() -> Json:
    return {
        "/runs/{run_id}/rewind": {
            "get": operation(
                "planRewind",
                "Show what a rewind would end, and what it would not undo",
                {"200": json_response("rewind_plan", "The plan; nothing is written.")},
                *(400, 404, 410, 503),
                parameters=(
                    RUN_ID_PARAMETER,
                    _number_parameter("version", "query", "The earlier version."),
                ),
            ),
            "post": operation(
                "rewind",
                "Let a live run go on from an earlier version",
                {"200": json_response("rewound", "The run is rewound.")},
                *(400, 404, 409, 410, 415, 503),
                parameters=(RUN_ID_PARAMETER,),
                body=request_body("application/json", "rewind_request"),
            ),
        },
    }
