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

Kinds are `delta` (of two versions), `run`, `claim`, `usage`, `budget`, `failure`,
`frame`, `log`, `call`, `wait`, `decision`, `cancellation`, `message` (of the inbox),
`signal`, `event`, `slot`, `operator request`, `revocation` and `version header`.
`NEW_VALUES` also has `state` (of a call). A wait has the same fields in its object and
in a version.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from continuations.value_class import dataclass
from continuations.wire.field_codecs import (
    AMOUNT,
    BINARY,
    CONDITION_COUNTS,
    COST,
    DEADLINE_ACTION,
    DENIAL_COUNTS,
    DISPLAY,
    EVENT_ID,
    EVENT_IDS,
    FILES,
    FLAG,
    GIVEN_GRANT,
    GRANTS,
    HELD_REPLY,
    HISTORY,
    JSON_OBJECT_TEXT,
    JSON_TEXT,
    LABELS,
    METADATA,
    NAMES_TEXT,
    NUMBER,
    NUMBERS,
    OPTIONAL_TEXT,
    PARTS,
    QUORUM,
    SIGNALS,
    STATES,
    TEXT,
    TEXTS,
    TIME,
    TRIPS,
    USAGE,
    WHEN_BUSY_TEXT,
    NewField,
)
from continuations.wire.fields import FieldReader, omit_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

FORMATS = {
    1: "2026-11: the first",
    2: "2026-11: the fields and values below",
    3: "2026-11: tools that wait, and how runs are described",
}
FIRST_FORMAT, NEWEST_FORMAT = min(FORMATS), max(FORMATS)


@dataclass(frozen=True, slots=True)
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
        NewField(3, "inbox", NUMBER),
        NewField(3, "answered", NUMBER),
        NewField(3, "replies", NUMBERS),
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
        NewField(3, "editable", NAMES_TEXT, attribute="editable_json"),
        NewField(3, "cancels", FLAG),
        NewField(3, "events_taken", EVENT_IDS),
        NewField(3, "frame", OPTIONAL_TEXT, attribute="frame_id"),
        NewField(3, "display", DISPLAY),
        NewField(3, "quorum", QUORUM),
        NewField(3, "remind_after", NUMBER),
        NewField(3, "form_schema", JSON_OBJECT_TEXT, attribute="form_schema_json"),
    ),
    "frame": (
        NewField(3, "failed_requests", NUMBER),
        NewField(3, "woken_until", TIME),
        NewField(3, "pending_reply", TEXT),
        NewField(3, "polls", NUMBER),
        NewField(3, "model_error", TEXT),
        NewField(3, "watched_since", TIME),
        NewField(3, "counts", CONDITION_COUNTS),
        NewField(3, "earlier_turns", NUMBER),
        NewField(3, "denials", DENIAL_COUNTS),
        NewField(3, "retries", NUMBER),
        NewField(3, "continues", NUMBER),
        NewField(3, "trips", TRIPS),
        NewField(3, "history", HISTORY),
        NewField(3, "accepted_input", TEXT),
        NewField(3, "held_reply", HELD_REPLY),
    ),
    "run": (
        NewField(3, "title", TEXT, constant=True),
        NewField(3, "labels", LABELS, constant=True),
        NewField(3, "requester", TEXT, constant=True),
        NewField(3, "last_signal", NUMBER, attribute="last_signal_number"),
        NewField(3, "signals", SIGNALS),
        NewField(3, "events_taken", EVENT_IDS),
        NewField(3, "last_operator", NUMBER, attribute="last_operator_number"),
        NewField(3, "grants", GRANTS),
        NewField(3, "last_revocation", NUMBER, attribute="last_revocation_number"),
        NewField(3, "revoked_grants", TEXTS),
        NewField(3, "thread", TEXT, attribute="thread_key", constant=True),
        NewField(3, "answered", NUMBER),
        NewField(3, "sender", TEXT),
        NewField(3, "earlier_usage", USAGE),
        NewField(3, "stopping", TEXT),
        NewField(3, "reads_next", NUMBER),
        NewField(3, "max_depth", NUMBER, constant=True),
        NewField(
            3, "settings", JSON_OBJECT_TEXT, attribute="settings_json", constant=True
        ),
        NewField(3, "forked_from", TEXT, constant=True),
        NewField(3, "rewind_to", NUMBER),
        NewField(3, "doubtful_tools", TEXTS),
        NewField(3, "requesters", TEXTS),
    ),
    "log": (NewField(3, "metadata", METADATA),),
    "usage": (
        NewField(3, "cost", COST, attribute="cost_units"),
        NewField(3, "priced", NUMBER),
        NewField(3, "currency", OPTIONAL_TEXT),
    ),
    "budget": (
        NewField(3, "cost", AMOUNT),
        NewField(3, "currency", OPTIONAL_TEXT),
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
        NewField(3, "grant", GIVEN_GRANT, attribute="grant_json"),
        NewField(3, "form", JSON_OBJECT_TEXT),
    ),
    "cancellation": (
        NewField(3, "door", TEXT),
        NewField(3, "authentication", TEXT),
    ),
    "signal": (
        NewField(3, "door", TEXT),
        NewField(3, "authentication", TEXT),
        NewField(3, "keyed", FLAG),
    ),
    "message": (
        NewField(3, "when_busy", WHEN_BUSY_TEXT),
        NewField(3, "closes", FLAG),
        NewField(3, "unread_bytes", NUMBER),
    ),
    "operator request": (
        NewField(3, "message", NUMBER, attribute="message_number"),
        NewField(3, "signal_name", TEXT),
        NewField(3, "signal_number", NUMBER),
        NewField(3, "door", TEXT),
        NewField(3, "authentication", TEXT),
    ),
    "delta": (NewField(3, "states", STATES), NewField(3, "files", FILES)),
    "call": (
        NewField(3, "patch", JSON_OBJECT_TEXT),
        NewField(3, "stage", NUMBER),
        NewField(3, "answer", JSON_TEXT),
        NewField(3, "secrets", TEXTS),
        NewField(3, "quorum", QUORUM),
        NewField(3, "cancelled", TEXT),
        NewField(3, "grant", TEXT),
        NewField(3, "form", JSON_OBJECT_TEXT),
        NewField(3, "parts", PARTS, attribute="parts_json"),
        NewField(3, "answer_used_in", TEXT),
    ),
}


def _answers_an_approval(decision: Mapping[str, object]) -> bool:
    # Format 1 has answers to unknown outcomes only.
    wait_id = decision.get("wait")
    is_approval = isinstance(wait_id, str) and wait_id.startswith("approval-")
    return is_approval and decision.get("kind") == "answer"


# The kinds of waits that format 3 introduced.
_NEW_KINDS = (
    "event",
    "external",
    "question",
    "timer",
    "model",
    "operator",
    "input",
    "output",
)


def _has_new_kind(wait: Mapping[str, object]) -> bool:
    return wait.get("kind") in _NEW_KINDS


def _decides_new_kind(decision: Mapping[str, object]) -> bool:
    return str(decision.get("wait")).partition("-")[0] in _NEW_KINDS


def _rests(row: Mapping[str, object]) -> bool:
    return row.get("status") == "resting"


def _log_has_attachments(log: Mapping[str, object]) -> bool:
    from continuations.core.messages import refers_to_attachment  # noqa: PLC0415 - not to decide

    texts = log.get("add")
    return type(texts) is list and refers_to_attachment(cast("list[object]", texts))


def _message_has_attachments(message: Mapping[str, object]) -> bool:
    from continuations.core.messages import refers_to_attachment  # noqa: PLC0415 - as above

    return refers_to_attachment([message.get("message")])


NEW_VALUES: dict[str, tuple[NewValue, ...]] = {
    "run": (NewValue(3, _rests),),
    "version header": (NewValue(3, _rests),),
    "decision": (
        NewValue(2, _answers_an_approval),
        NewValue(3, _decides_new_kind),
    ),
    "wait": (NewValue(3, _has_new_kind),),
    "log": (NewValue(3, _log_has_attachments),),
    "message": (NewValue(3, _message_has_attachments),),
    # Earlier formats have none of these objects.
    "event": (NewValue(3, lambda _: True),),
    "file": (NewValue(3, lambda _: True),),
    "file header": (NewValue(3, lambda _: True),),
    "message id": (NewValue(3, lambda _: True),),
    "signal id": (NewValue(3, lambda _: True),),
    "signal": (NewValue(3, lambda _: True),),
    "tombstone": (NewValue(3, lambda _: True),),
    "tombstone header": (NewValue(3, lambda _: True),),
    "slot": (NewValue(3, lambda _: True),),
    "operator request": (NewValue(3, lambda _: True),),
    "revocation": (NewValue(3, lambda _: True),),
    "state": (NewValue(3, lambda state: state.get("kind") == "parked"),),
}

# By kind: the fields, the function that reads their attributes in one call, and names.
_KNOWN: dict[
    str, tuple[tuple[NewField, ...], Callable[[Any], Any], frozenset[str]]
] = {}

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
    fields, getter, _ = _known_fields(kind)
    stored: dict[str, object] = {}
    for field, value in zip(fields, getter(row)[2:], strict=True):
        if value and (full_copy or not field.constant):
            stored[field.name] = field.codec.write(value)
    return omit_empty(**stored) if stored else stored


def _known_fields(
    kind: str,
) -> tuple[tuple[NewField, ...], Callable[[Any], Any], frozenset[str]]:
    fields = NEW_FIELDS.get(kind, ())
    known = _KNOWN.get(kind)
    if known is None or known[0] is not fields:
        # Twice the class: with one name, a getter returns no tuple.
        attributes = [field.attribute or field.name for field in fields]
        getter = attrgetter("__class__", "__class__", *attributes)
        names = frozenset([field.name for field in fields])
        known = _KNOWN[kind] = (fields, getter, names)
    return known


def read_fields(
    kind: str, fields: FieldReader, base: object | None = None
) -> dict[str, Any]:
    """Read the fields that later formats introduced; return the attributes by name.

    `base` is the row that a delta starts from. It has the fields that never change.
    """
    attributes: dict[str, Any] = {}
    present = fields.names
    new_fields, _, names = _known_fields(kind)
    if base is None and names.isdisjoint(present):
        return attributes
    for field in new_fields:
        name = field.attribute or field.name
        if field.constant and base is not None:
            attributes[name] = getattr(base, name)
        elif field.name in present:
            # A missing field has the default of the dataclass.
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
    new_fields, _, names = _known_fields(kind)
    if not names.isdisjoint(fields):
        needed = max(new.format for new in new_fields if new.name in fields)
    for value in NEW_VALUES.get(kind, ()):
        if value.is_in(fields):
            needed = max(needed, value.format)
    for name, inner in _INNER_KINDS.get(kind, {}).items():
        rows = fields.get(name)
        if rows is not None:
            for each in _rows_in(rows, inner):
                needed = max(needed, _format_of_row(inner, each))
    return needed


def _rows_in(value: object, kind: str) -> Iterable[object]:
    if isinstance(value, list):
        return cast("list[object]", value)
    if kind == "log" and isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return (value,)
