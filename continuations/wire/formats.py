"""The formats of stored objects, and the fields that each later format introduced.

`NEW_FIELDS` and `NEW_VALUES` are the one place that knows which format a stored field
needs. An object is written in the lowest format that suffices for its content, and a
reader rejects a field that is newer than the format of its object. So an older release
reads every object that has nothing new, and refuses any other object by its number.

**To store a new optional field** of a row or record, do two things:

1. Add the attribute to the dataclass, with none, false, zero or empty as its default.
   The default must mean what the older formats mean. It is not stored.
2. Add one `NewField` under the kind of row in `NEW_FIELDS`: the format, the stored name
   and the codec. The writer and the reader of that kind then include the field. Give
   `attribute=` if the attribute has another name. For a type of your own, make a
   `Codec`.

The format is the newest one if that is not released yet, and a new one otherwise.

**To store a new value of an old field** (a kind of wait, a state of a call), add one
`NewValue` to `NEW_VALUES`.

Then add golden files of the new shape (`tests/wire/golden/write_golden.py`).

Kinds are `run`, `claim`, `usage`, `budget`, `failure`, `frame`, `log`, `call`, `wait`,
`decision`, `cancellation`, `message` (of the inbox), `signal`, `event`, `slot`,
`operator request` and `version header`.
`NEW_VALUES` also has `state` (of a call). A wait has the same fields in its object and
in a version.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from continuations.core import deadline_actions, jsontext
from continuations.core.run import KeptSignal, is_label
from continuations.core.ulid import is_ulid
from continuations.wire.fields import (
    FieldReader,
    invalid_object,
    late,
    omit_empty,
    to_milliseconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from continuations.core.quorum import Quorum

FORMATS = {
    1: "2026-11: the first",
    2: "2026-11: the fields and values below",
    3: "2026-11: tools that wait, and how runs are described",
}
FIRST_FORMAT, NEWEST_FORMAT = min(FORMATS), max(FORMATS)


# Without __eq__ and __repr__ the classes are created faster in a cold process.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Codec:
    """How a field is stored.

    Attributes:
        write: Returns the stored value of an attribute that is not none, false, zero
            or empty.
        read: Reads the field with this name; returns the value of the attribute, also
            if the field is missing.
    """

    write: Callable[[Any], object]
    read: Callable[[FieldReader, str], object]


def _unchanged(value: object) -> object:
    return value


def _read_deadline_action(fields: FieldReader, name: str) -> str | None:
    text = fields.json_object_or_none(name)
    try:
        deadline_actions.parse(text)
    except jsontext.NotJson as error:
        raise invalid_object(f"{fields.where}.{name}", str(error)) from None
    return text


def _write_quorum(quorum: Quorum) -> object:
    return omit_empty(
        approvers=list(quorum.approvers),
        votes=quorum.votes,
        not_requester=quorum.not_requester,
        requester=quorum.requester,
    )


def _read_quorum(fields: FieldReader, name: str) -> Quorum | None:
    return fields.nested_or_none(name, _read_quorum_fields)


def _read_quorum_fields(value: object, where: str) -> Quorum:
    from continuations.core.quorum import Quorum  # noqa: PLC0415 - rarely needed

    fields = FieldReader(value, where)
    quorum = Quorum(
        approvers=fields.texts("approvers"),
        votes=fields.number("votes"),
        not_requester=fields.flag("not_requester"),
        requester=fields.text_or_none("requester"),
    )
    fields.check_all_read()
    if quorum.votes < 1:
        raise invalid_object(where, "it must need a vote")
    return quorum


def _read_labels(fields: FieldReader, name: str) -> tuple[tuple[str, str], ...]:
    stored = fields.mapping(name)
    if not all(is_label(*item) for item in stored.items()):
        where = f"{fields.where}.{name}"
        raise invalid_object(where, "it must map names to values of labels")
    return tuple(sorted(cast("dict[str, str]", stored).items()))


def _read_signals(fields: FieldReader, name: str) -> tuple[KeptSignal, ...]:
    return tuple(fields.list_of(name, _read_signal))


def _read_signal(value: object, where: str) -> KeptSignal:
    match value:
        case [int() as number, str() as name] if type(number) is int and number > 0:
            return KeptSignal(number, name)
        case _:
            raise invalid_object(where, "it must be a signal's number and name")


def _read_event_id(fields: FieldReader, name: str) -> str | None:
    event_id = fields.text_or_none(name)
    if event_id is None or is_ulid(event_id):
        return event_id
    raise invalid_object(f"{fields.where}.{name}", "it must be the id of an event")


def _read_event_ids(fields: FieldReader, name: str) -> tuple[str, ...]:
    event_ids = fields.texts(name)
    if all(map(is_ulid, event_ids)):
        return event_ids
    raise invalid_object(f"{fields.where}.{name}", "it must be a list of ids of events")


TEXT = Codec(_unchanged, FieldReader.text_or_none)
# A missing text is empty.
OPTIONAL_TEXT = Codec(_unchanged, lambda fields, name: fields.text_or_none(name) or "")
TEXTS = Codec(list, FieldReader.texts)
FLAG = Codec(_unchanged, FieldReader.flag)
# A missing number is 0.
NUMBER = Codec(_unchanged, lambda fields, name: fields.number(name, 0))
BINARY = Codec(_unchanged, FieldReader.binary_or_none)
TIME = Codec(to_milliseconds, FieldReader.timestamp_or_none)
# The text of any JSON value, or of a JSON object.
JSON_TEXT = Codec(_unchanged, FieldReader.json_or_none)
JSON_OBJECT_TEXT = Codec(_unchanged, FieldReader.json_object_or_none)
SIGNALS = Codec(
    lambda kept: [[signal.number, signal.name] for signal in kept], _read_signals
)
DISPLAY = Codec(late("display_fields", "write"), late("display_fields", "read"))
QUORUM = Codec(_write_quorum, _read_quorum)
DEADLINE_ACTION = Codec(_unchanged, _read_deadline_action)
LABELS = Codec(dict, _read_labels)
EVENT_ID = Codec(_unchanged, _read_event_id)
EVENT_IDS = Codec(list, _read_event_ids)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NewField:
    """A stored field that a later format introduced.

    Attributes:
        format: Number of the format.
        name: Name of the stored field.
        codec: How the field is stored.
        attribute: Name of the attribute of the dataclass, if it is not `name`.
        constant: The field of a run never changes, so only full copies store it.
    """

    format: int
    name: str
    codec: Codec
    attribute: str = ""
    constant: bool = False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NewValue:
    """A value of an older field that a later format introduced.

    Attributes:
        format: Number of the format.
        is_in: Tells whether a stored row has the value. The row may be damaged, so the
            function must not raise for values of a wrong type.
    """

    format: int
    is_in: Callable[[Mapping[str, object]], bool]


# By the kind of row or record.
NEW_FIELDS: dict[str, tuple[NewField, ...]] = {
    "version header": (
        NewField(2, "from_zero", FLAG),
        NewField(2, "base_object", BINARY),
    ),
    "wait": (
        NewField(2, "approve_after", TIME),
        NewField(3, "question", TEXT),
        NewField(3, "answer_schema", JSON_OBJECT_TEXT, attribute="answer_schema_json"),
        NewField(3, "event", TEXT),
        NewField(3, "event_key", TEXT),
        NewField(3, "stage", NUMBER),
        NewField(3, "on_deadline", DEADLINE_ACTION, attribute="on_deadline_json"),
        NewField(3, "continues", FLAG),
        NewField(3, "events_taken", EVENT_IDS),
        NewField(3, "frame", OPTIONAL_TEXT, attribute="frame_id"),
        NewField(3, "display", DISPLAY),
        NewField(3, "quorum", QUORUM),
        NewField(3, "remind_after", NUMBER),
    ),
    "frame": (
        NewField(3, "failed_requests", NUMBER),
        NewField(3, "pending_reply", TEXT),
        NewField(3, "polls", NUMBER),
    ),
    "run": (
        NewField(3, "title", TEXT, constant=True),
        NewField(3, "labels", LABELS, constant=True),
        NewField(3, "requester", TEXT, constant=True),
        NewField(3, "last_signal", NUMBER, attribute="last_signal_number"),
        NewField(3, "signals", SIGNALS),
        NewField(3, "events_taken", EVENT_IDS),
        NewField(3, "last_operator", NUMBER, attribute="last_operator_number"),
    ),
    "decision": (
        NewField(3, "signal", NUMBER),
        NewField(3, "groups", TEXTS),
        NewField(3, "shown", TEXT),
        NewField(3, "event", EVENT_ID),
        NewField(3, "voters", TEXTS),
        NewField(3, "door", TEXT),
        NewField(3, "authentication", TEXT),
        NewField(3, "rule", TEXT),
    ),
    "cancellation": (
        NewField(3, "door", TEXT),
        NewField(3, "authentication", TEXT),
    ),
    "signal": (
        NewField(3, "door", TEXT),
        NewField(3, "authentication", TEXT),
    ),
    "operator request": (
        NewField(3, "door", TEXT),
        NewField(3, "authentication", TEXT),
    ),
    "call": (
        NewField(3, "stage", NUMBER),
        NewField(3, "answer", JSON_TEXT),
        NewField(3, "secrets", TEXTS),
        NewField(3, "quorum", QUORUM),
        NewField(3, "cancelled", TEXT),
    ),
}


def _answers_an_approval(decision: Mapping[str, object]) -> bool:
    # Format 1 has answers to unknown outcomes only.
    wait_id = decision.get("wait")
    is_approval = isinstance(wait_id, str) and wait_id.startswith("approval-")
    return is_approval and decision.get("kind") == "answer"


# The kinds of waits that format 3 introduced.
_NEW_KINDS = ("event", "external", "question", "timer", "model", "operator")


def _has_new_kind(wait: Mapping[str, object]) -> bool:
    return wait.get("kind") in _NEW_KINDS


def _decides_new_kind(decision: Mapping[str, object]) -> bool:
    return str(decision.get("wait")).partition("-")[0] in _NEW_KINDS


NEW_VALUES: dict[str, tuple[NewValue, ...]] = {
    "decision": (
        NewValue(2, _answers_an_approval),
        NewValue(3, _decides_new_kind),
    ),
    "wait": (NewValue(3, _has_new_kind),),
    # Earlier formats have no signals, no published events, no slots and no requests.
    "event": (NewValue(3, lambda _: True),),
    "signal": (NewValue(3, lambda _: True),),
    "tombstone": (NewValue(3, lambda _: True),),
    "tombstone header": (NewValue(3, lambda _: True),),
    "slot": (NewValue(3, lambda _: True),),
    "operator request": (NewValue(3, lambda _: True),),
    "state": (NewValue(3, lambda state: state.get("kind") == "parked"),),
}

# Kind -> field -> kind of the rows in that field.
_INNER_KINDS = {
    "delta": {
        "run": "run",
        "frames": "frame",
        "calls": "call",
        "waits": "wait",
        "logs": "log",
    },
    "run": {
        "claim": "claim",
        "usage": "usage",
        "budget": "budget",
        "failure": "failure",
    },
    "call": {"state": "state"},
}
# The body of every other object is one row of the object's own kind.
_BODY_KINDS = {"version": "delta", "continuation": "delta"}


def fields_of(kind: str, row: object, *, full_copy: bool = True) -> dict[str, object]:
    """Return the stored form of the attributes that later formats introduced."""
    stored: dict[str, object] = {}
    for field in NEW_FIELDS.get(kind, ()):
        if field.constant and not full_copy:
            continue
        value = getattr(row, field.attribute or field.name)
        stored[field.name] = field.codec.write(value) if value else None
    return omit_empty(**stored)


def read_fields(
    kind: str, fields: FieldReader, base: object | None = None
) -> dict[str, Any]:
    """Read the fields that later formats introduced; return the attributes by name.

    `base` is the row that a delta starts from. It has the fields that never change.
    """
    attributes: dict[str, Any] = {}
    for field in NEW_FIELDS.get(kind, ()):
        name = field.attribute or field.name
        if field.constant and base is not None:
            attributes[name] = getattr(base, name)
        else:
            attributes[name] = field.codec.read(fields, field.name)
    return attributes


def lowest_format(header: Mapping[str, object], body: object) -> int:
    """Return the lowest format that has all fields and values of an object.

    The header and the body are stored values. They may be damaged: the readers check
    their types later.
    """
    kind = str(header.get("kind"))
    needed = _format_of_row(f"{kind} header", header)
    return max(needed, _format_of_row(_BODY_KINDS.get(kind, kind), body))


def _format_of_row(kind: str, row: object) -> int:
    if not isinstance(row, dict):
        return FIRST_FORMAT
    fields = cast("dict[str, object]", row)
    needed = FIRST_FORMAT
    for new in NEW_FIELDS.get(kind, ()):
        if new.name in fields:
            needed = max(needed, new.format)
    for value in NEW_VALUES.get(kind, ()):
        if value.is_in(fields):
            needed = max(needed, value.format)
    for name, inner in _INNER_KINDS.get(kind, {}).items():
        if not _has_changed(inner):
            continue
        for each in _rows_in(fields.get(name), inner):
            needed = max(needed, _format_of_row(inner, each))
    return needed


def _has_changed(kind: str) -> bool:
    """Tell whether a later format changed rows of this kind, or rows within them."""
    inner = _INNER_KINDS.get(kind, {}).values()
    return kind in NEW_FIELDS or kind in NEW_VALUES or any(map(_has_changed, inner))


def _rows_in(value: object, kind: str) -> Iterable[object]:
    if isinstance(value, list):
        return cast("list[object]", value)
    if kind == "log" and isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return (value,)
