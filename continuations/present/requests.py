"""The bodies of requests: a schema for each, and the one strict reader of them.

HTTP, AWS Lambda and the command line read a body with `check_fields`, which compares
the names of fields, those that are required, and their types and lengths. The runner
checks the values, with errors of its own. No schema library is loaded: it does not know
the numbers of `jsontext.parse(lossless=True)`, and its messages do not say what to
send. The schemas load no class, so a process that decides reads its body with them too.
"""

from __future__ import annotations

import binascii
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from continuations.core import jsontext
from continuations.core.attachment_parts import MAX_NAME_CHARS
from continuations.core.rows.run import WHEN_BUSY
from continuations.engine.worker_options import is_number
from continuations.errors import InvalidInput
from continuations.present.json_forms import MAX_TEXT_CHARS
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

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from continuations.core.rows.attachments import Content
    from continuations.core.rows.grants import Grant

# A request has at most so many attachments, and so many decisions.
MAX_FILES = 100
MAX_DECISIONS = 100

_SOME_TEXT: Json = {**TEXT, "minLength": 1}
_AT_LEAST_ONE: Json = {"type": "integer", "minimum": 1}


# Decisions ----------------------------------------------------------------------

GRANT_ARGUMENTS = "The JSON Schema that the arguments of a covered call match."
_GRANT: Json = object_form(
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


def _verdict(kind: str, required: Json, optional: Json | None = None) -> Json:
    return object_form(
        f'A decision of kind "{kind}".',
        {"decision": {"const": kind}, **required},
        {"shown": _SHOWN, "reason": REASON, **(optional or {})},
    )


VERDICTS: Final[Mapping[str, Json]] = {
    "approve": _verdict(
        "approve", {}, {"arguments": OBJECT, "form": OBJECT, "remember": ref("grant")}
    ),
    "deny": _verdict("deny", {}),
    "answer": _verdict("answer", {"value": ANY}),
    "fail": _verdict("fail", {"error": REASON}),
}
"""By its kind: the schema of a decision."""
_DECISION_ITEMS: Json = {
    "oneOf": [
        {
            **each,
            "properties": {"wait_id": TEXT, **each["properties"]},
            "required": ["wait_id", *each["required"]],
        }
        for each in VERDICTS.values()
    ]
}
_FORKED_DECISIONS: Json = {
    "type": "array",
    "maxItems": MAX_DECISIONS,
    "items": _DECISION_ITEMS,
}
_FRAME_MESSAGE: Json = {"oneOf": [_SOME_TEXT, array(OBJECT)]}
_FORK: Json = object_form(
    "A fork of a run.",
    {},
    {
        "version": described(
            _AT_LEAST_ONE, "The version to go on from; by default the newest."
        ),
        "run_id": RUN_ID,
        "decisions": described(
            _FORKED_DECISIONS, "Decisions of open waits of the version."
        ),
        "results": described(
            OBJECT, "Results by the ids of open calls; their tools do not run."
        ),
        "messages": {
            "type": "object",
            "additionalProperties": _FRAME_MESSAGE,
            "description": "By the ids of frames: a text that is added, or a list "
            "of messages that replaces the transcript.",
        },
    },
)
DECISION_REQUESTS: Final[Mapping[str, Json]] = {
    "grant": _GRANT,
    "verdict": {
        "description": "A decision to record. The verified identity of the request "
        "decides; the body never names the decider.",
        "oneOf": list(VERDICTS.values()),
    },
    "decision_batch": object_form(
        "Several decisions to record.",
        {
            "decisions": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_DECISIONS,
                "items": _DECISION_ITEMS,
            }
        },
    ),
    "fork_request": _FORK,
}


# Attachments ----------------------------------------------------------------------

_GROUP = "[A-Za-z0-9+/]"
_FILE: Json = object_form(
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


# Runs and threads ---------------------------------------------------------------

_START: Json = object_form(
    "A run to start.",
    {
        "run_id": described(
            RUN_ID,
            "The run's id. A repeated start of the same id and input starts one run.",
        ),
        "input": {
            "type": ["string", "object"],
            "minLength": 1,
            "description": "The task for the agent, or the arguments of a workflow.",
        },
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
                "requests": described(_AT_LEAST_ONE, "Model requests."),
                "tokens": described(_AT_LEAST_ONE, "Input and output tokens together."),
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
        "trace_context": object_form(
            "The W3C trace context of the caller, stored with the run.",
            {"traceparent": described(TEXT, "The header `traceparent`.")},
            {"tracestate": described(TEXT, "The header `tracestate`.")},
        ),
    },
)
_RESUME: Json = object_form(
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
_CANCEL: Json = object_form(
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
_MESSAGE: Json = object_form(
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
_REWIND: Json = object_form(
    "The version to go on from.",
    {"version": {**_AT_LEAST_ONE, "maximum": 9_999_999_999}},
    {
        "shown": described(
            TEXT,
            "The `digest` of the plan that a person saw: a run that moved on since "
            "then, or for which something was decided, is not rewound.",
        )
    },
)
_REASON_ONLY: Json = {"reason": REASON}

RUN_REQUESTS: Final[Mapping[str, Json]] = {
    "run_message_request": object_form(
        "A message to a run.",
        {"text": _SOME_TEXT},
        {"id": _MESSAGE_ID, "files": _FILES},
    ),
    "message_request": _MESSAGE,
    "stop_request": object_form("A turn to stop.", {}, _REASON_ONLY),
    "close_request": object_form("A thread to close.", {}),
    "start_request": _START,
    "cancel_request": _CANCEL,
    "pause_request": object_form("A run to pause.", {}, _REASON_ONLY),
    "revoke_request": object_form("A grant to revoke.", {}, _REASON_ONLY),
    "unpause_request": object_form("A run to unpause.", {}),
    "resume_request": _RESUME,
    "wake_request": object_form("No fields.", {}),
    "rewind_request": _REWIND,
    "file": _FILE,
}


# Signals, events and jobs -------------------------------------------------------

# Python knows more blanks than the expressions of JSON Schema.
_NOT_BLANK = r"[^\s\u001c-\u001f\u0085]"
EVENT_NAME: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "pattern": _NOT_BLANK,
    "description": "The name of the event that a wait has.",
}
_DATA = described(ANY, "The data of the event; by default null.")
_JOB_VALUE: Json = {"value": described(ANY, "The result of the job.")}
_JOB_ERROR: Json = {
    "error": described(TEXT, "Why the job failed. The agent gets this text.")
}
# Both at once: the reader of a body knows no `oneOf`.
JOB_RESULT: Json = object_form("The end of a job.", {}, {**_JOB_VALUE, **_JOB_ERROR})
EVENT_REQUESTS: Final[Mapping[str, Json]] = {
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
                "pattern": _NOT_BLANK,
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
JOB_REQUESTS: Final[Mapping[str, Json]] = {
    "job_result": {
        "description": "The result of a job of another system, or its error.",
        "oneOf": [
            object_form("The job succeeded.", _JOB_VALUE),
            object_form("The job failed.", _JOB_ERROR),
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
REQUESTS: Final[Mapping[str, Json]] = {
    **DECISION_REQUESTS,
    **RUN_REQUESTS,
    **EVENT_REQUESTS,
    **JOB_REQUESTS,
}
"""By its name: the schema of a request, or of a part of one."""


# The reader ---------------------------------------------------------------------

# Only the limit of the whole request applies: these may be long documents.
_DOCUMENTS = frozenset({"input", "message", "text"})
_TYPES: Mapping[str, tuple[Callable[[Any], object], str]] = {
    "string": (lambda value: type(value) is str, "a string"),
    "boolean": (lambda value: type(value) is bool, "true or false"),
    "integer": (lambda value: type(value) is int, "an integer"),
    "number": (is_number, "a number"),
    "object": (lambda value: jsontext.as_object(value) is not None, "an object"),
    "array": (lambda value: jsontext.as_array(value) is not None, "a list"),
}


class FieldsInvalid(ValueError):
    """The fields are not those of the schema; the text names the field."""


def check_fields(
    fields: Mapping[str, Any], schema: Mapping[str, Any], where: str = "The body"
) -> None:
    """Check the fields of an object.

    Args:
        fields: The fields.
        schema: The schema of the object; it lists all properties.
        where: The object, as the beginning of a sentence.

    Raises:
        FieldsInvalid: The fields are others, or a value has another type.
    """
    properties: Mapping[str, Any] = schema["properties"]
    if not fields.keys() <= properties.keys():
        allowed = ", ".join(sorted(properties))
        raise FieldsInvalid(f"{where} has unknown fields. Allowed: {allowed}.")
    missing = [f'"{name}"' for name in schema["required"] if name not in fields]
    if missing:
        raise FieldsInvalid(f"{where} needs {' and '.join(missing)}.")
    for name, value in fields.items():
        _check_value(name, value, properties[name])


def _check_value(name: str, value: Any, schema: Mapping[str, Any]) -> None:
    given = schema.get("type", [])
    types = [given] if isinstance(given, str) else given
    if types and not any(_TYPES[each][0](value) for each in types):
        words = " or ".join(_TYPES[each][1] for each in types)
        raise FieldsInvalid(f'"{name}" must be {words}.')
    choices = schema.get("enum")
    # A list or an object equals no text.
    if choices is not None and value not in list(choices):
        listed = " or ".join(f'"{each}"' for each in choices)
        raise FieldsInvalid(f'"{name}" must be {listed}.')
    if "properties" in schema:
        check_fields(value, schema, f'"{name}"')
    elif types and isinstance(value, str):
        check_text(name, value)


def check_text(name: str, value: str) -> None:
    """Raise `FieldsInvalid` for a text that is too long for the field of its name."""
    if name in _DOCUMENTS:
        if not value:
            raise FieldsInvalid(f'"{name}" must not be empty.')
    elif len(value) > MAX_TEXT_CHARS:
        msg = f'"{name}" has {len(value)} characters; the maximum is {MAX_TEXT_CHARS}.'
        raise FieldsInvalid(msg)


# Values of fields ---------------------------------------------------------------


def parse_grant(value: object) -> Grant:
    """Return the grant of a JSON value (`grant`); raises `FieldsInvalid`."""
    fields = jsontext.as_object(value)
    if fields is None or not fields.keys() <= _GRANT["properties"].keys():
        msg = 'it must be an object with "tool", and perhaps "arguments" and "until"'
        raise FieldsInvalid(msg)
    from continuations.core.rows.grants import Grant  # noqa: PLC0415 - rarely given

    until: Any = fields.get("until")
    tool: Any = fields.get("tool", "")
    try:
        if isinstance(until, str):
            until = datetime.fromisoformat(until)
        return Grant(tool, fields.get("arguments"), until)
    except InvalidInput as error:
        raise FieldsInvalid(str(error).removesuffix(".")) from None
    except ValueError:
        msg = '"until" must be a time with a time zone, such as 2027-01-01T00:00:00Z'
        raise FieldsInvalid(msg) from None


def text_with_files(text: str, files: object) -> Any:
    """Return a text with the attachments of the field `files`, as a list.

    Raises `FieldsInvalid`, and `AttachmentsTooLarge` if no run can have all of them.
    """
    from continuations.core.rows.attachments import check_total  # noqa: PLC0415 - few requests have some

    items = jsontext.as_array(files)
    if items is None or len(items) > MAX_FILES:
        raise FieldsInvalid(f'"files" must be a list of at most {MAX_FILES} objects')
    contents = tuple(_content(item, f"files[{n}]") for n, item in enumerate(items))
    check_total(contents, {})
    return [text, *contents] if contents else text


def _content(item: object, where: str) -> Content:
    from continuations.core.rows.attachments import make_content  # noqa: PLC0415 - likewise

    fields = jsontext.as_object(item) or {}
    if fields.keys() != _FILE["properties"].keys():
        msg = f'"{where}" must be an object with "data", "media_type" and "name"'
        raise FieldsInvalid(msg)
    for name, value in fields.items():
        if type(value) is not str or not value:
            raise FieldsInvalid(f'"{where}.{name}" must be a text that is not empty')
    try:
        data = binascii.a2b_base64(fields["data"], strict_mode=True)
    except ValueError:
        data = b""
    # Python accepts several texts for the same bytes; this library accepts one.
    if not data or binascii.b2a_base64(data, newline=False).decode() != fields["data"]:
        msg = f'"{where}.data" is not base64 with padding and without line ends'
        raise FieldsInvalid(msg)
    try:
        return make_content(data, fields["media_type"], fields["name"])
    except InvalidInput as error:
        raise FieldsInvalid(f'"{where}" is not valid: {error}') from None
