"""How the fields that later formats introduced are stored: one codec for each type."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from continuations.core import jsontext
from continuations.core.ulid import is_ulid
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
    if text is None:
        return None
    from continuations.core import deadline_actions  # noqa: PLC0415 - few waits have one

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
        requesters=list(quorum.requesters),
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
        requesters=fields.texts("requesters"),
    )
    fields.check_all_read()
    if quorum.votes < 1:
        raise invalid_object(where, "it must need a vote")
    return quorum


def _read_metadata(fields: FieldReader, name: str) -> tuple[tuple[int, str], ...]:
    return tuple(fields.list_of(name, _read_metadata_of_message))


def _read_metadata_of_message(value: object, where: str) -> tuple[int, str]:
    match value:
        case [int() as position, str() as text] if is_count(position):
            fields = FieldReader({"facts": text}, where)
            return position, fields.json_object_or_none("facts") or "{}"
        case _:
            why = "it must be a position and the text of a JSON object"
            raise invalid_object(where, why)


def is_count(value: object) -> bool:
    """Return whether a stored value is a number of at least 0."""
    return type(value) is int and value >= 0


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


def _of_run(name: str) -> Codec:
    """Return a codec of `run_codecs`, which its first use imports."""

    def codec() -> Codec:
        module = import_module("continuations.wire.run_codecs")
        found: Codec = getattr(module, name)
        return found

    return Codec(
        lambda value: codec().write(value),
        lambda fields, key: codec().read(fields, key),
    )


TEXT = Codec(_unchanged, FieldReader.text_or_none)
# A missing text is empty.
OPTIONAL_TEXT = Codec(_unchanged, lambda fields, name: fields.text_or_none(name) or "")
TEXTS = Codec(list, FieldReader.texts)
FLAG = Codec(_unchanged, FieldReader.flag)
# A missing number is 0.
NUMBER = Codec(_unchanged, lambda fields, name: fields.number(name, 0))
NUMBERS = Codec(list, FieldReader.numbers)
BINARY = Codec(_unchanged, FieldReader.binary_or_none)
TIME = Codec(to_milliseconds, FieldReader.timestamp_or_none)
# The text of any JSON value, or of a JSON object.
JSON_TEXT = Codec(_unchanged, FieldReader.json_or_none)
JSON_OBJECT_TEXT = Codec(_unchanged, FieldReader.json_object_or_none)
SIGNALS = _of_run("SIGNALS")
DISPLAY = Codec(late("display_fields", "write"), late("display_fields", "read"))
QUORUM = Codec(_write_quorum, _read_quorum)
CONDITION_COUNTS = _of_run("CONDITION_COUNTS")
HISTORY = _of_run("HISTORY")
DENIAL_COUNTS = _of_run("DENIAL_COUNTS")
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
LABELS = _of_run("LABELS")
METADATA = Codec(lambda pairs: [list(pair) for pair in pairs], _read_metadata)
# The text of a JSON array of names, which may be empty.
NAMES_TEXT = Codec(_unchanged, _read_names)
COST = _of_run("COST")
AMOUNT = _of_run("AMOUNT")
WHEN_BUSY_TEXT = _of_run("WHEN_BUSY_TEXT")
USAGE = _of_run("USAGE")
# The texts of JSON objects, by the ids of frames.
STATES = Codec(
    lambda states: {key: text or "{}" for key, text in states.items()}, _read_states
)
EVENT_ID = Codec(_unchanged, _read_event_id)
EVENT_IDS = Codec(list, _read_event_ids)
