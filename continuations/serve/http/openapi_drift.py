"""The path of `drift` in the OpenAPI document."""

from __future__ import annotations

from continuations.present.schema_parts import RUN_ID_PATTERN
from continuations.serve.http.openapi_parts import (
    LIMIT_PARAMETER,
    Json,
    json_response,
    operation,
    query_parameter,
)

_AFTER: Json = {
    **query_parameter("after", "The `next` of the previous page."),
    "schema": {"type": "string", "pattern": f"^({RUN_ID_PATTERN})?$"},
}


def drift_paths() -> Json:
    """Return the operation that compares waiting runs with the server's code."""
    return {
        "/drift": {
            "get": operation(
                "drift",
                "List the runs that have not ended, with what the code of the server "
                "would do with each; nothing is written",
                {"200": json_response("drift_page", "One page of runs.")},
                *(400, 503),
                parameters=(LIMIT_PARAMETER, _AFTER),
            )
        }
    }
