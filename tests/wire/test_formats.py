"""A later format: written only where it is needed, and refused by older releases.

There is one format so far. The tests add a synthetic format 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from continuations.errors import Corrupt, FormatError, NewerFormat
from continuations.wire import envelope, fields
from continuations.wire.arrivals import (
    CANCEL_REQUEST,
    EVENT,
    MESSAGE,
    REVOCATION,
    SIGNAL,
)
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import (
    decode_object,
    encode_object,
    format_number,
    object_digest,
)
from continuations.wire.fields import OBJECTS, TEXT, Field, NewValue, Row, lowest_format
from continuations.wire.records import DECISION, WAIT_ROW
from continuations.wire.rows import (
    BUDGET,
    CALL,
    CLAIM,
    DELTA,
    FAILURE,
    FRAME,
    LOG,
    RUN,
    STATE,
    USAGE,
)
from continuations.wire.versions import VERSION_HEADER, decode_header, decode_version
from tests.core.rows import RUN as RUN_ID
from tests.core.rows import make_decision, nested_agents

NAME = "runs/r1/v/9999999998"
DIGEST_BYTES = 16


def with_format(data: bytes, number: int) -> bytes:
    """Return the object with another format number and the right digest."""
    changed = data[:4] + number.to_bytes(2, "big") + data[6:-DIGEST_BYTES]
    return changed + object_digest(changed)


def know_formats(patch: pytest.MonkeyPatch, newest: int) -> None:
    """Let the release know the formats up to one."""
    table = dict.fromkeys(range(1, newest + 1), "test")
    patch.setattr(envelope, "FORMATS", table)
    for module in (envelope, fields):
        patch.setattr(module, "NEWEST_FORMAT", newest)


COLOUR = TEXT.since(2)


def add_field(patch: pytest.MonkeyPatch, row: Any, field: Field = COLOUR) -> None:
    """Add the field `colour` to a table."""
    table: Any = row
    fields = {**table.fields, "colour": field}
    if isinstance(row, Row):
        made: Any = row.make
        later: Row[Any] = Row(row.kind, made, row.newer, **fields)
        for name, value in vars(later).items():
            patch.setattr(table, name, value)
    else:
        patch.setattr(table, "fields", fields)


@pytest.fixture(name="patch")
def format_2(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let the release know format 2, in which nothing is new yet."""
    know_formats(monkeypatch, 2)
    return monkeypatch


def is_red(stored: Mapping[str, object]) -> bool:
    """Return whether a stored mapping is one of those that the tests mark."""
    return stored.get("colour") == "red"


# Rows in every place of an object ---------------------------------------------

_MARKED = {"colour": "red"}
_PLACES: dict[str, tuple[Any, str, object]] = {
    "run": (RUN, "version", {"run": _MARKED}),
    "claim": (CLAIM, "version", {"run": {"claim": _MARKED}}),
    "usage": (USAGE, "version", {"run": {"usage": _MARKED}}),
    "budget": (BUDGET, "version", {"run": {"budget": _MARKED}}),
    "failure": (FAILURE, "continuation", {"run": {"failure": _MARKED}}),
    "frame": (FRAME, "version", {"frames": [{}, _MARKED]}),
    "log": (LOG, "version", {"logs": {"f1": {}, "f2": _MARKED}}),
    "call": (CALL, "continuation", {"calls": [{}, _MARKED]}),
    "state": (STATE, "version", {"calls": [{"state": _MARKED}]}),
    "wait": (WAIT_ROW, "version", {"waits": [_MARKED]}),
    "wait object": (WAIT_ROW, "wait", _MARKED),
    "delta": (DELTA, "version", _MARKED),
    "decision": (DECISION.row, "decision", _MARKED),
    "vote": (DECISION.row, "slot", {"vote": _MARKED}),
    **{
        record.row.kind: (record.row, record.row.kind, _MARKED)
        for record in (CANCEL_REQUEST, MESSAGE, SIGNAL, EVENT, REVOCATION)
    },
}


@pytest.mark.parametrize("kind", _PLACES)
def test_new_field_is_found_in_every_kind_of_row(
    kind: str, patch: pytest.MonkeyPatch
) -> None:
    row, object_kind, body = _PLACES[kind]
    before = lowest_format({"kind": object_kind}, body)
    add_field(patch, row)

    data = encode_object({"kind": object_kind}, body)

    assert (1, 2) == (before, format_number(data))


@pytest.mark.parametrize("kind", _PLACES)
def test_new_value_is_found_in_every_kind_of_row(
    kind: str, patch: pytest.MonkeyPatch
) -> None:
    row, object_kind, body = _PLACES[kind]
    red = NewValue(2, is_red)
    patch.setattr(row, "newer", (red,))

    assert 2 == lowest_format({"kind": object_kind}, body)


def test_new_field_is_found_in_a_header(patch: pytest.MonkeyPatch) -> None:
    add_field(patch, VERSION_HEADER)

    assert 2 == lowest_format({"kind": "version", "colour": "red"}, {})


@pytest.mark.parametrize("kind", ["run", "frame", "call"])
def test_key_of_a_mapping_in_a_field_is_no_field(
    kind: str, patch: pytest.MonkeyPatch
) -> None:
    """Labels, states and logs have keys of people and frames."""
    add_field(patch, _PLACES[kind][0])
    body = {"run": {"labels": _MARKED}, "states": _MARKED, "logs": _MARKED}

    assert 1 == lowest_format({"kind": "version"}, body)


@pytest.mark.usefixtures("patch")
@pytest.mark.parametrize(
    "body",
    [None, 7, [], {"run": []}, {"calls": {"a": 1}}, {"logs": [3]}, {"frames": None}],
)
@pytest.mark.parametrize("header", [{}, {"kind": 3}, {"kind": ["version"]}])
def test_lowest_format_accepts_values_of_a_wrong_type(
    header: dict[str, object], body: object
) -> None:
    """The readers reject them later."""
    assert 1 == lowest_format(header, body)
    assert 1 == lowest_format({"kind": "version"}, body)


def rows() -> Iterator[Any]:
    """Return each table, with those of inner mappings."""
    waiting: list[Any] = [row for pair in OBJECTS.values() for row in pair]
    seen: list[Any] = []
    while waiting:
        row = waiting.pop()
        if row not in seen:
            seen.append(row)
            fields = row.fields.values()
            waiting += [field.row() for field in fields if field.row is not None]
    return iter(seen)


def test_fields_have_existing_formats() -> None:
    found = list(rows())

    assert {RUN, FRAME, CALL, STATE, LOG, WAIT_ROW, DECISION.row} <= set(found)
    for row in found:
        assert {field.format for field in row.fields.values()} <= fields.FORMATS.keys()


# Releases ---------------------------------------------------------------------


@pytest.fixture(name="later")
def format_2_with_a_field(patch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let format 2 store the reason of a decision once more, as `colour`."""
    add_field(patch, DECISION.row, TEXT.of("reason").since(2))
    return patch


OLD = make_decision(reason=None)
NEW = make_decision(reason="red")


@pytest.mark.usefixtures("later")
def test_object_is_written_in_the_lowest_format_that_suffices() -> None:
    old, new = DECISION.encode(OLD, RUN_ID), DECISION.encode(NEW, RUN_ID)

    assert (1, 2) == (format_number(old), format_number(new))
    assert "colour" not in str(decode_object(old, NAME).body)
    assert OLD == DECISION.decode(old, NAME, RUN_ID)
    assert NEW == DECISION.decode(new, NAME, RUN_ID)


def test_older_release_refuses_a_later_format_by_its_number(
    later: pytest.MonkeyPatch,
) -> None:
    """It reads every object that has nothing new."""
    old, new = DECISION.encode(OLD, RUN_ID), DECISION.encode(NEW, RUN_ID)
    later.undo()

    assert OLD == DECISION.decode(old, NAME, RUN_ID)
    for read in (decode_object, envelope.decode_object_header):
        with pytest.raises(
            NewerFormat, match=r"has format 2, and this release reads format 1\."
        ):
            read(new, NAME)


def test_bytes_of_the_first_format_are_the_same_in_a_later_release(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = DECISION.encode(OLD, RUN_ID)
    know_formats(monkeypatch, 2)
    add_field(monkeypatch, DECISION.row, TEXT.of("reason").since(2))

    assert before == DECISION.encode(OLD, RUN_ID)


@pytest.mark.usefixtures("later")
def test_new_field_in_an_object_of_an_older_format_is_rejected() -> None:
    """No release writes such an object, and an older one reads it differently."""
    forged = with_format(DECISION.encode(NEW, RUN_ID), 1)

    with pytest.raises(FormatError, match="format 1 and fields of format 2"):
        DECISION.decode(forged, NAME, RUN_ID)


def test_new_field_in_the_header_of_an_older_format_is_rejected(
    patch: pytest.MonkeyPatch,
) -> None:
    add_field(patch, VERSION_HEADER)
    header: dict[str, object] = {"kind": "version", "colour": "red"}
    forged = with_format(encode_object(header, {}), 1)

    for read in (decode_header, decode_version):
        with pytest.raises(FormatError, match="format 1 and fields of format 2"):
            read(forged, NAME)


def test_new_value_in_the_body_of_an_older_format_is_rejected(
    patch: pytest.MonkeyPatch,
) -> None:
    data = encode_object({"kind": "decision"}, _MARKED)
    patch.setattr(DECISION.row, "newer", (NewValue(2, is_red),))

    with pytest.raises(FormatError, match="format 1 and fields of format 2"):
        decode_object(data, NAME)


def test_codec_of_a_later_format_is_rejected(patch: pytest.MonkeyPatch) -> None:
    """An object of the first format never needs a later dictionary."""
    patch.setattr(envelope, "_FORMAT_OF_CODEC", {0: 1, 1: 2})
    state = nested_agents(3)
    data = Continuation(state).to_bytes()
    assert (1, 1) == (format_number(data), data[6])

    with pytest.raises(Corrupt, match="its envelope is invalid"):
        Continuation.from_bytes(data)
