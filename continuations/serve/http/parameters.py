"""The parameters of paths and queries, as the OpenAPI document has them.

The same schemas read a query: see `request_fields`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.present.schema_parts import RUN_ID_PATTERN, WAIT_ID_PATTERN

if TYPE_CHECKING:
    from collections.abc import Mapping

Json: TypeAlias = dict[str, Any]

TEXT: Json = {"type": "string"}
_VERSION: Json = {"type": "integer", "minimum": 1, "maximum": 9_999_999_999}
_NEXT = "The `next` of the previous page."


def _matching(pattern: str) -> Json:
    return {**TEXT, "pattern": f"^{pattern}$"}


def _path(name: str, description: str, schema: Json) -> Json:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": description,
        "schema": schema,
    }


def _query(name: str, description: str, schema: Json | None = None) -> Json:
    return {
        "name": name,
        "in": "query",
        "description": description,
        "schema": TEXT if schema is None else schema,
    }


def _version(name: str, description: str) -> Json:
    return {**_path(name, description, _VERSION), "in": "query"}


# By the name in a path; a prefix of the path tells equal names apart.
PATH_PARAMETERS: Mapping[str, Json] = {
    "wait_id": _path(
        "wait_id", "The id of a wait; it contains an @.", _matching(WAIT_ID_PATTERN)
    ),
    "run_id": _path("run_id", "The id of a run.", _matching(RUN_ID_PATTERN)),
    "grant": _path("grant", "The id of a grant.", _matching("[0-9a-z]{1,40}")),
    "number": _path("number", "The number of a version.", _VERSION),
    "digest": _path(
        "digest", "The digest of an attachment.", _matching("sha256:[0-9a-f]{64}")
    ),
    "agent": _path("agent", "The name of the agent.", {**TEXT, "minLength": 1}),
    "key": _path(
        "key",
        "The key of the thread, percent-encoded: a slash is %2F.",
        {**TEXT, "minLength": 1, "maxLength": 500},
    ),
    "name": _path("name", "The name of a webhook.", _matching("[^/]+")),
    "/threads number": _path(
        "number", "The number of a message.", {"type": "integer", "minimum": 1}
    ),
    "/callbacks token": _path(
        "token", "The token of a callback URL.", _matching("[A-Za-z0-9_-]+")
    ),
    "/d token": _path(
        "token", "The token of a signed link.", _matching("[A-Za-z0-9_-]+")
    ),
}
# By the name in `Operation.query`; the parameter itself may have a shorter name.
QUERY_PARAMETERS: Mapping[str, Json] = {
    "limit": {
        "name": "limit",
        "in": "query",
        "schema": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
    },
    "order": _query(
        "order",
        "`due`: the next deadlines first, and all fields of each wait.",
        {"enum": ["id", "due"], "default": "id"},
    ),
    "after": _query("after", _NEXT),
    "after_run": _query("after", _NEXT, _matching(f"({RUN_ID_PATTERN})?")),
    "after_version": _query("after", _NEXT, {**_VERSION, "minimum": 0, "default": 0}),
    "after_event": _query(
        "after",
        "The `cursor` of an event: only those that follow.",
        _matching("[1-9][0-9]{0,8}\\.[1-9][0-9]{0,8}"),
    ),
    "approver": _query(
        "approver",
        "Only waits that this person may decide now, sorted by id.",
        {**TEXT, "minLength": 1, "maxLength": 63},
    ),
    "agent": _query("agent", "Only runs of this root agent."),
    "status": _query("status", "`live`, `ended` or one status."),
    "label": _query("label", "Only runs with this label, as `team=finance`."),
    "wait": _query(
        "wait",
        "With server-sent events: how many seconds the response waits for an event.",
        {"type": "integer", "minimum": 0, "maximum": 20, "default": 0},
    ),
    "version": _version("version", "The earlier version."),
    "from": _version("from", "The first version."),
    "to": _version("to", "The second version."),
    "name": _query(
        "name",
        "The name of the attachment in a message, which may name the same bytes "
        "differently than another message.",
    ),
    "media_type": _query("media_type", "The media type of the attachment there."),
    "run_id": _query(
        "run_id", "The run that had the message, if the thread was closed since."
    ),
    "words": _query(
        "words",
        "Also send the words of this process while they are written, as events without "
        "an id. The response then goes on for a while, also before the first message.",
        {"type": "boolean", "default": False},
    ),
}
