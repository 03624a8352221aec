"""What a tool means, apart from how it is described.

An approval is bound to the meaning: after `pay(amount)` became
`pay(amount, currency="EUR")` an old Yes does not pay. Better words change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring.jsonvalues import is_array, is_object
from continuations.core import jsontext

if TYPE_CHECKING:
    from collections.abc import Mapping

_DESCRIPTIVE_KEYWORDS = frozenset({"title", "description", "examples"})

# Which keywords of JSON Schema hold schemas (draft 2020-12, and `definitions` of
# older ones). Everything else is data, in which "title" is a key like any other.
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
    """Return the digest of what a call with these parameters means."""
    declared = "" if version is None else f"={version}"
    return jsontext.digest(
        name, declared, jsontext.canonical(_without_descriptions(parameters))
    )


def compute_description_digest(description: str, parameters: Mapping[str, Any]) -> str:
    """Return the digest of everything that the model is told of a tool."""
    return jsontext.digest(description, jsontext.canonical(dict(parameters)))


def _without_descriptions(schema: Any) -> Any:
    """Return a schema without words, and with `required` in one order."""
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
