"""Values that a tool's schema allows, to try the condition of a grant with.

A condition limits something if it refuses one of these values. The samples stand on
both sides of each number that the condition or the schema names. So ranges that cover
everything together are found too. No sample is shown to a person.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from itertools import islice, pairwise, product
from typing import TYPE_CHECKING, Any, TypeAlias

from continuations.core import jsontext
from continuations.ledger.edits import make_validator

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Schema: TypeAlias = "Mapping[str, Any]"

UNKNOWN = object()
_ALL_TYPES = frozenset({"string", "number", "boolean", "null", "array", "object"})
_MAX_DEPTH = 20
_MAX_COMBINATIONS = 5000
# A longer limit is none: no model writes so much into one argument.
_MAX_LENGTH = 100_000
_ABSENT = object()
_ANOTHER = "another member"
_SIMPLE: tuple[Any, ...] = (None, False, True, 0, 1, 0.5, "a", "b", [], {})

_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_NUMBERS = (0, 1, -1, 7, 0.5, 10**12, -(10**12))
# Texts of different kinds. A pattern that lets all of them pass limits nothing. The
# empty text and line breaks are missing: to refuse only them is no limit.
_TEXTS = (
    "0",
    "7391",
    "-12.50",
    "a",
    "z",
    "A",
    "Zq x",
    " ",
    "_",
    "a\tb",
    "".join(map(chr, range(0x20, 0x7F))),
    "!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~",
    "é",
    "漢字",
    "\N{GRINNING FACE}",
    "kim@example.com",
    "https://example.com/a?b=c#d",
    "DE89 3704 0044 0532 0130 00",
    "The quick brown fox jumps over the lazy dog. " * 50,
)
# The forms in which pydantic writes the values of types that are texts in JSON.
_TEXTS_OF_FORMAT = {
    "binary": ("", "eA==", "AAAA", "_-8=", "YWJj" * 500),
    "date": ("0001-01-01", "1999-12-31", "2026-11-23", "9999-12-31"),
    "date-time": (
        "0001-01-01T00:00:00",
        "1999-12-31T23:59:59.999999+14:00",
        "2026-11-23T10:00:00Z",
    ),
    "decimal": ("0", "-12.50", "1000000", "0.001", "1E+20", "99999999999999999999.99"),
    "duration": ("PT0S", "P1D", "-P400DT1H", "PT0.000001S"),
    "ipv4": ("0.0.0.0", "10.20.30.40", "255.255.255.255"),  # noqa: S104 - no socket
    "ipv6": ("::", "2001:db8::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    "time": ("00:00:00", "23:59:59.999999", "10:00:00Z"),
    "uuid": (
        "00000000-0000-0000-0000-000000000000",
        "6f1c2f5e-5d0c-4a53-9d7c-0d1f6a3f9f10",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
    ),
}

_DECIMAL = {"type": "string", "format": "decimal"}


# Reading a schema ---------------------------------------------------------------------


def named_types(schema: Schema) -> list[str]:
    """Return the types that a schema names."""
    named = schema.get("type", [])
    return [named] if isinstance(named, str) else list(named)


def listed_values(schema: Schema) -> list[Any] | None:
    """Return the values of `const` or `enum`, or `None`."""
    if "const" in schema:
        return [schema["const"]]
    return list(schema["enum"]) if "enum" in schema else None


def type_of(value: object) -> str:
    """Return the JSON type of a value; an integer is a number."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array"


def types_of_leaf(leaf: Schema) -> set[str]:
    """Return the types that a schema without alternatives lets pass."""
    named = named_types(leaf)
    if named:
        return set(named)
    values = listed_values(leaf)
    if values is not None:
        return set(map(type_of, values))
    return {"object"} if "properties" in leaf else set(_ALL_TYPES)


def has_schema(holder: Schema, name: str) -> bool:
    """Return whether a schema has another one under a name."""
    return isinstance(holder.get(name), dict)


def members(leaves: Iterable[Schema], name: str) -> list[Schema]:
    """Return the schemas of a member of objects."""
    found: list[Schema] = []
    for leaf in leaves:
        if has_schema(leaf.get("properties", {}), name):
            found.append(leaf["properties"][name])
        elif has_schema(leaf, "additionalProperties"):
            found.append(leaf["additionalProperties"])
    return found


def items(leaves: Iterable[Schema]) -> list[Schema]:
    """Return the schemas of the items of lists and tuples."""
    found: list[Schema] = []
    for leaf in leaves:
        found += leaf.get("prefixItems", ())
        if has_schema(leaf, "items"):
            found.append(leaf["items"])
    return found


def flat_parts(conditions: Iterable[Schema]) -> Iterator[Schema]:
    """Yield conditions, and the parts of each that concern the same value."""
    for each in conditions:
        yield each
        yield from flat_parts(each.get("allOf", ()))
        yield from flat_parts(each.get("anyOf", ()))


# Samples ------------------------------------------------------------------------------


class SchemaSamples:
    """Makes sample values for schemas of one tool.

    Args:
        root: The schema of the arguments of the tool.
        strict: Returns the form of a condition in which a grant compares it.
    """

    def __init__(self, root: Schema, strict: Callable[[Schema], Schema]) -> None:
        self._root = root
        self._strict = strict

    def leaves(
        self, schemas: Iterable[Schema], value: object = UNKNOWN
    ) -> list[Schema]:
        """Return the alternatives of schemas of the tool, without references."""
        found = self._all_leaves(schemas, 0)
        texts = [leaf for leaf in found if named_types(leaf) == ["string"]]
        if not texts or not _is_decimal(value):
            return found
        # The schema of a Decimal allows numbers and all texts, and the tool gets texts.
        rest = [
            leaf for leaf in found if named_types(leaf) not in (["number"], ["string"])
        ]
        has_numbers = len(rest) + len(texts) < len(found)
        is_bare = not any("format" in leaf or "enum" in leaf for leaf in texts)
        return [*rest, _DECIMAL] if has_numbers and is_bare else found

    def refuses_one(
        self, condition: Schema, schemas: Sequence[Schema], value: object, depth: int
    ) -> bool:
        """Return whether a condition refuses a value that the schemas allow.

        The depth is 0 for the arguments as a whole.
        """
        passes = self._check_of(condition)
        return not all(map(passes, self.values([condition], schemas, value, depth)))

    def values(
        self,
        conditions: Iterable[Schema],
        schemas: Sequence[Schema],
        value: object = UNKNOWN,
        depth: int = 0,
    ) -> list[Any]:
        """Return values that the schemas allow, chosen for some conditions."""
        parts = list(flat_parts(conditions))
        leaves = self.leaves(schemas, value) or [{}]
        found = [] if value is UNKNOWN else [value]
        for leaf in leaves:
            found += self._values_of(leaf, parts, value, depth)
        allows = self._allows(schemas)
        allowed = [each for each in found if allows(each)]
        # Without a sample that a pattern of the tool lets pass, nothing is known.
        return allowed or found

    def _values_of(
        self, leaf: Schema, parts: list[Schema], value: object, depth: int
    ) -> list[Any]:
        listed = listed_values(leaf)
        if listed is not None:
            return listed
        if not parts and types_of_leaf(leaf) == {*_ALL_TYPES}:
            return [*_SIMPLE]
        found: list[Any] = []
        for each in sorted(types_of_leaf(leaf)):
            if each == "null":
                found.append(None)
            elif each == "boolean":
                found += [False, True]
            elif each in ("integer", "number"):
                found += _numbers([leaf, *parts])
            elif each == "string":
                found += _texts(leaf, parts)
            elif depth < _MAX_DEPTH and each == "array":
                found += self._lists(leaf, parts, depth)
            elif depth < _MAX_DEPTH:
                found += self._objects(leaf, parts, value, depth)
        return found

    def _lists(self, leaf: Schema, parts: list[Schema], depth: int) -> list[Any]:
        conditions = [part["items"] for part in parts if "items" in part]
        prefix = leaf.get("prefixItems")
        if prefix:
            choices = [
                self.values(conditions, [each], depth=depth + 1) for each in prefix
            ]
            first = [each[0] for each in choices]
            return [
                [*first[:place], each, *first[place + 1 :]]
                for place, samples in enumerate(choices)
                for each in samples
            ]
        samples = self.values(conditions, items([leaf]), depth=depth + 1)
        lists: list[Any] = [[], *([each] for each in samples)]
        for size in _sizes(parts, "minItems", "maxItems"):
            lists += [
                samples[:1] * size,
                [*range(size)],
                [f"t{n}" for n in range(size)],
            ]
        if any("uniqueItems" in part for part in parts):
            lists.append(samples[:1] * 2)
        return lists

    def _objects(
        self, leaf: Schema, parts: list[Schema], value: object, depth: int
    ) -> list[Any]:
        known = jsontext.as_object(value) or {}
        names: dict[str, None] = {}
        for part in parts:
            names |= dict.fromkeys(
                (*part.get("properties", ()), *part.get("required", ()))
            )
        base = dict(known)
        for name in leaf.get("required", ()):
            if name not in base:
                base[name] = self.values([], members([leaf], name), depth=depth + 1)[0]
        choices = [
            self._member_choices(leaf, name, parts, known, depth) for name in names
        ]
        combined = islice(product(*choices), _MAX_COMBINATIONS)
        found = [_with_members(base, [*names], each) for each in combined]
        found += self._other_objects(leaf, parts, base, depth)
        return found

    def _other_objects(
        self, leaf: Schema, parts: list[Schema], base: dict[str, Any], depth: int
    ) -> list[Any]:
        """Return objects with a member more, and objects that differ in one member."""
        found: list[Any] = []
        closed = any("additionalProperties" in part for part in parts)
        if closed or (depth and leaf.get("additionalProperties") is not False):
            more = self.values([], members([leaf], _ANOTHER), depth=depth + 1)
            found.append({**base, _ANOTHER: more[-1]})
        if any(listed_values(part) is not None for part in parts):
            for name in leaf.get("properties", ()):
                values = self.values([], members([leaf], name), depth=depth + 1)
                found += [{**base, name: each} for each in values]
        return found

    def _member_choices(
        self,
        leaf: Schema,
        name: str,
        parts: list[Schema],
        known: Mapping[str, Any],
        depth: int,
    ) -> list[Any]:
        """Return one sample for each way in which conditions on a member turn out."""
        own = members([leaf], name)
        conditions = [
            part["properties"][name]
            for part in parts
            if name in part.get("properties", ())
        ]
        checks = [self._check_of(each) for each in conditions]
        samples = self.values(conditions, own, known.get(name, UNKNOWN), depth + 1)
        found = {tuple(check(each) for check in checks): each for each in samples}
        chosen = [found[key] for key in sorted(found, key=sum)]
        may_lack = name not in leaf.get("required", ()) and not any(
            "default" in each for each in own
        )
        # The arguments of a call are complete: the tool has put its defaults there.
        return [_ABSENT, *chosen] if may_lack and depth else chosen

    def _check_of(self, condition: Schema) -> Callable[[Any], bool]:
        return make_validator(self._strict(condition)).is_valid

    def _allows(self, schemas: Sequence[Schema]) -> Callable[[Any], bool]:
        if not schemas:
            return lambda _: True
        allowed = {"anyOf": list(schemas), "$defs": self._root.get("$defs", {})}
        validator = make_validator(allowed)
        # Objects are made of members that were checked.
        return lambda value: isinstance(value, dict) or validator.is_valid(value)

    def _all_leaves(self, schemas: Iterable[Schema], depth: int) -> list[Schema]:
        found: list[Schema] = []
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
                found += self._all_leaves(parts, depth + 1)
            else:
                found.append(schema)
        return found


def _numbers(schemas: Iterable[Schema]) -> list[int | float]:
    """Return numbers on both sides of each number that schemas name."""
    named: set[int | float] = set()
    steps: set[int | float] = set()
    for schema in schemas:
        named.update(schema[key] for key in _BOUNDS if key in schema)
        listed = listed_values(schema) or ()
        named.update(each for each in listed if type_of(each) == "number")
        if "multipleOf" in schema:
            steps.add(schema["multipleOf"])
    found = [*_NUMBERS]
    for each in named:
        found += [each - 1, each, each + 1, each + 2, each - 0.5, each + 0.5]
    for each in steps:
        found += [each, each * 2, each / 2, each * 1.5, each + 1]
    ordered = sorted(set(found))
    found += [(first + second) / 2 for first, second in pairwise(ordered)]
    return [int(each) if each == int(each) else each for each in found]


def _texts(leaf: Schema, parts: Iterable[Schema]) -> list[str]:
    known = _TEXTS_OF_FORMAT.get(leaf.get("format", ""))
    if known is not None:
        return [*known]
    return [*_TEXTS, *("x" * size for size in _sizes(parts, "minLength", "maxLength"))]


def _sizes(parts: Iterable[Schema], lower: str, upper: str) -> set[int]:
    """Return sizes on both sides of each limit of a size that parts name."""
    found: set[int] = set()
    for part in parts:
        if lower in part:
            found.add(int(part[lower]) - 1)
        if upper in part:
            found.add(int(part[upper]) + 1)
    return {size for size in found if 0 <= size <= _MAX_LENGTH}


def _with_members(
    base: Mapping[str, Any], names: Iterable[str], values: Iterable[Any]
) -> dict[str, Any]:
    changed = {**base, **dict(zip(names, values, strict=True))}
    return {name: each for name, each in changed.items() if each is not _ABSENT}


def _is_decimal(value: object) -> bool:
    try:
        Decimal(value if isinstance(value, str) else "none")
    except InvalidOperation:
        return False
    return True
