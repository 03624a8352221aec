"""The JSON Schemas of the audit of a run."""

from __future__ import annotations

from continuations.present.schema_parts import (
    TEXT,
    TEXT_OR_NULL,
    TIME,
    Json,
    array,
    described,
    object_form,
    ref,
)

_IDENTITY: Json = {
    "description": "Who acted, if a door established it; else null.",
    "oneOf": [
        {"type": "null"},
        object_form(
            "A person or program that a door or the application identified.",
            {
                "name": TEXT_OR_NULL,
                "groups": array(TEXT),
                "authentication": described(
                    TEXT_OR_NULL, "How the door established the name."
                ),
            },
        ),
    ],
}
_LINE: Json = {
    "at": TIME,
    "run": TEXT,
    "wait": described(TEXT_OR_NULL, "The wait that ended."),
    "kind": described(TEXT, 'The kind of the wait, or "signal" or "run".'),
    "verdict": TEXT,
    "by": described(TEXT_OR_NULL, "The recorded name."),
    "identity": _IDENTITY,
    "door": described(TEXT_OR_NULL, 'The door, such as "http" or "link".'),
    "digest": described(TEXT_OR_NULL, "The digest of the decided wait."),
    "shown": described(TEXT_OR_NULL, "The digest that the decider saw."),
    "reason": TEXT_OR_NULL,
    "rule": described(TEXT_OR_NULL, "The rule that decided instead of a person."),
}


def audit_definitions() -> Json:
    """Return the schemas of the audit by name."""
    return {
        "audit_line": object_form("One recorded act on a run.", _LINE),
        "audit": object_form(
            "What was decided about a run.",
            {"run_id": TEXT, "lines": array(ref("audit_line"))},
        ),
    }
