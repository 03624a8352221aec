"""The JSON Schema of every JSON form; run this module to print it.

    python -m continuations.present.schemas > docs/schemas/continuations.schema.json

The OpenAPI document contains the same definitions. They are written in Python because
their enums and limits come from the code that they describe.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from continuations.core.calls import STATE_TYPES
from continuations.core.run import RUN_STATUSES
from continuations.present import audit_schemas, event_schemas, wait_schemas
from continuations.present.drift_forms import drift_definitions
from continuations.present.file_forms import file_definitions
from continuations.present.past_schemas import past_definitions
from continuations.present.problems import TYPE_PREFIX
from continuations.present.run_schemas import (
    DESCRIPTION,
    START_REQUEST,
    UNREAD,
    USAGE,
    index_definitions,
)
from continuations.present.schema_parts import (
    BOOLEAN,
    COUNT,
    FRAME_OPTIONS,
    OBJECT,
    REASON,
    RUN_ID_PATTERN,
    STATE,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    Json,
    array,
    described,
    enum,
    object_form,
    ref,
)
from continuations.present.thread_schemas import thread_definitions

# Runs ---------------------------------------------------------------------------

_RUN: Json = {
    "run_id": TEXT,
    "agent": described(TEXT, "The name of the root agent."),
    **DESCRIPTION,
    "thread": described(TEXT_OR_NULL, "The key of the thread; null for a run."),
    "forked_from": described(
        TEXT_OR_NULL, "The run and version, as `jane-1@4`, that this run is a fork of."
    ),
    "version": COUNT,
    "status": enum(RUN_STATUSES),
    "created_at": TIME,
    "claimed_until": described(
        TIME_OR_NULL, "The end of the claim of the worker that advances the run."
    ),
    "output": described(TEXT_OR_NULL, "The text of a finished run."),
    "failure": {
        "oneOf": [
            {"type": "null"},
            object_form("Why the run failed.", {"code": TEXT, "message": TEXT}),
        ]
    },
    "usage": object_form(
        "The cost of all model replies of the run.",
        USAGE,
    ),
    "waits": described(array(ref("wait")), "The waits without a decision."),
}
_DECIDED: Json = {
    "decided": described(
        array(TEXT), "The ids of decided waits. The next resume applies them."
    ),
    "reasons": described(
        array(TEXT),
        "The reasons why an operator holds the run until `unpause`: the reason of a "
        "pause, and the names of conditions of agents.",
    ),
}
_STACK: Json = {"frames": array(ref("frame")), "calls": array(ref("call"))}
_ANY_JSON: Json = {}


def _run_definitions() -> Json:
    return {
        "run": object_form(
            "A run.",
            {**_RUN, **_DECIDED},
            {**_STACK, "state": STATE, "unread": UNREAD},
        ),
        "outcome": object_form(
            "The run after a start or resume.",
            {
                **_RUN,
                **_DECIDED,
                "paused": described(
                    BOOLEAN, "The time was up; resume the run at any time."
                ),
                "code_changes": array(ref("code_change")),
            },
            {"state": STATE},
        ),
        "continuation": object_form(
            "The report of `Continuation.to_json`.",
            {"format": COUNT, **_RUN, **_STACK},
        ),
    }


def _stack_definitions() -> Json:
    return {
        "frame": object_form(
            "One agent's activation.",
            {
                "id": TEXT,
                "agent": TEXT,
                "parent_call_id": described(
                    TEXT_OR_NULL, "The call that this frame answers."
                ),
                "turns": described(COUNT, "How often the model was called."),
                "messages": described(array(OBJECT), "Chat completions messages."),
                "open_call_ids": array(TEXT),
            },
            FRAME_OPTIONS,
        ),
        "call": object_form(
            "One tool call.",
            {
                "id": TEXT,
                "frame_id": TEXT,
                "tool": TEXT,
                "tool_call_id": described(TEXT, "The id that the provider gave."),
                "raw_arguments": described(TEXT, "The text that the model wrote."),
                "arguments": described(_ANY_JSON, "The effective arguments, or null."),
                "original_arguments": described(
                    _ANY_JSON, "The effective arguments before an edit, or null."
                ),
                "state": enum(STATE_TYPES),
            },
        ),
    }


def _report_definitions() -> Json:
    return {
        "code_change": object_form(
            "A difference between the code that began a run and the running code.",
            {
                "kind": {"enum": ["compatible", "incompatible", "missing"]},
                "where": TEXT,
                "what": TEXT,
            },
        ),
        "sweep_result": object_form(
            "The result of a sweep.",
            {
                "runs_checked": COUNT,
                "resumed": array(
                    object_form("A resumed run.", {"run_id": TEXT, "status": TEXT})
                ),
                "failed": {
                    "type": "object",
                    "additionalProperties": TEXT,
                    "description": "The runs that could not go on: by run id, the last "
                    "part of the problem's `type`.",
                },
                "skipped": {
                    "type": "array",
                    "items": TEXT,
                    "description": "The ids of due runs that only other processes can "
                    "work on.",
                },
            },
        ),
    }


def _request_definitions() -> Json:
    return {
        "start_request": START_REQUEST,
        "cancel_request": object_form(
            "A run to cancel, or one of its calls.",
            {},
            {
                "reason": REASON,
                "call": described(
                    TEXT,
                    "Id of an open call, or its path such as boss/hr/transfer. By "
                    "default, the whole run is cancelled.",
                ),
            },
        ),
        "pause_request": object_form("A run to pause.", {}, {"reason": REASON}),
        "revoke_request": object_form("A grant to revoke.", {}, {"reason": REASON}),
        "unpause_request": object_form("A run to unpause.", {}, {}),
        "wake_response": object_form(
            "The run was given to the dispatcher.",
            {"run_id": TEXT, "woken": {"const": True}},
        ),
    }


_EVENT_NAME: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "pattern": r"\S",
    "description": "The name of the event that a wait has.",
}


def _signal_definitions() -> Json:
    return {
        "signal_request": object_form(
            "A signal to a run.",
            {
                "run_id": {"type": "string", "pattern": f"^{RUN_ID_PATTERN}$"},
                "name": _EVENT_NAME,
            },
            {
                "data": described(_ANY_JSON, "The data of the event; by default null."),
                "id": described(
                    {**TEXT, "minLength": 1},
                    "The client's id of the signal. A repeated request with the same "
                    "id, name and data sends one signal.",
                ),
            },
        ),
        "resume_request": object_form(
            "The body of a request to resume a run; it may be left out.",
            {},
            {
                "reopen": described(
                    {"type": "boolean"},
                    "Whether the server asks again about approved calls whose tool its "
                    "code lacks. By default false: the run is left to other processes.",
                )
            },
        ),
        **_untaken_signal_definitions(),
        "wake_request": object_form("No fields.", {}),
        "woken_waits": object_form(
            "The waits of a run for its models have ended.",
            {
                "run_id": TEXT,
                "waits": described(
                    COUNT, "How many ended, now or by an earlier request."
                ),
            },
            {"woken": described(BOOLEAN, "HTTP: whether a worker was told at once.")},
        ),
        "sent_signal": object_form(
            "A signal was sent to a run.",
            {
                "run_id": TEXT,
                "number": described(COUNT, "Its number, from 1."),
            },
            {"woken": described(BOOLEAN, "HTTP: whether a worker was told at once.")},
        ),
        **_event_definitions(),
    }


def _untaken_signal_definitions() -> Json:
    return {
        "untaken_signal": object_form(
            "A signal that no wait of the run has taken.",
            {
                "number": described(COUNT, "Its number in the run, from 1."),
                "name": _EVENT_NAME,
                "at": TIME,
                "by": TEXT_OR_NULL,
            },
            {"data": described(_ANY_JSON, "Left out without the right to read.")},
        ),
        "signal_list": object_form(
            "The signals that no wait of the run has taken.",
            {"run_id": TEXT, "signals": array(ref("untaken_signal"))},
        ),
        "drop_signals_request": object_form(
            "The signals of a run to drop.",
            {},
            {
                "name": described(_EVENT_NAME, "By default, all signals are dropped."),
                "reason": REASON,
            },
        ),
        "dropped_signals": object_form(
            "Signals were dropped.",
            {"run_id": TEXT, "dropped": described(COUNT, "How many.")},
        ),
    }


def _event_definitions() -> Json:
    runs: Json = {"type": "array", "items": TEXT}
    return {
        "event_request": object_form(
            "An event for all runs that wait for its name and key.",
            {"name": _EVENT_NAME},
            {
                "key": {
                    "type": "string",
                    "minLength": 1,
                    "pattern": r"\S",
                    "description": "The key of the event; by default no key.",
                },
                "data": described(_ANY_JSON, "The data of the event; by default null."),
                "id": described(
                    {**TEXT, "minLength": 1},
                    "The client's id of the event. A repeated request with the same "
                    "id, name, key and data publishes one event.",
                ),
            },
        ),
        "published_event": object_form(
            "An event was published.",
            {
                "id": described(TEXT, "The id of the event."),
                "run_ids": described(runs, "The runs with a wait that it ended."),
            },
            {"woken": described(runs, "HTTP: the runs that a worker was told of.")},
        ),
    }


def _callback_definitions() -> Json:
    result = {"value": described(_ANY_JSON, "The result of the job.")}
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
        "extended_job": object_form(
            "The newest deadline of a job.",
            {
                "status": {"const": "extended"},
                "deadline": described(TIME_OR_NULL, "Null: there is no deadline."),
            },
        ),
        "received_webhook": object_form(
            "A message of another system.",
            {
                "status": {"enum": ["recorded", "ignored", "too_late"]},
                "woken": described(BOOLEAN, "Whether a worker was told at once."),
            },
        ),
        "reported_result": object_form(
            "The result of a job is recorded.",
            {
                "status": {"const": "recorded"},
                "woken": described(BOOLEAN, "Whether a worker was told at once."),
            },
        ),
    }


_PROBLEM: Json = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "properties": {
        "type": {"type": "string", "pattern": f"^{TYPE_PREFIX}[a-z-]+$"},
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
        "run_id": TEXT,
        "wait_id": TEXT,
        "until": described(TIME, "The end of the claim that blocks the request."),
        "error_id": described(TEXT, "The id of the error in the server's log."),
        "decision": described(ref("decision"), "The recorded decision."),
    },
    "required": ["type", "title", "status"],
}


def definitions() -> dict[str, Any]:
    """Return all definitions by name; references start with `#/$defs/`."""
    decisions = wait_schemas.decision_definitions()
    return {
        **wait_schemas.wait_definitions(),
        **decisions,
        **audit_schemas.audit_definitions(),
        **event_schemas.event_definitions(),
        **audit_schemas.grant_definitions(),
        **(batch := audit_schemas.batch_definitions(decisions["verdict"])),
        **past_definitions(batch["decision_batch"]["properties"]["decisions"]),
        **_run_definitions(),
        **thread_definitions(_RUN, _RUN["failure"]),
        **_stack_definitions(),
        **_report_definitions(),
        **index_definitions(),
        **drift_definitions(),
        **_request_definitions(),
        **file_definitions(),
        **_signal_definitions(),
        **_callback_definitions(),
        "problem": _PROBLEM,
        "health": object_form("The process answers.", {"status": {"const": "ok"}}),
    }


def document() -> dict[str, Any]:
    """Return the JSON Schema document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:continuations:schema:1",
        "title": "continuations",
        "description": "The JSON forms of runs, waits and decisions, as HTTP, AWS "
        "Lambda, webhooks, the command line and Continuation.to_json show them.",
        "$defs": definitions(),
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=2) + "\n")
