"""The JSON Schemas of the past of a run: its versions, and their differences."""

from __future__ import annotations

from continuations.core.calls import STATE_TYPES
from continuations.core.run import RUN_STATUSES
from continuations.core.run_past import CHANGES
from continuations.present.run_schemas import USAGE
from continuations.present.schema_parts import (
    COUNT,
    OBJECT,
    RUN_ID_PATTERN,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    Json,
    array,
    described,
    enum,
    object_form,
    ref,
)

_ONE_SIDE: Json = {"change": {"enum": ["added", "removed"]}}
_FRAME: Json = {
    "frame": TEXT,
    "path": described(array(TEXT), "From the root agent down to the agent or tool."),
}
_CALL_STATE: Json = {"enum": [*sorted(STATE_TYPES), None]}
_ARGUMENTS: Json = {"type": ["object", "null"]}
_BEGUN_CALL: Json = {
    "call": TEXT,
    "path": _FRAME["path"],
    "tool": TEXT,
    "version": described(COUNT, "The version that recorded the start."),
    "arguments": _ARGUMENTS,
}
_TAKEN_MESSAGE: Json = {"number": COUNT, "text": TEXT, "by": TEXT_OR_NULL}
_NOT_UNDONE: Json = {
    "calls": described(
        array(object_form("A call.", _BEGUN_CALL)),
        "The calls that were started since; they are not undone.",
    ),
    "messages": described(
        array(object_form("A message.", _TAKEN_MESSAGE)),
        "The messages that were read since; they are not read again.",
    ),
}
_USAGE = object_form("The cost of all model replies of the run.", USAGE)


def past_definitions(decisions: Json) -> Json:
    """Return the schemas of versions, differences and forks by name.

    Args:
        decisions: The schema of a list of decisions.
    """
    return {
        **_fork_definitions(decisions),
        **_rewind_definitions(),
        "run_version": object_form(
            "One stored version of a run.",
            {
                "number": described(COUNT, "The number of the version, from 1."),
                "at": TIME,
                "status": enum(RUN_STATUSES),
                "worker": described(
                    TEXT_OR_NULL, "The worker that wrote it; null without a claim."
                ),
                "words": described(array(TEXT), "What changed, one line for an event."),
                "events": array(ref("event")),
                "waits": described(array(ref("wait")), "The open waits."),
            },
        ),
        "version_page": object_form(
            "One page of the versions of a run.",
            {
                "run_id": TEXT,
                "versions": array(ref("run_version")),
                "next": {
                    "type": ["integer", "null"],
                    "minimum": 1,
                    "description": "`after` of the next page; null on the last page.",
                },
            },
        ),
        "run_difference": _difference(),
    }


def _fork_definitions(decisions: Json) -> Json:
    message: Json = {"oneOf": [{**TEXT, "minLength": 1}, array(OBJECT)]}
    own = {key: decisions[key] for key in ("type", "maxItems", "items")}
    return {
        "fork_request": object_form(
            "A fork of a run.",
            {},
            {
                "version": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The version to go on from; by default the newest.",
                },
                "run_id": {"type": "string", "pattern": f"^{RUN_ID_PATTERN}$"},
                "decisions": described(own, "Decisions of open waits of the version."),
                "results": described(
                    OBJECT, "Results by the ids of open calls; their tools do not run."
                ),
                "messages": {
                    "type": "object",
                    "additionalProperties": message,
                    "description": "By the ids of frames: a text that is added, or a "
                    "list of messages that replaces the transcript.",
                },
            },
        ),
        "forked_run": object_form("The fork of a run.", {"run_id": TEXT}),
    }


def _rewind_definitions() -> Json:
    return {
        "rewind_request": object_form(
            "The version to go on from.",
            {"version": {"type": "integer", "minimum": 1, "maximum": 9_999_999_999}},
            {
                "shown": described(
                    TEXT,
                    "The `digest` of the plan that a person saw: a run that moved on "
                    "since then, or for which something was decided, is not rewound.",
                )
            },
        ),
        "rewind_plan": object_form(
            "The consequences of a rewind, before it is made.",
            {
                "run_id": TEXT,
                "version": described(COUNT, "The number of the earlier version."),
                "newest": described(COUNT, "The version that would be rewound."),
                "digest": described(TEXT, "Send it as `shown`."),
                "waits": described(array(ref("wait")), "The waits that would end."),
                "decided": described(
                    array(TEXT),
                    "Ids of those waits whose decision would have no effect.",
                ),
                **_NOT_UNDONE,
                "refusal": described(
                    TEXT_OR_NULL, "Why a rewind is refused; null if it is not."
                ),
            },
        ),
        "rewound": object_form(
            "A run goes on from an earlier version.",
            {
                "run_id": TEXT,
                "rewound_to": described(COUNT, "The number of the earlier version."),
                "version": described(COUNT, "The number of the new version."),
                **_NOT_UNDONE,
            },
        ),
    }


def _difference() -> Json:
    frame = {**_ONE_SIDE, **_FRAME, "agent": TEXT}
    message = {**_ONE_SIDE, **_FRAME, "position": COUNT, "message": OBJECT}
    call: Json = {
        "change": enum(CHANGES),
        "call": TEXT,
        **_FRAME,
        "tool": TEXT,
        "before": _CALL_STATE,
        "after": _CALL_STATE,
        "arguments_before": _ARGUMENTS,
        "arguments_after": _ARGUMENTS,
    }
    decision: Json = {"oneOf": [{"type": "null"}, ref("decision")]}
    wait = {**_ONE_SIDE, "wait": ref("wait"), "decision": decision}
    state = {**_FRAME, "before": OBJECT, "after": OBJECT}
    return object_form(
        "The differences between two versions of a run.",
        {
            "run_id": TEXT,
            "before": described(COUNT, "The number of the first version."),
            "after": described(COUNT, "The number of the second version."),
            "status_before": enum(RUN_STATUSES),
            "status_after": enum(RUN_STATUSES),
            "usage_before": _USAGE,
            "usage_after": _USAGE,
            "frames": array(object_form("An agent of one version only.", frame)),
            "messages": array(object_form("A message of one version only.", message)),
            "calls": array(object_form("An open call that differs.", call)),
            "waits": array(object_form("A wait of one version only.", wait)),
            "states": array(object_form("The state of an agent that differs.", state)),
        },
    )
