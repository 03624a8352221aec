"""The parts of which the JSON Schemas of the JSON forms are made."""

from __future__ import annotations

from typing import Any, Final

from continuations.core.wait_rules import WAIT_KINDS
from continuations.present.json_forms import MAX_TEXT_CHARS

Json = dict[str, Any]

RUN_ID_PATTERN: Final = "[A-Za-z0-9][A-Za-z0-9._-]{0,199}"
# A wait id contains a ULID. The pattern accepts the ULIDs of the next 250 years.
WAIT_ID_PATTERN: Final = (
    f"({'|'.join(sorted(WAIT_KINDS))})-0[0-8][0-9a-hjkmnp-tv-z]{{24}}@{RUN_ID_PATTERN}"
)

TEXT: Json = {"type": "string"}
TEXT_OR_NULL: Json = {"type": ["string", "null"]}
TIME: Json = {"type": "string", "format": "date-time", "pattern": "Z$"}
TIME_OR_NULL: Json = {**TIME, "type": ["string", "null"]}
COUNT: Json = {"type": "integer", "minimum": 0}
BOOLEAN: Json = {"type": "boolean"}
OBJECT: Json = {"type": "object"}
REASON: Json = {**TEXT, "maxLength": MAX_TEXT_CHARS}


def ref(name: str) -> Json:
    """Return a reference to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def array(items: Json) -> Json:
    """Return the schema of an array."""
    return {"type": "array", "items": items}


def enum(values: frozenset[str] | dict[str, Any]) -> Json:
    """Return the schema of one of some texts."""
    return {"enum": sorted(values)}


def described(schema: Json, description: str) -> Json:
    """Return a schema with a description."""
    return {**schema, "description": description}


def object_form(description: str, required: Json, optional: Json | None = None) -> Json:
    """Return the schema of an object without other fields."""
    return {
        "type": "object",
        "description": description,
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


STATE: Json = described(OBJECT, "The fields of the agent's state that tools changed.")
MODEL_ERROR: Json = described(
    TEXT, "Why its model refused the last request. Resume the run to ask again."
)
# The fields that a frame has only sometimes.
FRAME_OPTIONS: Json = {
    "model_error": MODEL_ERROR,
    "state": STATE,
    "metadata": {
        "type": "object",
        "additionalProperties": OBJECT,
        "description": "Facts about messages by their position, such as which model of "
        "a `Fallback` replied. Providers do not get them.",
    },
}
