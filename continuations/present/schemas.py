"""The JSON Schema of every JSON form; run this module to print it.

    python -m continuations.present.schemas > docs/schemas/continuations.schema.json

The OpenAPI document contains the same definitions. They are written in Python because
their enums and limits come from the code that they describe.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from continuations.core.calls import STATE_TYPES
from continuations.core.decisions import DECISION_KINDS
from continuations.core.run import RUN_STATUSES
from continuations.core.usage import Usage
from continuations.core.waits import WAIT_KINDS
from continuations.present.json_forms import MAX_TEXT_CHARS
from continuations.present.problems import TYPE_PREFIX

_Json = dict[str, Any]

RUN_ID_PATTERN: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
# A wait id contains a ULID. The pattern accepts the ULIDs of the next 250 years.
WAIT_ID_PATTERN: Final = (
    f"({'|'.join(sorted(WAIT_KINDS))})-0[0-8][0-9a-hjkmnp-tv-z]{{24}}@{RUN_ID_PATTERN}"
)

_TEXT: _Json = {"type": "string"}
_TEXT_OR_NULL: _Json = {"type": ["string", "null"]}
_TIME: _Json = {"type": "string", "format": "date-time", "pattern": "Z$"}
_TIME_OR_NULL: _Json = {**_TIME, "type": ["string", "null"]}
_COUNT: _Json = {"type": "integer", "minimum": 0}
_BOOLEAN: _Json = {"type": "boolean"}
_OBJECT: _Json = {"type": "object"}
_REASON: _Json = {**_TEXT, "maxLength": MAX_TEXT_CHARS}


def _ref(name: str) -> _Json:
    return {"$ref": f"#/$defs/{name}"}


def _array(items: _Json) -> _Json:
    return {"type": "array", "items": items}


def _enum(values: frozenset[str] | dict[str, Any]) -> _Json:
    return {"enum": sorted(values)}


def _described(schema: _Json, description: str) -> _Json:
    return {**schema, "description": description}


def _object(description: str, required: _Json, optional: _Json | None = None) -> _Json:
    return {
        "type": "object",
        "description": description,
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


# Waits and decisions ------------------------------------------------------------

_WAIT_NOTICE: _Json = {
    "id": _TEXT,
    "run_id": _TEXT,
    "kind": _enum(WAIT_KINDS),
    "path": _described(_array(_TEXT), "The agents from the root agent to the tool."),
    "tool": _TEXT,
    "created_at": _TIME,
    "deadline": _TIME_OR_NULL,
}
_ARGUMENTS: _Json = _described(
    _OBJECT, "The effective arguments. If approved, the call runs with exactly these."
)
_WAIT: _Json = {
    **_WAIT_NOTICE,
    "call_id": _TEXT,
    "arguments": _ARGUMENTS,
    "schema": _described(_OBJECT, "The JSON Schema of the arguments."),
    "digest": _described(_TEXT, "The digest that a decision is bound to."),
    "valid_for": {
        "type": ["integer", "null"],
        "description": "How many seconds after an approval the call may start.",
    },
    "policy": _TEXT_OR_NULL,
    "denial_stops": _described(_BOOLEAN, "A denial stops the run."),
    "expiry_stops": _described(_BOOLEAN, "The end of the deadline stops the run."),
    "note": _TEXT_OR_NULL,
    "approve_after": _described(
        _TIME_OR_NULL, "Before this time, an approval of an unknown outcome is refused."
    ),
    "question": _described(_TEXT_OR_NULL, "The question, or the name of a job."),
    "answer_schema": {
        "type": ["object", "null"],
        "description": "The JSON Schema of the value of an answer; null: any value.",
    },
    "event": _described(_TEXT_OR_NULL, "The name of the event."),
    "event_key": _described(_TEXT_OR_NULL, "The key of the event."),
    "stage": _described(_COUNT, "1 if the tool's on_answer function was called."),
    "on_deadline": {
        "type": ["object", "null"],
        "description": "What the deadline does: an answer, a denial or a failure.",
    },
}
_WAIT_STATE: _Json = _described(
    {"enum": ["open", "expired"]},
    "The state at the time of the report; absent in a `continuation`.",
)
_DECISION: _Json = {
    "id": _TEXT,
    "wait_id": _TEXT,
    "kind": _enum(DECISION_KINDS),
    "at": _TIME,
    "by": _TEXT_OR_NULL,
    "reason": _TEXT_OR_NULL,
    "digest": _described(_TEXT, "The digest of the wait that was decided."),
}


def _verdict(kind: str, required: _Json, optional: _Json | None = None) -> _Json:
    return _object(
        f'A decision of kind "{kind}".',
        {"decision": {"const": kind}, **required},
        optional,
    )


def _wait_definitions() -> _Json:
    return {
        "wait": _object("An open wait.", _WAIT, {"state": _WAIT_STATE}),
        "wait_summary": _object(
            "A wait in the list of open waits.",
            {
                "id": _TEXT,
                "run_id": _TEXT,
                "kind": _TEXT,
                "created_at": _TIME,
                "state": _WAIT_STATE,
            },
        ),
        "wait_notice": _object(
            "The part of a wait that a notification contains.",
            _WAIT_NOTICE,
            {"arguments": _ARGUMENTS},
        ),
        "wait_page": _object(
            "One page of the list of open waits.",
            {
                "waits": _array(_ref("wait_summary")),
                "next": _described(
                    _TEXT_OR_NULL, "The `after` of the next page, or null."
                ),
            },
        ),
        "wait_opened_event": _object(
            "The body of a webhook.",
            {
                "type": {"const": "wait.opened"},
                "timestamp": _TIME,
                "data": _object(
                    "The wait, and the signed link to decide it.",
                    {"wait": _ref("wait_notice"), "link": _TEXT_OR_NULL},
                ),
            },
        ),
    }


def _decision_definitions() -> _Json:
    return {
        "decision": _object(
            "The one recorded decision of a wait.",
            _DECISION,
            {
                "arguments": _described(_OBJECT, "The edited arguments."),
                "value": {"description": "The value of an answer."},
            },
        ),
        "recorded_decision": _object(
            "The response to a decision.",
            {
                "decision": _ref("decision"),
                "woken": _described(
                    _BOOLEAN,
                    "The run is resumed now. If false, the next sweep resumes it.",
                ),
            },
        ),
        "verdict": {
            "description": "A decision to record. The verified identity of the request "
            "decides; the body never names the decider.",
            "oneOf": [
                _verdict("approve", {}, {"arguments": _OBJECT}),
                _verdict("deny", {}, {"reason": _REASON}),
                _verdict("answer", {"value": {}}),
                _verdict("fail", {"error": _REASON}),
            ],
        },
    }


# Runs ---------------------------------------------------------------------------

_RUN: _Json = {
    "run_id": _TEXT,
    "agent": _described(_TEXT, "The name of the root agent."),
    "version": _COUNT,
    "status": _enum(RUN_STATUSES),
    "created_at": _TIME,
    "claimed_until": _described(
        _TIME_OR_NULL, "The end of the claim of the worker that advances the run."
    ),
    "output": _described(_TEXT_OR_NULL, "The text of a finished run."),
    "failure": {
        "oneOf": [
            {"type": "null"},
            _object("Why the run failed.", {"code": _TEXT, "message": _TEXT}),
        ]
    },
    "usage": _object(
        "The cost of all model replies of the run.",
        dict.fromkeys(Usage.__dataclass_fields__, _COUNT),
    ),
    "waits": _described(_array(_ref("wait")), "The waits without a decision."),
}
_DECIDED: _Json = {
    "decided": _described(
        _array(_TEXT), "The ids of decided waits. The next resume applies them."
    )
}
_STACK: _Json = {"frames": _array(_ref("frame")), "calls": _array(_ref("call"))}
_ANY_JSON: _Json = {}


def _run_definitions() -> _Json:
    return {
        "run": _object("A run.", {**_RUN, **_DECIDED}, _STACK),
        "outcome": _object(
            "The run after a start or resume.",
            {
                **_RUN,
                **_DECIDED,
                "paused": _described(
                    _BOOLEAN, "The time was up; resume the run at any time."
                ),
                "code_changes": _array(_ref("code_change")),
            },
        ),
        "continuation": _object(
            "The report of `Continuation.to_json`.",
            {"format": _COUNT, **_RUN, **_STACK},
        ),
    }


def _stack_definitions() -> _Json:
    return {
        "frame": _object(
            "One agent's activation.",
            {
                "id": _TEXT,
                "agent": _TEXT,
                "parent_call_id": _described(
                    _TEXT_OR_NULL, "The call that this frame answers."
                ),
                "turns": _described(_COUNT, "How often the model was called."),
                "messages": _described(
                    _array(_OBJECT), "A chat completions messages array."
                ),
                "open_call_ids": _array(_TEXT),
            },
        ),
        "call": _object(
            "One tool call.",
            {
                "id": _TEXT,
                "frame_id": _TEXT,
                "tool": _TEXT,
                "tool_call_id": _described(_TEXT, "The id that the provider gave."),
                "raw_arguments": _described(_TEXT, "The text that the model wrote."),
                "arguments": _described(_ANY_JSON, "The effective arguments, or null."),
                "original_arguments": _described(
                    _ANY_JSON, "The effective arguments before an edit, or null."
                ),
                "state": _enum(STATE_TYPES),
            },
        ),
    }


def _report_definitions() -> _Json:
    return {
        "code_change": _object(
            "A difference between the code that began a run and the running code.",
            {
                "kind": {"enum": ["compatible", "incompatible", "missing"]},
                "where": _TEXT,
                "what": _TEXT,
            },
        ),
        "sweep_result": _object(
            "The result of a sweep.",
            {
                "runs_checked": _COUNT,
                "resumed": _array(
                    _object("A resumed run.", {"run_id": _TEXT, "status": _TEXT})
                ),
                "failed": {
                    "type": "object",
                    "additionalProperties": _TEXT,
                    "description": "The runs that could not go on: by run id, the last "
                    "part of the problem's `type`.",
                },
                "skipped": {
                    "type": "array",
                    "items": _TEXT,
                    "description": "The ids of due runs that only other processes can "
                    "work on.",
                },
            },
        ),
    }


def _request_definitions() -> _Json:
    return {
        "start_request": _object(
            "A run to start.",
            {
                "run_id": {
                    "type": "string",
                    "pattern": f"^{RUN_ID_PATTERN}$",
                    "description": "The run's id. A repeated start of the same id and "
                    "input starts one run.",
                },
                "input": {"type": "string", "minLength": 1},
            },
            {
                "agent": _described(_TEXT, "The root agent, if there are several."),
                "work": _described(
                    _BOOLEAN,
                    "False: only store the run. A resume or a sweep works on it. By "
                    "default true.",
                ),
            },
        ),
        "cancel_request": _object("A run to cancel.", {}, {"reason": _REASON}),
        "sent_message": _object(
            "A message was sent to a run.",
            {"run_id": _TEXT, "number": _described(_COUNT, "Its number, from 1.")},
        ),
        "wake_response": _object(
            "The run was given to the dispatcher.",
            {"run_id": _TEXT, "woken": {"const": True}},
        ),
    }


_PROBLEM: _Json = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "properties": {
        "type": {"type": "string", "pattern": f"^{TYPE_PREFIX}[a-z-]+$"},
        "title": _TEXT,
        "status": {"type": "integer"},
        "detail": _TEXT,
        "run_id": _TEXT,
        "wait_id": _TEXT,
        "until": _described(_TIME, "The end of the claim that blocks the request."),
        "error_id": _described(_TEXT, "The id of the error in the server's log."),
        "decision": _described(_ref("decision"), "The recorded decision."),
    },
    "required": ["type", "title", "status"],
}


def definitions() -> dict[str, Any]:
    """Return all definitions by name; references start with `#/$defs/`."""
    return {
        **_wait_definitions(),
        **_decision_definitions(),
        **_run_definitions(),
        **_stack_definitions(),
        **_report_definitions(),
        **_request_definitions(),
        "problem": _PROBLEM,
        "health": _object("The process answers.", {"status": {"const": "ok"}}),
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
