"""The JSON Schemas of the audit and the grants of a run."""

from __future__ import annotations

from continuations.present.schema_parts import (
    BOOLEAN,
    COUNT,
    TEXT,
    TEXT_OR_NULL,
    TIME,
    TIME_OR_NULL,
    Json,
    array,
    described,
    object_form,
    ref,
)

_IDENTITY: Json = {
    "description": "The person or program that acted, if a door or the "
    "application established it; else null.",
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
    "kind": described(
        TEXT, 'The kind of the wait, or "signal", "run", "call" or "grant".'
    ),
    "verdict": TEXT,
    "by": described(TEXT_OR_NULL, "The recorded name."),
    "identity": _IDENTITY,
    "door": described(TEXT_OR_NULL, 'The door, such as "http" or "link".'),
    "digest": described(TEXT_OR_NULL, "The digest of the decided wait."),
    "shown": described(TEXT_OR_NULL, "The digest that the decider saw."),
    "reason": TEXT_OR_NULL,
    "rule": described(TEXT_OR_NULL, "The rule that decided instead of a person."),
}


_GRANT_ARGUMENTS: Json = {
    "description": "The JSON Schema that the arguments of a covered call match."
}
_KEPT_GRANT: Json = {
    "id": TEXT,
    "tool": TEXT,
    "path": described(array(TEXT), "From the root agent down to the tool."),
    "arguments": {**_GRANT_ARGUMENTS, "type": ["object", "null"]},
    "until": TIME_OR_NULL,
    "by": TEXT_OR_NULL,
    "at": TIME,
    "wait_id": described(TEXT, "The wait whose decision gave the grant."),
    "revoked": described(
        BOOLEAN, "The grant is revoked, and no worker has taken that in yet."
    ),
}


def grant_definitions() -> Json:
    """Return the schemas of grants by name."""
    return {
        "grant": object_form(
            "A grant to give with an approval, for later calls in the run.",
            {"tool": described(TEXT, "The tool of the approved call.")},
            {
                "arguments": {**_GRANT_ARGUMENTS, "type": "object"},
                "until": {
                    "type": "string",
                    "format": "date-time",
                    "description": "The time after which the grant covers nothing.",
                },
            },
        ),
        "kept_grant": object_form("A grant that a run keeps.", _KEPT_GRANT),
        "grant_list": object_form(
            "The grants of a run.",
            {"run_id": TEXT, "grants": array(ref("kept_grant"))},
        ),
        "revoked_grant": object_form(
            "A grant was revoked.",
            {"run_id": TEXT, "grant": TEXT, "revoked": {"const": True}},
        ),
    }


def batch_definitions(verdict: Json) -> Json:
    """Return the schemas of several decisions at once; each is a verdict of a wait."""
    items = [
        {
            **each,
            "properties": {"wait_id": TEXT, **each["properties"]},
            "required": ["wait_id", *each["required"]],
        }
        for each in verdict["oneOf"]
    ]
    return {
        "decision_batch": object_form(
            "Several decisions to record.",
            {
                "decisions": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 100,
                    "items": {"oneOf": items},
                }
            },
        ),
        "recorded_request": object_form(
            "The request is recorded. The sender may not view the run.",
            {"recorded": {"const": True}},
            {
                "run_id": TEXT,
                "number": described(COUNT, "The number of the message."),
            },
        ),
        "decision_results": object_form(
            "The results of several decisions, in their order.",
            {
                "results": array(
                    object_form(
                        "The decision, the vote, or the problem of one wait.",
                        {"wait_id": TEXT},
                        {
                            "decision": ref("decision"),
                            "vote": ref("vote"),
                            "woken": BOOLEAN,
                            "recorded": described(
                                {"const": True},
                                "Instead of the decision or vote, for a sender who may "
                                "not view the run.",
                            ),
                            "problem": ref("problem"),
                        },
                    )
                )
            },
        ),
    }


def audit_definitions() -> Json:
    """Return the schemas of the audit by name."""
    return {
        "audit_line": object_form("One recorded act on a run.", _LINE),
        "audit": object_form(
            "The recorded acts on a run.",
            {"run_id": TEXT, "lines": array(ref("audit_line"))},
        ),
    }
