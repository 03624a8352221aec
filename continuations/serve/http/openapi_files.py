"""The path of attachments in the OpenAPI document."""

from __future__ import annotations

from continuations.serve.http.file_routes import OTHER_MEDIA_TYPE, SAFE_MEDIA_TYPES
from continuations.serve.http.openapi_parts import (
    RUN_ID_PARAMETER,
    Json,
    operation,
    path_parameter,
    query_parameter,
)

_DIGEST_PARAMETER = path_parameter(
    "digest", "The digest of an attachment.", "sha256:[0-9a-f]{64}"
)


def file_paths() -> Json:
    """Return the path of the attachments of a run."""
    content: Json = {
        kind: {"schema": {}} for kind in sorted({*SAFE_MEDIA_TYPES, OTHER_MEDIA_TYPE})
    }
    return {
        "/runs/{run_id}/files/{digest}": {
            "get": operation(
                "downloadFile",
                "Return the bytes of an attachment of a run",
                {"200": {"description": "The bytes.", "content": content}},
                *(400, 404, 410, 503),
                parameters=(
                    *(RUN_ID_PARAMETER, _DIGEST_PARAMETER),
                    query_parameter(
                        "name",
                        "The name of the attachment in a message, which may name the "
                        "same bytes differently than another message.",
                    ),
                    query_parameter(
                        "media_type", "The media type of the attachment there."
                    ),
                ),
            )
        }
    }
