"""The fields and tables of stored mappings: how values are written and read strictly.

A reader accepts the right type only, and converts nothing: a bool is no number. Errors
name the field, and never contain the value, which may be a secret.

The code uses no validation library, because a library would slow down decisions and
resumes in a cold process (docs/decisions/0003-reading-by-hand.md).

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

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from continuations.core import jsontext
from continuations.core.ulid import is_ulid
from continuations.errors import FormatError
from continuations.value_class import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


T = TypeVar("T")

# Times ------------------------------------------------------------------------

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# 9999-12-31, the last day that datetime can represent.
_MAX_MILLISECONDS = 253_402_300_799_999


def to_milliseconds(time: datetime) -> int:
    """Return a time as whole milliseconds since 1970, UTC."""
    return (time - _EPOCH) // _MILLISECOND


def from_milliseconds(value: int) -> datetime:
    """Return the time of whole milliseconds since 1970, in UTC."""
    return _EPOCH + value * _MILLISECOND


def whole_milliseconds(time: datetime) -> datetime:
    """Return a time as it is stored: in whole milliseconds."""
    return time - timedelta(microseconds=time.microsecond % 1000)


def readable_time(moment: datetime) -> str:
    """Return a moment for people: `2026-11-21 14:00:00 UTC`."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"


# Errors -----------------------------------------------------------------------


class Unfit(ValueError):
    """The fields of a mapping do not fit together; the text says what is wrong."""


def invalid_object(where: str, problem: str) -> FormatError:
    """Return the error for intact bytes that do not hold what they should."""
    return FormatError(
        f"{where} is invalid: {problem}. It was not changed. Check which program "
        "wrote it."
    )


def invalid_field(where: str, name: str, problem: str) -> FormatError:
    """Return the error for one field of the mapping at `where`."""
    return invalid_object(where, f"{name!r} {problem}")


def check_type(value: object, kind: type, where: str, name: str) -> Any:
    """Return the value of a field if it has exactly this type."""
    # isinstance would accept a bool as an int.
    if type(value) is not kind:
        problem = f"must be {kind.__name__}, got {type(value).__name__}"
        raise invalid_field(where, name, problem)
    return value


def is_count(value: object) -> bool:
    """Return whether a stored value is a number of at least 0."""
    return type(value) is int and value >= 0


# Fields -----------------------------------------------------------------------


class Table(Protocol):
    """The table of a stored mapping: a `Row` or a `Tagged` of `formats`."""

    def write(self, value: Any) -> dict[str, object]:
        """Return the stored mapping."""
        ...

    def read(self, stored: object, where: str) -> Any:
        """Return the value of a stored mapping."""
        ...


# The `missing` value of a field that every mapping has.
REQUIRED: object = object()


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a stored mapping. The methods return a field that differs.

    Attributes:
        read: Returns the value of the attribute from the stored value, the place of the
            mapping and the name of the field. Raises `FormatError`.
        write: Returns the stored value, or `None` if the attribute is stored as it is.
        missing: The value of the attribute if the field is left out, or `REQUIRED`.
        attribute: Name of the attribute, if it is not that of the field.
        constant: The attribute never changes, so only full copies have the field.
        format: Number of the format that introduced the field.
        row: Returns the table of the mappings in the field, if it has mappings.
        by_key: The field is a mapping from keys to such mappings.
    """

    read: Callable[[Any, str, str], Any]
    write: Callable[[Any], object] | None = None
    missing: object = None
    attribute: str = ""
    constant: bool = False
    format: int = 1
    row: Callable[[], Table] | None = None
    by_key: bool = False

    def of(self, attribute: str) -> Field:
        """Return the field of an attribute with another name."""
        return replace(self, attribute=attribute)

    def required(self) -> Field:
        """Return the field that every mapping has."""
        return replace(self, missing=REQUIRED)

    def if_missing(self, value: object) -> Field:
        """Return the field that is left out if the attribute has this value."""
        return replace(self, missing=value)

    def in_full_copies(self) -> Field:
        """Return the field of an attribute that never changes."""
        return replace(self, constant=True)

    def since(self, number: int) -> Field:
        """Return the field that the format with this number introduced."""
        return replace(self, format=number)


def _read_text(value: object, where: str, name: str) -> str:
    if type(value) is str:
        return value
    return str(check_type(value, str, where, name))


def _read_number(value: object, where: str, name: str) -> int:
    number: int = check_type(value, int, where, name)
    if number < 0:
        raise invalid_field(where, name, "must not be negative")
    return number


def _read_flag(value: object, where: str, name: str) -> bool:
    flag: bool = check_type(value, bool, where, name)
    return flag


def _read_binary(value: object, where: str, name: str) -> bytes:
    binary: bytes = check_type(value, bytes, where, name)
    return binary


def read_time(value: object, where: str, name: str) -> datetime:
    """Return a stored time."""
    number = _read_number(value, where, name)
    if number > _MAX_MILLISECONDS:
        raise invalid_field(where, name, "must not be after the year 9999")
    return from_milliseconds(number)


def _read_texts(value: object, where: str, name: str) -> tuple[str, ...]:
    items: list[object] = check_type(value, list, where, name)
    if {*map(type, items)} <= {str}:
        return tuple(cast("list[str]", items))
    return read_items(items, where, name, _read_text_item)


def _read_text_item(value: object, where: str) -> str:
    if type(value) is not str:
        raise invalid_object(where, f"it must be str, got {type(value).__name__}")
    return value


def _read_number_item(value: object, where: str) -> int:
    if type(value) is not int or value < 0:
        raise invalid_object(where, "it must be an integer of at least 0")
    return value


def read_items(
    value: object, where: str, name: str, read: Callable[[Any, str], T]
) -> tuple[T, ...]:
    """Return the items of a stored list, each of them read with its place."""
    items: list[object] = check_type(value, list, where, name)
    return tuple(
        [read(item, f"{where}.{name}[{number}]") for number, item in enumerate(items)]
    )


# All waits for one tool have the same schema, which is parsed only once.
_MAX_CACHED_LENGTH = 4096


@lru_cache(maxsize=512)
def _is_json_object(text: str) -> bool:
    try:
        return isinstance(jsontext.parse(text), dict)
    except jsontext.NotJson:
        return False


def read_json(value: object, where: str, name: str) -> str:
    """Return the text of any JSON value."""
    text = _read_text(value, where, name)
    _parse_json(text, where, name)
    return text


def read_json_object(value: object, where: str, name: str) -> str:
    """Return the text of a JSON object."""
    text = _read_text(value, where, name)
    if len(text) < _MAX_CACHED_LENGTH and _is_json_object(text):
        return text
    if not isinstance(_parse_json(text, where, name), dict):
        raise invalid_field(where, name, "must be a JSON object")
    return text


def _parse_json(text: str, where: str, name: str) -> object:
    try:
        return jsontext.parse(text)
    except jsontext.NotJson as error:
        raise invalid_field(where, name, f"is not valid JSON: {error}") from None


def _read_names(value: object, where: str, name: str) -> str:
    text = _read_text(value, where, name)
    names = _parse_json(text, where, name)
    is_list = isinstance(names, list)
    if is_list and all(type(each) is str for each in cast("list[object]", names)):
        return text
    raise invalid_object(f"{where}.{name}", "it must be a list of names")


def _read_event_id(value: object, where: str, name: str) -> str:
    event_id = _read_text(value, where, name)
    if is_ulid(event_id):
        return event_id
    raise invalid_object(f"{where}.{name}", "it must be the id of an event")


def _read_event_ids(value: object, where: str, name: str) -> tuple[str, ...]:
    event_ids = _read_texts(value, where, name)
    if all(map(is_ulid, event_ids)):
        return event_ids
    raise invalid_object(f"{where}.{name}", "it must be a list of ids of events")


def items_of(
    read: Callable[[Any, str], object], write: Callable[[Any], object]
) -> Field:
    """Return the field of a list, each item of which is read with its place."""
    return Field(
        lambda value, where, name: read_items(value, where, name, read),
        lambda items: [*map(write, items)],
        missing=(),
    )


# A missing text is `None`.
TEXT = Field(_read_text)
ID = TEXT.required()
TEXTS = Field(_read_texts, list, missing=())
# A missing number is 0.
COUNT = Field(_read_number, missing=0)
NUMBER = COUNT.required()
OPTIONAL_NUMBER = COUNT.if_missing(None)
NUMBERS = Field(
    lambda value, where, name: read_items(value, where, name, _read_number_item),
    list,
    missing=(),
)
FLAG = Field(_read_flag, missing=False)
BINARY = Field(_read_binary)
TIME = Field(read_time, to_milliseconds)
AT = TIME.required()
# The text of any JSON value, of a JSON object, and of a JSON array of names.
JSON = Field(read_json)
JSON_OBJECT = Field(read_json_object)
NAMES = Field(_read_names)
EVENT_ID = Field(_read_event_id)
EVENT_IDS = Field(_read_event_ids, list, missing=())


def one_of(choices: frozenset[str]) -> Field:
    """Return the required field of a text that is one of `choices`."""

    def read(value: object, where: str, name: str) -> str:
        text = _read_text(value, where, name)
        if text not in choices:
            problem = f"must be one of {', '.join(sorted(choices))}"
            raise invalid_field(where, name, problem)
        return text

    return Field(read, missing=REQUIRED)


def row_of(row: Callable[[], Table]) -> Field:
    """Return the field of one value that has a table of its own."""
    return Field(
        lambda value, where, name: row().read(value, f"{where}.{name}"),
        lambda value: row().write(value),
        row=row,
    )


def rows_of(row: Callable[[], Table]) -> Field:
    """Return the field of a list of values that have a table of their own."""
    return Field(
        lambda value, where, name: read_items(value, where, name, row().read),
        lambda values: [*map(row().write, values)],
        missing=(),
        row=row,
    )


def rows_by_key_of(row: Callable[[], Table]) -> Field:
    """Return the field of a mapping from keys to values that have a table."""

    def read(value: object, where: str, name: str) -> dict[str, Any]:
        stored: dict[str, object] = check_type(value, dict, where, name)
        return {
            key: row().read(each, f"{where}.{name}.{key}")
            for key, each in stored.items()
        }

    return Field(
        read,
        lambda values: {key: row().write(each) for key, each in values.items()},
        missing={},
        row=row,
        by_key=True,
    )


FORMATS = {1: "2026-11: the first"}
FIRST_FORMAT, NEWEST_FORMAT = min(FORMATS), max(FORMATS)


@dataclass(frozen=True, slots=True)
class NewValue:
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
