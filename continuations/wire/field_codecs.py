"""How the fields that later formats introduced are stored: one codec for each type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from continuations.core import deadline_actions, jsontext
from continuations.core.frames import (
    ConditionCount,
    DenialCount,
    HistoryRecord,
)
from continuations.core.run import WHEN_BUSY, KeptSignal, is_label
from continuations.core.ulid import is_ulid
from continuations.core.usage import USAGE_COUNTS, Usage, text_units, units_text
from continuations.value_class import dataclass
from continuations.wire.fields import (
    FieldReader,
    invalid_object,
    late,
    omit_empty,
    to_milliseconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from continuations.core.quorum import Quorum


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


def _read_metadata(fields: FieldReader, name: str) -> tuple[tuple[int, str], ...]:
    return tuple(fields.list_of(name, _read_metadata_of_message))


def _read_metadata_of_message(value: object, where: str) -> tuple[int, str]:
    match value:
        case [int() as position, str() as text] if _is_count(position):
            fields = FieldReader({"facts": text}, where)
            return position, fields.json_object_or_none("facts") or "{}"
        case _:
            why = "it must be a position and the text of a JSON object"
            raise invalid_object(where, why)


def _read_labels(fields: FieldReader, name: str) -> tuple[tuple[str, str], ...]:
    stored = fields.mapping(name)
    if not all(is_label(*item) for item in stored.items()):
        where = f"{fields.where}.{name}"
        raise invalid_object(where, "it must map names to values of labels")
    return tuple(sorted(cast("dict[str, str]", stored).items()))


def _read_signals(fields: FieldReader, name: str) -> tuple[KeptSignal, ...]:
    return tuple(fields.list_of(name, _read_signal))


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _read_count(value: object, where: str) -> ConditionCount:
    match value:
        case [str() as name, int() as turns, int() as at] if _is_count(turns):
            since = FieldReader({"since": at}, where).timestamp("since")
            return ConditionCount(name, turns, since)
        case _:
            why = "it must be a condition's name, its turns and a time"
            raise invalid_object(where, why)


def _read_history(fields: FieldReader, name: str) -> HistoryRecord | None:
    numbers: tuple[Any, ...] = fields.list_of(name, lambda value, _: value)
    if not numbers:
        return None
    if len(numbers) != len(_HISTORY_NUMBERS) or not all(map(_is_count, numbers)):
        why = f"it must have {len(_HISTORY_NUMBERS)} numbers of at least 0"
        raise invalid_object(f"{fields.where}.{name}", why)
    return HistoryRecord(*numbers)


def _read_denials(value: object, where: str) -> DenialCount:
    match value:
        case [str() as tool, str() as digest, int() as count] if _is_count(count):
            return DenialCount(tool, digest, count)
        case _:
            raise invalid_object(where, "it must be a tool, a digest and a number")


def _read_signal(value: object, where: str) -> KeptSignal:
    match value:
        case [int() as number, str() as name] if type(number) is int and number > 0:
            return KeptSignal(number, name)
        case _:
            raise invalid_object(where, "it must be a signal's number and name")


def _read_given_grant(fields: FieldReader, name: str) -> str | None:
    text = fields.json_object_or_none(name)
    if text is not None:
        from continuations.core.grants import parse_grant_text  # noqa: PLC0415 - rarely given

        try:
            parse_grant_text(text)
        except jsontext.NotJson as error:
            raise invalid_object(f"{fields.where}.{name}", str(error)) from None
    return text


def _read_names(fields: FieldReader, name: str) -> str | None:
    text = fields.json_or_none(name)
    if text is None:
        return None
    names = jsontext.parse(text)
    is_list = isinstance(names, list)
    if is_list and all(type(each) is str for each in cast("list[object]", names)):
        return text
    raise invalid_object(f"{fields.where}.{name}", "it must be a list of names")


def _write_usage(usage: Usage) -> object:
    counts: list[object] = [getattr(usage, name) for name in USAGE_COUNTS]
    if usage.currency:
        counts += [usage.priced, units_text(usage.cost_units), usage.currency]
    return counts


def _read_usage(fields: FieldReader, name: str) -> Usage:
    where = f"{fields.where}.{name}"
    values = fields.list_of(name, lambda value, _: value)
    counts: dict[str, Any] = dict(zip((*USAGE_COUNTS, "priced"), values, strict=False))
    if not all(map(_is_count, counts.values())):
        raise invalid_object(where, "it must begin with numbers of at least 0")
    cost = values[len(USAGE_COUNTS) + 1 :]
    match cost:
        case []:
            return Usage(**counts)
        case [str() as text, str() as currency] if currency:
            units = _units_of(text, where)
            return Usage(**counts, cost_units=units, currency=currency)
        case _:
            raise invalid_object(where, "it must end with a cost and its currency")


def _units_of(text: str, where: str) -> int:
    if len(text) <= _MAX_COST_CHARS:
        try:
            units = text_units(text)
        except ValueError:
            pass
        else:
            if text == units_text(units):
                return units
    raise invalid_object(where, "it must be a cost with at most 12 decimal places")


def _read_cost(fields: FieldReader, name: str) -> int:
    text = fields.text_or_none(name)
    return 0 if text is None else _units_of(text, f"{fields.where}.{name}")


def _read_amount(fields: FieldReader, name: str) -> object:
    text = fields.text_or_none(name)
    if text is None:
        return None
    where = f"{fields.where}.{name}"
    from decimal import Decimal  # noqa: PLC0415 - few runs have such a budget

    if len(text) <= _MAX_COST_CHARS:
        try:
            text_units(text)
        except ValueError:
            pass
        else:
            return Decimal(text)
    raise invalid_object(where, "it must be an amount of money")


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


def _read_states(fields: FieldReader, name: str) -> dict[str, str]:
    stored = FieldReader(fields.mapping(name), f"{fields.where}.{name}")
    texts = {key: stored.json_object(key) for key in list(stored.names)}
    return {key: "" if text == "{}" else text for key, text in texts.items()}


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
CONDITION_COUNTS = Codec(
    lambda counts: [[c.name, c.turns, to_milliseconds(c.since)] for c in counts],
    lambda fields, name: tuple(fields.list_of(name, _read_count)),
)
# The order is part of the format.
_HISTORY_NUMBERS = (
    "tokens",
    "counted",
    "summary_number",
    "attempt_above",
    "tokens_before",
    "replaced",
)
HISTORY = Codec(
    lambda record: [getattr(record, name) for name in _HISTORY_NUMBERS], _read_history
)
DENIAL_COUNTS = Codec(
    lambda denials: [[each.tool, each.digest, each.count] for each in denials],
    lambda fields, name: tuple(fields.list_of(name, _read_denials)),
)
FILES = Codec(dict, late("file_parts", "read_files"))
PARTS = Codec(late("file_parts", "write"), late("file_parts", "read"))
HELD_REPLY = Codec(
    late("held_reply_fields", "write"), late("held_reply_fields", "read")
)
TRIPS = Codec(late("trip_fields", "write"), late("trip_fields", "read"))
DEADLINE_ACTION = Codec(_unchanged, _read_deadline_action)
GRANTS = Codec(
    late("grant_fields", "write_grants"),
    lambda fields, name: tuple(
        fields.list_of(name, late("grant_fields", "read_grant"))
    ),
)
GIVEN_GRANT = Codec(_unchanged, _read_given_grant)
LABELS = Codec(dict, _read_labels)
METADATA = Codec(lambda pairs: [list(pair) for pair in pairs], _read_metadata)
# The text of a JSON array of names, which may be empty.
NAMES_TEXT = Codec(_unchanged, _read_names)
# The longest text of a cost or an amount that is read.
_MAX_COST_CHARS = 60
COST = Codec(units_text, _read_cost)
AMOUNT = Codec(lambda amount: f"{amount:f}", _read_amount)
# The effect of a message on a busy thread; a missing text is empty: the message waits.
WHEN_BUSY_TEXT = Codec(
    _unchanged, lambda fields, name: fields.one_of(name, WHEN_BUSY - {"queue"})
)
USAGE = Codec(_write_usage, _read_usage)
# The texts of JSON objects, by the ids of frames.
STATES = Codec(
    lambda states: {key: text or "{}" for key, text in states.items()}, _read_states
)
EVENT_ID = Codec(_unchanged, _read_event_id)
EVENT_IDS = Codec(list, _read_event_ids)
