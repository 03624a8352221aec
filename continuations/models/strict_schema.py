"""Write a JSON Schema in the strict mode of OpenAI's structured outputs.

In strict mode a model can only write JSON that fits the schema. The mode wants every
property required and no other properties, and knows only some keywords.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

# Keywords with a value that is no schema.
_PLAIN_KEYWORDS = frozenset(
    """
    type title description enum const format pattern minimum maximum exclusiveMinimum
    exclusiveMaximum multipleOf minItems maxItems required
    """.split()  # noqa: SIM905 - one name per line would fill the file
)
# A default is left out: every property is required, so the model writes each.
_DROPPED_KEYWORDS = frozenset({"default", "examples", "discriminator"})


class _NotStrict(Exception):
    """The schema has a keyword or a form that strict mode does not know."""


def to_strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a schema in strict mode; `None` if strict mode cannot express it.

    The engine validates each reply against the type, so the result may allow more than
    `schema` does.
    """
    try:
        strict = _convert(schema)
    except (_NotStrict, RecursionError):
        return None
    return strict if strict.get("type") == "object" else None


def _convert(schema: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(reference := schema.get("$ref"), str):
        return {"$ref": reference}  # strict mode allows no keyword beside it
    strict: dict[str, Any] = {}
    for keyword, value in schema.items():
        strict |= _convert_keyword(keyword, value)
    if strict.get("type") == "object":
        if "properties" not in strict:
            raise _NotStrict  # an object with free keys
        strict["required"] = list(strict["properties"])
        strict["additionalProperties"] = False
    elif not strict.keys() & {"type", "anyOf", "enum", "const"}:
        raise _NotStrict  # a value of any type
    return strict


def _convert_keyword(keyword: str, value: object) -> dict[str, Any]:
    if keyword in _PLAIN_KEYWORDS:
        return {keyword: value}
    if keyword in ("properties", "$defs"):
        return {keyword: _convert_each(value)}
    if keyword == "items":
        return {keyword: _convert_one(value)}
    if keyword in ("anyOf", "oneOf"):
        # With a discriminator, pydantic writes `oneOf`.
        return {"anyOf": [_convert_one(each) for each in _as_list(value)]}
    if keyword in _DROPPED_KEYWORDS or (
        keyword == "additionalProperties" and value is False
    ):
        return {}
    raise _NotStrict


def _convert_each(schemas: object) -> dict[str, Any]:
    if not isinstance(schemas, dict):
        raise _NotStrict
    items = cast("dict[str, object]", schemas)
    return {name: _convert_one(schema) for name, schema in items.items()}


def _convert_one(schema: object) -> dict[str, Any]:
    if not isinstance(schema, dict):
        raise _NotStrict  # a schema may be `true`
    return _convert(cast("dict[str, Any]", schema))


def _as_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _NotStrict
    return cast("list[object]", value)
