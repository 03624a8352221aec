"""The form of a link page in the OpenAPI document.

Every other body is JSON and in the schema file.
"""

from __future__ import annotations

from typing import Any

from continuations.present.json_forms import MAX_TEXT_CHARS

_Json = dict[str, Any]

_TEXT: _Json = {"type": "string"}
_FORM: _Json = {
    **_TEXT,
    "maxLength": MAX_TEXT_CHARS,
    "description": "The form of the approval, as a JSON object.",
}
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


LINK_FORM: _Json = {
    "oneOf": [
        _form_body("approve", form=_FORM),
        _form_body("deny"),
        _form_body(
            "answer",
            value={**_TEXT, "maxLength": MAX_TEXT_CHARS},
            **{"as": {"const": "json", "description": "The value is JSON."}},
        ),
        _form_body("fail", error={**_TEXT, "maxLength": MAX_TEXT_CHARS}),
    ]
}
