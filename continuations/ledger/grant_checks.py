"""Check the grant that an approval gives, before the approval is recorded.

The arguments of a grant are a JSON Schema. JSON Schema ignores a keyword that it does
not know, and one that limits another type: `maximum` lets each text pass. So a grant
takes only keywords that can refuse a call, and each of them names its type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import jsonschema_rs

from continuations.core import jsontext
from continuations.core.grants import MAX_SCHEMA_CHARS, Grant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from continuations.core.waits import Wait

_Schema: TypeAlias = "Mapping[str, Any]"

# The type that a keyword limits. It lets a value of every other type pass.
_LIMITED_TYPE = {
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "multipleOf": "number",
    "minLength": "string",
    "maxLength": "string",
    "pattern": "string",
    "format": "string",
    "items": "array",
    "minItems": "array",
    "maxItems": "array",
    "uniqueItems": "array",
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
}
_KEYWORDS = frozenset(
    {*_LIMITED_TYPE, "type", "enum", "const", "allOf", "anyOf"}
    | {"title", "description", "$comment"}
)
_CHECKED_FORMATS = frozenset({"date", "date-time", "ipv4", "ipv6", "time", "uuid"})
_UPPER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems"})
_LOWER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems"})
_WITHOUT_EFFECT: dict[str, tuple[object, ...]] = {
    "minLength": (0,),
    "minItems": (0,),
    "uniqueItems": (False,),
    "pattern": ("", ".*", "^.*$", "^.*", ".*$", "^", "$"),
}
_ALL_TYPES = frozenset({"string", "number", "boolean", "null", "array", "object"})
_MAX_EXAMPLE_CHARS = 200
_MAX_DEPTH = 20
_UNKNOWN = object()


class UselessCondition(Exception):
    """A condition that does not limit what it seems to limit."""


def _refuse(why: str) -> NoReturn:
    raise UselessCondition(why)


def find_problem(wait: Wait, grant: object) -> str | None:
    """Return why a wait's approval cannot give a grant, or `None`."""
    if type(grant) is not Grant:
        return f"remember must be a Grant, got {type(grant).__name__}"
    if not wait.rules.follows_policy:
        return f"remember is for an approval, and the wait has the kind {wait.kind}"
    if wait.votes_needed > 1:
        return "several persons decide the wait, and one cannot give a grant"
    if wait.form_schema_json is not None:
        return "each call needs a form, and a grant cannot fill it in"
    if grant.tool != wait.tool:
        return f"the grant is for {grant.tool[:60]!r}, and the wait for another tool"
    return None if grant.arguments is None else _find_schema_problem(wait, grant)


def _find_schema_problem(wait: Wait, grant: Grant) -> str | None:
    try:
        schema = jsontext.parse(jsontext.dump(grant.arguments))
        size = len(jsontext.canonical(schema))
        # A stored schema must not make a process fetch a URL.
        jsonschema_rs.validator_for(schema, retriever=jsontext.refuse_reference)
        if size > MAX_SCHEMA_CHARS:
            return (
                f"the arguments of the grant have {size} characters as JSON, and the "
                f"maximum is {MAX_SCHEMA_CHARS}"
            )
        strict_condition(schema)
        _Comparison(wait.schema).check(schema, [wait.schema], _shown(wait), ())
    except jsontext.NotJson as error:
        return f"the arguments of the grant cannot be stored: {error}"
    except UselessCondition as error:
        return f"the arguments of the grant do not limit its calls: {error}"
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        return (
            "the arguments of the grant are not a valid JSON Schema "
            f"({type(error).__name__})"
        )
    return None


def example_condition(wait: Wait, grant: Grant) -> str | None:
    """Return the text of a condition that works, if possible about the same argument.

    A secret value is in no text.
    """
    shown = _shown(wait)
    condition = jsontext.as_object(grant.arguments) or {}
    properties = jsontext.as_object(condition.get("properties")) or {}
    for name in (*properties, *condition, *shown):
        value = shown.get(name, _UNKNOWN)
        if value is _UNKNOWN:
            continue
        limit: dict[str, object] = {"const": value}
        if _type_of(value) == "number":
            limit = {"type": "number", "maximum": value}
        text = jsontext.dump({"properties": {name: limit}})
        if len(text) <= _MAX_EXAMPLE_CHARS:
            return text
    return None


def _shown(wait: Wait) -> dict[str, Any]:
    """Return the arguments of the waiting call, those with secret values unknown."""
    secret = {path.partition("/")[0] for path in wait.secrets}
    return {
        name: _UNKNOWN if name in secret else value
        for name, value in wait.arguments.items()
    }


# The strict form ----------------------------------------------------------------------


def strict_condition(condition: _Schema) -> dict[str, Any]:
    """Return a condition that covers nothing but what it names.

    A keyword that limits a type refuses values of other types, and each argument that
    is named must be there. Raises `UselessCondition` for a keyword that a grant cannot
    use.
    """
    unknown = next((key for key in condition if key not in _KEYWORDS), None)
    if unknown is not None:
        why = f"{unknown[:60]!r} is not a keyword that a grant can use"
        _refuse(why)
    if condition.get("additionalProperties", False) is not False:
        why = "'additionalProperties' can only be false"
        _refuse(why)
    if condition.get("format", "date") not in _CHECKED_FORMATS:
        why = "this 'format' is not checked, so use 'pattern'"
        _refuse(why)
    strict = dict(condition)
    limited = _limited_types(condition)
    if limited:
        named = _named_types(condition) or sorted(limited)
        fitting = [each for each in named if _family(each) in {*limited, "null"}]
        if not fitting:
            _refuse(_wrong_type(condition, named))
        strict["type"] = fitting
    for name in ("allOf", "anyOf"):
        if name in condition:
            strict[name] = [_strict_part(part) for part in condition[name]]
    if "items" in condition:
        strict["items"] = _strict_part(condition["items"])
    if "properties" in condition:
        parts = condition["properties"].items()
        strict["properties"] = {name: _strict_part(part) for name, part in parts}
        required = {*condition.get("required", ()), *strict["properties"]}
        strict["required"] = sorted(required)
    return strict


def _strict_part(part: object) -> dict[str, Any]:
    schema = jsontext.as_object(part)
    if schema is None:
        why = f"{jsontext.dump(part)[:60]} stands where a JSON Schema is needed"
        _refuse(why)
    return strict_condition(schema)


def _limited_types(condition: _Schema) -> set[str]:
    """Return the types that the keywords of a condition limit."""
    return {_LIMITED_TYPE[key] for key in condition if key in _LIMITED_TYPE}


def _named_types(schema: _Schema) -> list[str]:
    named = schema.get("type", [])
    return [named] if isinstance(named, str) else list(named)


def _family(name: str) -> str:
    return "number" if name == "integer" else name


def _wrong_type(condition: _Schema, types: Iterable[str]) -> str:
    keys = [key for key in condition if key in _LIMITED_TYPE]
    return f"{keys[0]!r} does not limit a value of the type {' or '.join(types)}"


def _type_of(value: object) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array"


# The tool's schema --------------------------------------------------------------------


class _Comparison:
    """Compares a condition with the schema of a tool, and with the waiting call."""

    def __init__(self, root: _Schema) -> None:
        self._root = root

    def check(
        self,
        condition: _Schema,
        schemas: Iterable[_Schema],
        value: object,
        place: tuple[str, ...],
    ) -> None:
        """Raise `UselessCondition` if a part cannot refuse what the tool gets there."""
        where = ".".join(place) or "the condition"
        leaves = self._leaves(schemas)
        types = {each for leaf in leaves for each in _types_of_leaf(leaf)}
        wanted = _wanted_types(condition)
        if wanted is not None:
            keyless = [t for t in _named_types(condition) if _family(t) not in wanted]
            if [each for each in keyless if each != "null"]:
                _refuse(f"{where}: {_wrong_type(condition, keyless)}")
            if types and wanted.isdisjoint(map(_family, types)):
                found = " or ".join(sorted(types))
                why = f"{where} has the type {found}, and the condition names another"
                _refuse(why)
            if value not in (_UNKNOWN, None) and _type_of(value) not in wanted:
                why = (
                    f"{where} is a value of the type {_type_of(value)} in this call, "
                    "and the condition names another"
                )
                _refuse(why)
        self._check_parts(condition, leaves, value, place)
        if not _can_refuse(condition, leaves, types):
            _refuse(f"{where}: it lets every value of the tool pass")

    def _check_parts(
        self,
        condition: _Schema,
        leaves: list[_Schema],
        value: object,
        place: tuple[str, ...],
    ) -> None:
        for part in condition.get("allOf", ()):
            self.check(part, leaves, value, place)
        for part in condition.get("anyOf", ()):
            self.check(part, leaves, _UNKNOWN, place)
        if "items" in condition:
            items = [leaf["items"] for leaf in leaves if _has_schema(leaf, "items")]
            self.check(condition["items"], items, _UNKNOWN, (*place, "items"))
        known = jsontext.as_object(value) or {}
        objects = [leaf for leaf in leaves if "object" in _types_of_leaf(leaf)]
        is_open = place and any("properties" not in leaf for leaf in objects)
        for name, part in condition.get("properties", {}).items():
            own = [
                leaf["properties"][name]
                for leaf in leaves
                if _has_schema(leaf.get("properties", {}), name)
            ]
            if not own and name not in known and not is_open:
                _refuse(f"the tool has no argument {name[:60]!r}")
            self.check(part, own, known.get(name, _UNKNOWN), (*place, name[:60]))

    def _leaves(self, schemas: Iterable[_Schema], depth: int = 0) -> list[_Schema]:
        """Return the alternatives of schemas of the tool, without references."""
        found: list[_Schema] = []
        for schema in schemas:
            given: list[object] = []
            for name in ("anyOf", "oneOf", "allOf"):
                given += jsontext.as_array(schema.get(name)) or []
            reference = schema.get("$ref")
            if isinstance(reference, str):
                definitions = jsontext.as_object(self._root.get("$defs")) or {}
                given.append(definitions.get(reference.removeprefix("#/$defs/")))
            objects = map(jsontext.as_object, given)
            parts = [part for part in objects if part is not None]
            if parts and depth < _MAX_DEPTH:
                found += self._leaves(parts, depth + 1)
            else:
                found.append(schema)
        return found


def _has_schema(holder: _Schema, name: str) -> bool:
    return isinstance(holder.get(name), dict)


def _types_of_leaf(leaf: _Schema) -> set[str]:
    named = _named_types(leaf)
    if named:
        return set(named)
    values = _listed_values(leaf)
    if values is not None:
        return set(map(_type_of, values))
    return {"object"} if "properties" in leaf else set(_ALL_TYPES)


def _listed_values(schema: _Schema) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    return list(schema["enum"]) if "enum" in schema else None


def _wanted_types(condition: _Schema) -> set[str] | None:
    """Return the types of values that a condition can let pass, `None` for all."""
    values = _listed_values(condition)
    if values is not None:
        return set(map(_type_of, values))
    limited = _limited_types(condition)
    if limited:
        return limited
    return set(map(_family, _named_types(condition))) or None


def _can_refuse(condition: _Schema, leaves: list[_Schema], types: set[str]) -> bool:
    """Return whether a condition refuses a value that the schemas of a tool allow."""
    if condition.keys() & {"allOf", "anyOf", "items"} or condition.get("properties"):
        return True  # each part was checked
    values = _listed_values(condition)
    if values is not None:
        allowed = [_listed_values(leaf) for leaf in leaves]
        if types == {"boolean"}:
            allowed = [[True, False]]
        return any(
            known is None or any(v not in values for v in known) for known in allowed
        )
    named = _named_types(condition)
    covered = {*named, "integer"} if "number" in named else set(named)
    if named and not (leaves and types <= covered):
        return True
    return any(
        not (leaves and all(_is_implied(key, value, leaf) for leaf in leaves))
        for key, value in condition.items()
        if key in _LIMITED_TYPE
        and key not in ("properties", "required")
        and value not in _WITHOUT_EFFECT.get(key, ())
    )


def _is_implied(key: str, value: Any, leaf: _Schema) -> bool:
    """Return whether a schema of the tool refuses all that a keyword refuses."""
    if _LIMITED_TYPE[key] not in map(_family, _types_of_leaf(leaf)):
        return False
    own = leaf.get(key)
    if own is None:
        return False
    if key in _UPPER:
        return bool(own <= value)
    return bool(own >= value) if key in _LOWER else bool(own == value)
