"""The tables of stored values, and the format that the bytes of a value need.

Each kind of stored mapping is one `Row`: a class, and one `Field` for each of its
stored attributes. `rows` has the tables of a run's rows, `records` and `arrivals` those
of the other objects. Writing, reading and the number of the format follow from them.

**To store a new attribute**, add it to the class, with a default that means what
earlier formats mean, and one field to the table: `note=TEXT.since(2)`. A field is left
out if its attribute has the value `missing`. If the newest format was released, add a
format to `FORMATS`.

**To store a new value of an old field** (a kind of wait, a state of a call), add a
`NewValue` to the table: `Row(kind, make, (NewValue(2, is_in),), ...)`.

Then add golden files of the new shape (`tests/wire/golden/write_golden.py`).

An object is written in the lowest format that suffices for its content, and a reader
rejects a field that is newer than the format of its object. So an older release reads
every object that has nothing new, and refuses any other object by its number.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar, cast

from continuations.wire.fields import REQUIRED, Field, Unfit, invalid_object, one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

T = TypeVar("T")

FORMATS = {1: "2026-11: the first"}
FIRST_FORMAT, NEWEST_FORMAT = min(FORMATS), max(FORMATS)


class NewValue(NamedTuple):
    """A value of an older field that a later format introduced.

    Attributes:
        format: Number of the format.
        is_in: Tells whether a stored mapping has the value. The mapping may be damaged,
            so the function must not raise for values of a wrong type.
    """

    format: int
    is_in: Callable[[Mapping[str, object]], bool]


class Row(Generic[T]):
    """The table of one kind of stored mapping.

    Args:
        kind: Name of the kind.
        make: Returns the value from its attributes: the class, or a function that
            raises `Unfit` if they do not fit together.
        newer: The values that later formats introduced.
        fields: The fields by their stored names, in the order in which they are stored.
    """

    def __init__(
        self,
        kind: str,
        make: Callable[..., T],
        newer: tuple[NewValue, ...] = (),
        /,
        **fields: Field,
    ) -> None:
        self.kind, self.make, self.newer, self.fields = kind, make, newer, fields
        changing = {name: each for name, each in fields.items() if not each.constant}
        self._full, self._delta = _Part(fields), _Part(changing)
        self._constants = tuple(
            each.attribute or name for name, each in fields.items() if each.constant
        )

    def write(self, value: Any, *, full_copy: bool = True) -> dict[str, object]:
        """Return the stored mapping; deltas leave out what never changes.

        `value` has all the attributes. If the table is that of a part, `make` returns
        another type.
        """
        part = self._full if full_copy else self._delta
        stored: dict[str, object] = {}
        pairs = zip(part.writers, part.attributes_of(value)[2:], strict=True)
        for (name, write, missing), attribute in pairs:
            if attribute is not None and attribute != missing:
                stored[name] = attribute if write is None else write(attribute)
        return stored

    def read(self, stored: object, where: str, base: T | None = None) -> T:
        """Return the value of a stored mapping; raises `FormatError`.

        `where` names the mapping in errors. `base` is the value that a delta starts
        from, which has the attributes that never change.
        """
        part = self._full if base is None else self._delta
        values = part.read(mapping_at(stored, where), where)
        if base is not None:
            for name in self._constants:
                values[name] = getattr(base, name)
        try:
            return self.make(**values)
        except Unfit as error:
            raise invalid_object(where, str(error)) from None


class _Part:
    """The fields of a table that a full copy or a delta has, ready for use."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        named = [(name, each.attribute or name, each) for name, each in fields.items()]
        # Twice the class: with one name, a getter returns no tuple.
        attributes = [attribute for _, attribute, _ in named]
        self.attributes_of = attrgetter("__class__", "__class__", *attributes)
        self.writers = [(name, each.write, each.missing) for name, _, each in named]
        self._readers = {
            name: (attribute, each.read) for name, attribute, each in named
        }
        self._required = frozenset(
            name for name, _, each in named if each.missing is REQUIRED
        )
        self._missing = {
            attribute: each.missing
            for _, attribute, each in named
            if each.missing is not REQUIRED
        }

    def read(self, stored: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the attributes of a stored mapping by name."""
        values = self._missing.copy()
        readers = self._readers
        for name, value in stored.items():
            if name not in readers:
                unknown = ", ".join(sorted(stored.keys() - readers.keys()))
                raise invalid_object(where, f"unknown fields: {unknown}")
            attribute, read = readers[name]
            values[attribute] = read(value, where, name)
        if not stored.keys() >= self._required:
            absent = next(
                name for name in readers if name in self._required - stored.keys()
            )
            raise invalid_object(where, f"{absent!r} is missing")
        return values


class Tagged:
    """The table of values of several classes: the field `kind` names the class."""

    def __init__(
        self, kind: str, newer: tuple[NewValue, ...] = (), /, **rows: Row[Any]
    ) -> None:
        self.kind, self.newer, self._rows = kind, newer, rows
        self.fields = {
            name: each for row in rows.values() for name, each in row.fields.items()
        }
        self._names = {row.make: name for name, row in rows.items()}
        self._read_kind = one_of(frozenset(rows)).read

    def write(self, value: object) -> dict[str, object]:
        """Return the stored mapping."""
        kind = self._names[type(value)]
        return {"kind": kind, **self._rows[kind].write(value)}

    def read(self, stored: object, where: str) -> Any:
        """Return the value of a stored mapping; raises `FormatError`."""
        fields = dict(mapping_at(stored, where))
        if "kind" not in fields:
            raise invalid_object(where, "'kind' is missing")
        kind = self._read_kind(fields.pop("kind"), where, "kind")
        return self._rows[kind].read(fields, where)


def mapping_at(value: object, where: str) -> dict[str, Any]:
    """Return a stored value if it is a mapping; raises `FormatError`."""
    if type(value) is dict:
        return cast("dict[str, Any]", value)
    raise invalid_object(where, f"it must be a mapping, got {type(value).__name__}")


# By the kind of object: the tables of its header and its body.
OBJECTS: dict[str, tuple[Row[Any], Row[Any]]] = {}


def lowest_format(header: Mapping[str, object], body: object) -> int:
    """Return the lowest format that has all fields and values of an object.

    The header and the body are stored values. They may be damaged: the readers check
    their types later.
    """
    tables = OBJECTS.get(str(header.get("kind")))
    if NEWEST_FORMAT == FIRST_FORMAT or tables is None:
        return FIRST_FORMAT
    return max(_format_of(tables[0], header), _format_of(tables[1], body))


def _format_of(row: Row[Any] | Tagged, stored: object) -> int:
    if not isinstance(stored, dict):
        return FIRST_FORMAT
    mapping = cast("dict[str, object]", stored)
    needed = FIRST_FORMAT
    for value in row.newer:
        if value.is_in(mapping):
            needed = max(needed, value.format)
    for name in mapping.keys() & row.fields.keys():
        field = row.fields[name]
        needed = max(needed, field.format)
        if field.row is not None:
            inner = cast("Row[Any] | Tagged", field.row())
            for each in _mappings_in(mapping[name], by_key=field.by_key):
                needed = max(needed, _format_of(inner, each))
    return needed


def _mappings_in(value: object, *, by_key: bool) -> Iterable[object]:
    if isinstance(value, list):
        return cast("list[object]", value)
    if by_key and isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return (value,)
