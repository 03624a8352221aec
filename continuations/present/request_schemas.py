"""The JSON Schemas of requests: what doors take, and their values in no class."""

from __future__ import annotations

from continuations.core.attachment_parts import MAX_NAME_CHARS
from continuations.core.run import WHEN_BUSY
from continuations.present.file_forms import MAX_FILES
from continuations.present.schema_parts import (
    ANY,
    BOOLEAN,
    LABELS,
    OBJECT,
    REASON,
    RUN_ID,
    TEXT,
    Json,
    array,
    described,
    object_form,
    ref,
)

_SOME_TEXT: Json = {**TEXT, "minLength": 1}
_VERSION: Json = {"type": "integer", "minimum": 1}

# Attachments ----------------------------------------------------------------------

_GROUP = "[A-Za-z0-9+/]"
_FILE = object_form(
    "An image, a sound or a file.",
    {
        "data": {
            "type": "string",
            "minLength": 4,
            "pattern": f"^({_GROUP}{{4}})*({_GROUP}{{2}}==|{_GROUP}{{3}}=)?$",
            "contentEncoding": "base64",
            "description": "The bytes, at least one: base64 with padding.",
        },
        "media_type": {
            "type": "string",
            "pattern": "^[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/"
            "[a-z0-9][a-z0-9!#$&^_.+-]{0,62}$",
            "description": "In lower case and without parameters, such as `image/png`. "
            "The first part decides whether it is an image, a sound or a file.",
        },
        "name": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_NAME_CHARS,
            "pattern": r"^[^/\\]*[^/\\. ][^/\\]*$",
            "description": "The name of the file: printable, without `/` and `\\`, and "
            "not only dots and spaces.",
        },
    },
)
_FILES: Json = {
    "type": "array",
    "items": ref("file"),
    "maxItems": MAX_FILES,
    "description": "Images, sounds and files beside the text.",
}

_LIMIT: Json = {"type": "integer", "minimum": 1}

# Runs and threads -----------------------------------------------------------------

_START = object_form(
    "A run to start.",
    {
        "run_id": described(
            RUN_ID,
            "The run's id. A repeated start of the same id and input starts one run.",
        ),
        "input": _SOME_TEXT,
    },
    {
        "files": _FILES,
        "agent": described(TEXT, "The root agent, if there are several."),
        "work": described(
            BOOLEAN,
            "False: only store the run. A resume or a sweep works on it. By "
            "default true.",
        ),
        "labels": described(LABELS, "Names and values by which the run is found."),
        "title": described(TEXT, "The subject of the run, on one line."),
        "budget": object_form(
            "Limits for the model usage of the whole run.",
            {},
            {
                "requests": described(_LIMIT, "Model requests."),
                "tokens": described(_LIMIT, "Input and output tokens together."),
                "cost": described(
                    TEXT, "A decimal number such as `2.50`; the server needs prices."
                ),
                "currency": described(TEXT, "By default the currency of the prices."),
            },
        ),
        "settings": described(
            OBJECT,
            "Model settings of the run. They win over those of the agents. They are "
            "stored with the run.",
        ),
    },
)
_RESUME = object_form(
    "The body of a request to resume a run; it may be left out.",
    {},
    {
        "reopen": described(
            BOOLEAN,
            "Whether the server asks again about approved calls whose tool its code "
            "lacks. By default false: the run is left to other processes.",
        )
    },
)
_CANCEL = object_form(
    "A run to cancel, or one of its calls.",
    {},
    {
        "reason": REASON,
        "call": described(
            TEXT,
            "Id of an open call, or its path such as boss/hr/transfer. By default, the "
            "whole run is cancelled.",
        ),
    },
)
_MESSAGE_ID: Json = {
    "type": "string",
    "minLength": 1,
    "description": "The client's id of the message. A repeated request posts nothing, "
    "and has the same number.",
}
_MESSAGE = object_form(
    "A message to a thread.",
    {"text": _SOME_TEXT},
    {
        "id": _MESSAGE_ID,
        "files": _FILES,
        "when_busy": {
            "enum": sorted(WHEN_BUSY),
            "description": "The effect while an earlier message is answered. By "
            "default `queue`.",
        },
        "wait": described(BOOLEAN, "False: only post the message. By default true."),
    },
)
_REWIND = object_form(
    "The version to go on from.",
    {"version": {**_VERSION, "maximum": 9_999_999_999}},
    {
        "shown": described(
            TEXT,
            "The `digest` of the plan that a person saw: a run that moved on since "
            "then, or for which something was decided, is not rewound.",
        )
    },
)


def run_requests() -> dict[str, Json]:
    """Return the schemas of requests about runs and threads by name."""
    reason: Json = {"reason": REASON}
    return {
        "run_message_request": object_form(
            "A message to a run.",
            {"text": _SOME_TEXT},
            {"id": _MESSAGE_ID, "files": _FILES},
        ),
        "message_request": _MESSAGE,
        "stop_request": object_form("A turn to stop.", {}, reason),
        "close_request": object_form("A thread to close.", {}),
        "start_request": _START,
        "cancel_request": _CANCEL,
        "pause_request": object_form("A run to pause.", {}, reason),
        "revoke_request": object_form("A grant to revoke.", {}, reason),
        "unpause_request": object_form("A run to unpause.", {}),
        "resume_request": _RESUME,
        "wake_request": object_form("No fields.", {}),
        "rewind_request": _REWIND,
        "file": _FILE,
    }


def fork_request(decisions: Json) -> Json:
    """Return the schema of a fork; `decisions` is that of a list of decisions."""
    message: Json = {"oneOf": [_SOME_TEXT, array(OBJECT)]}
    own = {key: decisions[key] for key in ("type", "maxItems", "items")}
    return object_form(
        "A fork of a run.",
        {},
        {
            "version": described(
                _VERSION, "The version to go on from; by default the newest."
            ),
            "run_id": RUN_ID,
            "decisions": described(own, "Decisions of open waits of the version."),
            "results": described(
                OBJECT, "Results by the ids of open calls; their tools do not run."
            ),
            "messages": {
                "type": "object",
                "additionalProperties": message,
                "description": "By the ids of frames: a text that is added, or a list "
                "of messages that replaces the transcript.",
            },
        },
    )


# Signals, events and jobs ---------------------------------------------------------

EVENT_NAME: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "pattern": r"\S",
    "description": "The name of the event that a wait has.",
}
_DATA = described(ANY, "The data of the event; by default null.")


def event_requests() -> dict[str, Json]:
    """Return the schemas of signals and events by name."""
    return {
        "signal_request": object_form(
            "A signal to a run.",
            {"run_id": RUN_ID, "name": EVENT_NAME},
            {
                "data": _DATA,
                "id": described(
                    _SOME_TEXT,
                    "The client's id of the signal. A repeated request with the same "
                    "id, name and data sends one signal.",
                ),
            },
        ),
        "drop_signals_request": object_form(
            "The signals of a run to drop.",
            {},
            {
                "name": described(EVENT_NAME, "By default, all signals are dropped."),
                "reason": REASON,
            },
        ),
        "event_request": object_form(
            "An event for all runs that wait for its name and key.",
            {"name": EVENT_NAME},
            {
                "key": {
                    **_SOME_TEXT,
                    "pattern": r"\S",
                    "description": "The key of the event; by default no key.",
                },
                "data": _DATA,
                "id": described(
                    _SOME_TEXT,
                    "The client's id of the event. A repeated request with the same "
                    "id, name, key and data publishes one event.",
                ),
            },
        ),
    }


def job_requests() -> dict[str, Json]:
    """Return the schemas of what the system of a job sends, by name."""
    result = {"value": described(ANY, "The result of the job.")}
    error = {"error": described(TEXT, "Why the job failed. The agent gets this text.")}
    return {
        "job_result": {
            "description": "The result of a job of another system, or its error.",
            "oneOf": [
                object_form("The job succeeded.", result),
                object_form("The job failed.", error),
            ],
        },
        "heartbeat": object_form(
            "A job is in progress.",
            {
                "extend": {
                    "type": "number",
                    "exclusiveMinimum": 0,
                    "maximum": 3650 * 86_400,
                    "description": "Seconds from now to the new deadline.",
                }
            },
        ),
    }


# Decisions ------------------------------------------------------------------------

GRANT_ARGUMENTS = "The JSON Schema that the arguments of a covered call match."
_GRANT = object_form(
    "A grant to give with an approval, for later calls in the run.",
    {"tool": described(TEXT, "The tool of the approved call.")},
    {
        "arguments": described(OBJECT, GRANT_ARGUMENTS),
        "until": {
            "type": "string",
            "format": "date-time",
            "description": "The time after which the grant covers nothing.",
        },
    },
)
_SHOWN: Json = described(
    TEXT,
    "The digest of the wait that the person saw. If the wait has another digest, "
    "nothing is recorded.",
)


def decision_requests() -> dict[str, Json]:
    """Return the schemas of verdicts, of several at once, and of a fork by name."""
    verdicts = [
        _verdict(
            "approve",
            {},
            {"arguments": OBJECT, "form": OBJECT, "remember": ref("grant")},
        ),
        _verdict("deny", {}),
        _verdict("answer", {"value": ANY}),
        _verdict("fail", {"error": REASON}),
    ]
    items = [
        {
            **each,
            "properties": {"wait_id": TEXT, **each["properties"]},
            "required": ["wait_id", *each["required"]],
        }
        for each in verdicts
    ]
    decisions: Json = {
        "type": "array",
        "minItems": 1,
        "maxItems": 100,
        "items": {"oneOf": items},
    }
    return {
        "grant": _GRANT,
        "verdict": {
            "description": "A decision to record. The verified identity of the request "
            "decides; the body never names the decider.",
            "oneOf": verdicts,
        },
        "decision_batch": object_form(
            "Several decisions to record.", {"decisions": decisions}
        ),
        "fork_request": fork_request(decisions),
    }


def _verdict(kind: str, required: Json, optional: Json | None = None) -> Json:
    return object_form(
        f'A decision of kind "{kind}".',
        {"decision": {"const": kind}, **required},
        {"shown": _SHOWN, "reason": REASON, **(optional or {})},
    )
