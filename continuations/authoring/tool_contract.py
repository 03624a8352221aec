"""The digests of a tool: of its contract, and of the whole text that the model reads.

An approval is bound to the contract: after `pay(amount)` became
`pay(amount, currency="EUR")`, an old approval does not pay. A better description
changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring.arguments.json_values import is_array, is_object
from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Mapping


_DESCRIPTIVE_KEYWORDS = frozenset({"title", "description", "examples"})

# The keywords of JSON Schema that contain schemas (draft 2020-12, and `definitions` of
# older drafts). Every other value is data, in which "title" is a key like any other.
_SCHEMA_MAP_KEYWORDS = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_SCHEMA_LIST_KEYWORDS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLE_SCHEMA_KEYWORDS = frozenset(
    {
        "items",
        "additionalProperties",
        "propertyNames",
        "contains",
        "not",
        "if",
        "then",
        "else",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contentSchema",
    }
)


def compute_contract_digest(
    name: str, version: str | None, parameters: Mapping[str, Any]
) -> str:
    """Return the digest of name, version and the schema without descriptions."""
    declared = "" if version is None else f"={version}"
    return jsontext.digest(
        name, declared, jsontext.canonical(_without_descriptions(parameters))
    )


def compute_model_text_digest(description: str, parameters: Mapping[str, Any]) -> str:
    """Return the digest of the whole text that the model reads about a tool."""
    return jsontext.digest(description, jsontext.canonical(dict(parameters)))


def _without_descriptions(schema: Any) -> Any:
    """Return a schema without descriptions, and with `required` in one order."""
    if not is_object(schema):
        return schema  # `true` and `false` are schemas too
    return {
        key: _keyword_without_descriptions(key, value)
        for key, value in schema.items()
        if key not in _DESCRIPTIVE_KEYWORDS
    }


def _keyword_without_descriptions(keyword: str, value: Any) -> Any:
    if keyword in _SINGLE_SCHEMA_KEYWORDS:
        return _without_descriptions(value)
    if keyword in _SCHEMA_MAP_KEYWORDS and is_object(value):
        return {name: _without_descriptions(schema) for name, schema in value.items()}
    if keyword in _SCHEMA_LIST_KEYWORDS and is_array(value):
        return [_without_descriptions(schema) for schema in value]
    if keyword == "required" and is_array(value):
        return sorted(value)
    return value
