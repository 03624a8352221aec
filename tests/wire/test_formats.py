"""Formats: each object is written in the lowest format that has all of its fields."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from continuations.core.messages import Message, user_message
from continuations.errors import Corrupt, FormatError
from continuations.wire import envelope, formats
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import (
    decode_object,
    encode_object,
    format_number,
    object_digest,
)
from continuations.wire.field_codecs import (
    BINARY,
    FLAG,
    JSON_OBJECT_TEXT,
    JSON_TEXT,
    NUMBER,
    TEXT,
    TEXTS,
    TIME,
    Codec,
    NewField,
)
from continuations.wire.fields import FieldReader
from continuations.wire.formats import (
    NEW_FIELDS,
    NEW_VALUES,
    NewValue,
    fields_of,
    lowest_format,
    read_fields,
)
from continuations.wire.versions import decode_header, decode_version, encode_version
from tests.core.rows import run_row
from tests.wire.golden.file_objects import file_objects
from tests.wire.golden.past_objects import past_objects
from tests.wire.golden.thread_objects import thread_objects
from tests.wire.golden.write_golden import FOLDER, version_with_changed_logs

NAME = "runs/r1/v/9999999998"
MOMENT = datetime(2026, 11, 21, 9, 30, tzinfo=UTC)

VERSION = version_with_changed_logs()
DIGEST_BYTES = 16
OLD = encode_version(VERSION.header, VERSION.delta)
NEW = encode_version(replace(VERSION.header, from_zero=True), VERSION.delta)


def as_format_1(data: bytes) -> bytes:
    """Return the object with the number of format 1 and the right digest."""
    changed = data[:4] + (1).to_bytes(2, "big") + data[6:-DIGEST_BYTES]
    return changed + object_digest(changed)


# Writing --------------------------------------------------------------------


def test_version_without_new_fields_is_written_in_format_1() -> None:
    """Its bytes are those that an older release wrote."""
    golden = (FOLDER / "v1-version-delta.bin").read_bytes()
    first, again = decode_object(golden, NAME), decode_object(OLD, NAME)

    assert format_number(golden) == format_number(OLD) == 1
    assert (first.header, first.body) == (again.header, again.body)


def test_version_with_a_new_field_is_written_in_format_2() -> None:
    assert 2 == format_number(NEW)
    assert decode_version(NEW, NAME, run_row()).header.from_zero
    assert not decode_version(OLD, NAME, run_row()).header.from_zero


def test_field_that_has_its_default_is_not_stored() -> None:
    assert {} == fields_of("version header", VERSION.header)
    assert "from_zero" not in decode_object(OLD, NAME).header


# Rows in every place of an object ---------------------------------------------

_MARKED = {"colour": "red"}
_PLACES: dict[str, tuple[str, object]] = {
    "run": ("version", {"run": _MARKED}),
    "claim": ("version", {"run": {"claim": _MARKED}}),
    "usage": ("version", {"run": {"usage": _MARKED}}),
    "budget": ("version", {"run": {"budget": _MARKED}}),
    "failure": ("continuation", {"run": {"failure": _MARKED}}),
    "frame": ("version", {"frames": [{}, _MARKED]}),
    "log": ("version", {"logs": {"f1": {}, "f2": _MARKED}}),
    "call": ("continuation", {"calls": [{}, _MARKED]}),
    "state": ("version", {"calls": [{"state": _MARKED}]}),
    "wait": ("version", {"waits": [_MARKED]}),
    "decision": ("decision", _MARKED),
    "cancellation": ("cancellation", _MARKED),
    "message": ("message", _MARKED),
}


@pytest.mark.parametrize("kind", _PLACES)
def test_new_field_is_found_in_every_kind_of_row(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    object_kind, body = _PLACES[kind]
    before = lowest_format({"kind": object_kind}, body)
    monkeypatch.setitem(NEW_FIELDS, kind, (NewField(2, "colour", TEXT),))

    data = encode_object({"kind": object_kind}, body)

    assert (1, 2) == (before, format_number(data))


@pytest.mark.parametrize("kind", _PLACES)
def test_new_value_is_found_in_every_kind_of_row(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    object_kind, body = _PLACES[kind]
    red = NewValue(2, lambda row: row.get("colour") == "red")
    monkeypatch.setitem(NEW_VALUES, kind, (red,))

    assert 2 == lowest_format({"kind": object_kind}, body)


def test_wait_has_the_same_fields_in_its_own_object(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(NEW_FIELDS, "wait", (NewField(2, "colour", TEXT),))

    assert 2 == lowest_format({"kind": "wait"}, _MARKED)


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


# Bodies ---------------------------------------------------------------------


def test_body_of_format_2_is_compressed_with_the_dictionary() -> None:
    """It is smaller, and an object of format 1 never needs the dictionary."""
    assert (1, 2) == (OLD[6], NEW[6])
    assert len(NEW) < len(OLD) - 100
    assert decode_object(OLD, NAME).body == decode_object(NEW, NAME).body


def test_dictionary_in_an_object_of_format_1_is_rejected() -> None:
    with pytest.raises(Corrupt, match="its envelope is invalid"):
        decode_object(as_format_1(NEW), NAME)


# Reading --------------------------------------------------------------------


def test_release_that_knows_format_1_refuses_format_2_by_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The release before format 2 had this rule, with this table of formats."""
    monkeypatch.setattr(envelope, "FORMATS", {1: "2026-11: the first"})
    monkeypatch.setattr(envelope, "NEWEST_FORMAT", 1)

    decode_header(OLD, NAME)
    for read in (decode_header, decode_version):
        with pytest.raises(FormatError, match="has format 2") as caught:
            read(NEW, NAME)
        assert not isinstance(caught.value, Corrupt)


@pytest.mark.parametrize("name", thread_objects())
def test_older_release_refuses_every_object_of_a_thread_by_its_number(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never reads a thread as a run that ends, or a close as a message."""
    monkeypatch.delitem(formats.FORMATS, 3)
    monkeypatch.setattr(envelope, "NEWEST_FORMAT", 2)

    with pytest.raises(FormatError, match="has format 3") as caught:
        decode_object((FOLDER / f"v3-{name}.bin").read_bytes(), NAME)

    assert not isinstance(caught.value, Corrupt)


@pytest.mark.parametrize("name", file_objects())
def test_older_release_refuses_every_object_with_an_attachment_by_its_number(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never sends a reference to a model as a part of a message."""
    monkeypatch.delitem(formats.FORMATS, 3)
    monkeypatch.setattr(envelope, "NEWEST_FORMAT", 2)

    with pytest.raises(FormatError, match="has format 3") as caught:
        decode_object((FOLDER / f"v3-{name}.bin").read_bytes(), NAME)

    assert not isinstance(caught.value, Corrupt)


def test_older_release_refuses_a_version_in_the_middle_of_a_rewind_by_its_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It never takes over the claim and goes on from where the run was."""
    row = VERSION.delta.run
    claim, without = (
        encode_version(
            VERSION.header,
            replace(VERSION.delta, run=replace(row, rewind_to=number)),
        )
        for number in (7, 0)
    )
    assert 7 == decode_version(claim, NAME, row).delta.run.rewind_to
    monkeypatch.delitem(formats.FORMATS, 3)
    monkeypatch.setattr(envelope, "NEWEST_FORMAT", 2)

    decode_version(without, NAME, row)
    for read in (decode_header, decode_version):
        with pytest.raises(FormatError, match="has format 3") as caught:
            read(claim, NAME)
        assert not isinstance(caught.value, Corrupt)


@pytest.mark.parametrize("name", past_objects())
def test_older_release_refuses_a_continuation_of_a_changed_past_by_its_number(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never forgets which tools a fork asks about, or a rewind."""
    monkeypatch.delitem(formats.FORMATS, 3)
    monkeypatch.setattr(envelope, "NEWEST_FORMAT", 2)

    with pytest.raises(FormatError, match="has format 3") as caught:
        Continuation.from_bytes((FOLDER / f"v3-{name}.bin").read_bytes())

    assert not isinstance(caught.value, Corrupt)


@pytest.mark.parametrize(
    "text",
    [
        'Use the type "continuations.attachment" in your part.',
        '{"type": "continuations.attachment"}',
    ],
)
def test_a_text_about_attachments_needs_no_newer_format(text: str) -> None:
    """Only a part of a user or tool message is a reference."""
    part = {"type": "continuations.attachment", "kind": "image"}
    reply = {"role": "assistant", "content": [part]}
    added = [user_message(text).text, Message.from_mapping(reply).text]
    body = {"logs": {"f1": {"id": 2, "add": added}}}

    assert 1 == lowest_format({"kind": "version"}, body)
    assert 1 == lowest_format({"kind": "message"}, {"message": added[0]})


@pytest.mark.parametrize(
    "texts",
    [
        None,
        7,
        [3, None],
        ["{"],
        [
            '"continuations.attachment"',
            '{"role":"user","content":[{"type":"continuations.attachment"}]}',
        ],
    ],
)
def test_lowest_format_accepts_damaged_messages(texts: object) -> None:
    """The reader of the message rejects them later."""
    body = {"logs": {"f1": {"id": 2, "add": texts}}}
    assert 1 == lowest_format({"kind": "version"}, body)
    assert 1 == lowest_format({"kind": "message"}, {"message": texts})


@pytest.mark.parametrize("read", [decode_header, decode_version])
def test_new_field_in_an_object_of_an_older_format_is_rejected(read: Any) -> None:
    """No release writes such an object, and an older one reads it differently."""
    small: dict[str, object] = {"kind": "version", "run": "r1", "from_zero": True}
    forged = as_format_1(encode_object(small, {}))

    with pytest.raises(FormatError, match="format 1 and fields of format 2"):
        read(forged, NAME)


def test_new_value_in_the_body_of_an_older_format_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = encode_object({"kind": "decision"}, _MARKED)
    monkeypatch.setitem(NEW_VALUES, "decision", (NewValue(2, lambda _: True),))

    with pytest.raises(FormatError, match="format 1 and fields of format 2"):
        decode_object(data, NAME)


# Codecs ---------------------------------------------------------------------


@dataclass
class _Row:
    value: object


_VALUES: dict[str, tuple[Codec, object, object]] = {
    "text": (TEXT, "red", None),
    "texts": (TEXTS, ("a", "b"), ()),
    "flag": (FLAG, True, False),
    "number": (NUMBER, 7, 0),
    "binary": (BINARY, b"x", None),
    "time": (TIME, MOMENT, None),
    "json": (JSON_TEXT, "[1]", None),
    "json object": (JSON_OBJECT_TEXT, '{"a":1}', None),
}


@pytest.mark.parametrize("name", _VALUES)
def test_codec_returns_the_value_and_the_default(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec, value, default = _VALUES[name]
    field = NewField(2, "stored", codec, attribute="value")
    monkeypatch.setitem(NEW_FIELDS, "row", (field,))

    for each in (value, default):
        stored = fields_of("row", _Row(each))
        read = read_fields("row", FieldReader(stored, "the row"))
        # The default is not stored, and the dataclass has it.
        assert ({} if each == default else {"value": each}) == read
        assert each == default or type(each) is type(read["value"])
    assert {} == fields_of("row", _Row(default))
    absent = FieldReader({}, "the row")
    assert default == codec.read(absent, "stored")


def test_codec_rejects_a_value_of_a_wrong_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEW_FIELDS, "row", (NewField(2, "stored", TEXT),))

    with pytest.raises(FormatError, match="'stored' must be str"):
        read_fields("row", FieldReader({"stored": 3}, "the row"))


def test_new_fields_name_existing_formats_and_no_field_twice() -> None:
    for kind, fields in formats.NEW_FIELDS.items():
        assert {each.format for each in fields} <= formats.FORMATS.keys(), kind
        assert len({each.name for each in fields}) == len(fields), kind
