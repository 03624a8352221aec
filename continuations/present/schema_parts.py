"""The parts of JSON Schemas: types, patterns and objects. They load no class."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from continuations.core.rows.wait_rules import WAIT_KINDS
from continuations.present.json_forms import MAX_TEXT_CHARS

Json: TypeAlias = dict[str, Any]

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
OBJECT_OR_NULL: Json = {"type": ["object", "null"]}
ANY: Json = {}
RUN_ID: Json = {**TEXT, "pattern": f"^{RUN_ID_PATTERN}$"}
REASON: Json = {**TEXT, "maxLength": MAX_TEXT_CHARS}
LABELS: Json = {**OBJECT, "additionalProperties": TEXT}


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
