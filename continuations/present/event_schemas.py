"""The JSON Schemas of the events of a run."""

from __future__ import annotations

from continuations.core.call_ends import CALL_ENDS
from continuations.core.decisions import DECISION_KINDS
from continuations.core.run import ENDED_STATUSES
from continuations.core.trips import GUARDRAIL_STAGES
from continuations.present.schema_parts import (
    COUNT,
    OBJECT,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    Json,
    array,
    described,
    object_form,
    ref,
)

_FAILURE: Json = {
    "oneOf": [
        {"type": "null"},
        object_form("Why it failed.", {"code": TEXT, "message": TEXT}),
    ]
}
_COMMON: Json = {
    "cursor": described(TEXT, "`after` for the events that follow."),
    "run_id": TEXT,
    "frame": described(TEXT_OR_NULL, "The frame; null for the whole run."),
    "path": described(array(TEXT), "From the root agent down to the agent or tool."),
    "at": TIME,
}
_FRAME: Json = {
    "agent": TEXT,
    "call": described(TEXT_OR_NULL, "The call whose tool is the agent."),
}
_CALL: Json = {"call": TEXT_OR_NULL, "tool": TEXT, "tool_call_id": TEXT}
_END: Json = {"output": TEXT_OR_NULL, "failure": _FAILURE}
_DECISION_KIND: Json = {"enum": [*sorted(DECISION_KINDS), None]}
_CALL_END: Json = {"enum": [*sorted(CALL_ENDS), None]}

# The name of each type, what it says, and its own fields.
_TYPES: tuple[tuple[str, str, Json], ...] = (
    ("RunRepaired", "A repair continued the run from an earlier state.", {}),
    ("RunRewound", "The run goes on from an earlier version.", {"version": COUNT}),
    ("Attempt", "A worker took the claim.", {"worker": TEXT, "number": COUNT}),
    ("FrameStarted", "An agent began.", _FRAME),
    (
        "FrameEnded",
        "An agent ended.",
        {**_FRAME, "output": TEXT_OR_NULL, "end": _CALL_END},
    ),
    ("MessageAdded", "A message was added to a transcript.", {"message": OBJECT}),
    ("StateChanged", "The state of an agent changed.", {"changes": OBJECT}),
    (
        "Compacted",
        "The history of a frame was shortened.",
        {
            "tokens_before": COUNT,
            "tokens_after": COUNT,
            "replaced": described(COUNT, "Messages that a summary replaced."),
            "summary": TEXT_OR_NULL,
        },
    ),
    (
        "CallProposed",
        "A model asked for a call.",
        {**_CALL, "arguments": {"type": ["object", "null"]}},
    ),
    ("CallStarted", "The start of a call was recorded.", {"call": TEXT, "tool": TEXT}),
    (
        "CallEnded",
        "A call ended.",
        {**_CALL, "result": TEXT_OR_NULL, "end": _CALL_END},
    ),
    ("WaitOpened", "A wait was opened.", {"wait": ref("wait")}),
    (
        "WaitDecided",
        "A wait ended.",
        {"wait_id": TEXT, "kind": _DECISION_KIND, "by": TEXT_OR_NULL},
    ),
    (
        "GuardrailTripped",
        "A guardrail tripped.",
        {
            "guardrail": TEXT,
            "stage": {"enum": sorted(GUARDRAIL_STAGES)},
            "reason": TEXT,
        },
    ),
    ("ReplyGiven", "A thread replied.", {"message_number": COUNT, **_END}),
    (
        "RunEnded",
        "The run ended.",
        {"status": {"enum": sorted(ENDED_STATUSES)}, **_END},
    ),
)

_LIVE: Json = {
    "run_id": TEXT,
    "frame": TEXT,
    "path": _COMMON["path"],
    "turn": described(COUNT, "The model's turn in the frame, from 1."),
    "fence": described(
        COUNT, "The version under which the worker began; later ones replace the event."
    ),
    "attempt": described(COUNT, "The attempt under this fence, from 1."),
    "index": described(COUNT, "The place within the attempt, from 0."),
}
_LIVE_TYPES: tuple[tuple[str, str, Json], ...] = (
    ("TextDelta", "A part of a reply that a model is writing.", {"text": TEXT}),
    ("ReasoningDelta", "A part of what a model thinks.", {"text": TEXT}),
    (
        "CallProgress",
        "A tool reported its progress.",
        {"call": TEXT, "tool": TEXT, "value": described({}, "The reported value.")},
    ),
)


def event_definitions() -> Json:
    """Return the schemas of events by name."""
    forms = [
        object_form(text, {"type": {"const": name}, **_COMMON, **fields})
        for name, text, fields in _TYPES
    ]
    live_forms = [
        object_form(text, {"type": {"const": name}, **_LIVE, **fields})
        for name, text, fields in _LIVE_TYPES
    ]
    return {
        "event": {"description": "One event of a run.", "oneOf": forms},
        "live_event": {
            "description": "An event that exists only while a worker runs.",
            "oneOf": live_forms,
        },
        "event_page": object_form(
            "One page of the events of a run.",
            {
                "run_id": TEXT,
                "events": array(ref("event")),
                "next": described(
                    TEXT_OR_NULL, "`after` of the next page; null on the last page."
                ),
            },
        ),
    }
