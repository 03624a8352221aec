"""The form of a link page in the OpenAPI document.

Every other body is JSON and in the schema file.
"""

from __future__ import annotations

from typing import Any

from continuations.present.json_forms import MAX_TEXT_CHARS

_Json = dict[str, Any]

_TEXT: _Json = {"type": "string"}
_REQUIRED_FIELDS = {"answer": ["value"], "fail": ["error"]}


def _form_body(kind: str, **fields: _Json) -> _Json:
    shown = {**_TEXT, "description": "The digest of the wait that the page showed."}
    properties: _Json = {
        "decision": {"const": kind},
        "shown": shown,
        "reason": {**_TEXT, "maxLength": MAX_TEXT_CHARS},
        **fields,
    }
    return {
        "type": "object",
        "properties": properties,
        "required": ["decision", "shown", *_REQUIRED_FIELDS.get(kind, [])],
        "additionalProperties": False,
    }


def _typed_body(kind: str) -> _Json:
    """Return the body of an answer, or of an approval with a form, in typed fields."""
    return {
        **_form_body(kind, **{"as": {"const": "fields"}}),
        "required": ["decision", "shown", "as"],
        "patternProperties": {
            "^value:(object|(text|number|json)[?]?):": {
                **_TEXT,
                "maxLength": MAX_TEXT_CHARS,
                "description": "A part of the value; the name ends with its place.",
            }
        },
    }


LINK_FORM: _Json = {
    "oneOf": [
        _form_body("approve"),
        _typed_body("approve"),
        _form_body("deny"),
        _form_body(
            "answer",
            value={**_TEXT, "maxLength": MAX_TEXT_CHARS},
            **{"as": {"const": "json", "description": "The value is JSON."}},
        ),
        _typed_body("answer"),
        _form_body("fail", error={**_TEXT, "maxLength": MAX_TEXT_CHARS}),
    ]
}
