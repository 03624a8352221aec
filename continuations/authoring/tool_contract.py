"""The digests of a tool: of its contract, and of the whole text that the model reads.

An approval is bound to the contract: after `pay(amount)` became
`pay(amount, currency="EUR")`, an old approval does not pay. A better description
changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.authoring.strict_json import is_array, is_object
from continuations.core import jsontext
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from continuations.authoring.tool_protocol import ToolProtocol


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


_MAX_CHARS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """A tool's contract, as far as this process knows it.

    Attributes:
        name: Name of the tool.
        parameters: The JSON Schema of each parameter, `None` if it is not known.
        version: The declared version, `None` for none.
        version_is_known: Whether `version` is known.
    """

    name: str
    parameters: Mapping[str, Any]
    version: str | None = None
    version_is_known: bool = True

    @classmethod
    def of_tool(cls, tool: ToolProtocol) -> Contract:
        """Return the contract of a tool of this process."""
        parameters = parameters_in(tool.parameters)
        return cls(name=tool.name, parameters=parameters, version=tool.version)

    def __str__(self) -> str:
        """Return the contract like a signature: `pay(cents: integer), version 2`."""
        parts = ", ".join(
            _parameter_text(name, schema) for name, schema in self.parameters.items()
        )
        version = "" if self.version is None else f", version {self.version}"
        return _shorten(f"{self.name}({parts}){version}")


def parameters_in(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of each parameter in a schema of arguments."""
    properties = schema.get("properties")
    return properties if is_object(properties) else {}


def changes_text(old: Contract, new: Contract) -> str:
    """Return the differences of two contracts, and both contracts, in sentences."""
    changes = "; ".join(_changes(old, new)) or "a detail of its schema changed"
    return f"{_shorten(changes)}. Old contract: {old}. New contract: {new}."


def _changes(old: Contract, new: Contract) -> Iterator[str]:
    for name in old.parameters:
        if name not in new.parameters:
            yield f"parameter {name} was removed"
    for name, schema in new.parameters.items():
        if name not in old.parameters:
            yield f"parameter {name} was added"
        elif old.parameters[name] is not None and old.parameters[name] != schema:
            yield f"parameter {name} changed"
    if not old.version_is_known:
        yield f"its version is {new.version or 'not declared'}"
    elif old.version != new.version:
        was, now = old.version or "not declared", new.version or "not declared"
        yield f"its version was {was} and is {now}"


def _parameter_text(name: str, schema: object) -> str:
    if not is_object(schema):
        return name
    default = f" = {jsontext.dump(schema['default'])}" if "default" in schema else ""
    return f"{name}: {_type_text(schema)}{default}"


def _type_text(schema: Mapping[str, Any]) -> str:
    """Return a few words for a schema; the wait has the whole schema."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind
    if is_array(kind):
        return " or ".join(map(str, kind))
    if "enum" in schema or "const" in schema:
        return "one of a fixed set of values"
    choices = schema.get("anyOf")
    if is_array(choices):
        kinds = [each.get("type") if is_object(each) else None for each in choices]
        if all(isinstance(each, str) for each in kinds):
            return " or ".join(map(str, kinds))
    reference = schema.get("$ref")
    return reference.rpartition("/")[2] if isinstance(reference, str) else "any"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]} …"
