"""Checks a value against a definition of the published JSON Schema file."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

SCHEMA_FILE = (
    Path(__file__).parents[2] / "docs" / "schemas" / "continuations.schema.json"
)


@cache
def load_schema() -> dict[str, Any]:
    """Return the published document."""
    document: dict[str, Any] = json.loads(SCHEMA_FILE.read_text())
    return document


@cache
def _validator(definition: str) -> jsonschema_rs.Draft202012Validator:
    schema = {"$ref": f"#/$defs/{definition}", "$defs": load_schema()["$defs"]}
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=True)


def assert_matches_schema(definition: str, value: object) -> None:
    """Raise `jsonschema_rs.ValidationError` if a value does not match a definition."""
    assert definition in load_schema()["$defs"]
    _validator(definition).validate(value)
