"""Golden files: every later release must read these bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import pytest

from continuations.wire.dictionary import DICTIONARY
from continuations.wire.envelope import (
    decode_object,
    decode_object_header,
    format_number,
)
from continuations.wire.fields import OBJECTS
from tests.wire.golden.records import OF_NO_RUN, OF_RUN, decode, encode, golden_objects
from tests.wire.golden.write_golden import FOLDER, describe, write_missing

GOLDEN = sorted(path.stem for path in FOLDER.glob("*.bin"))


def load_golden(name: str) -> tuple[str, bytes, Any]:
    """Return the kind, the bytes and the value of a golden file."""
    data = (FOLDER / f"{name}.bin").read_bytes()
    kind: str = decode_object_header(data, "golden")["kind"]
    return kind, data, decode(kind, data)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes_decode_to_the_described_value(name: str) -> None:
    """The description was made from the value before it was encoded."""
    expected = json.loads((FOLDER / f"{name}.json").read_text("ascii"))

    assert expected == describe(load_golden(name)[2])


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values_encode_to_the_same_fields(name: str) -> None:
    """Format and fields are equal; the bytes may differ by the version of zstd."""
    kind, data, value = load_golden(name)

    again = encode(kind, value)
    old, new = decode_object(data, "golden"), decode_object(again, "again")

    assert format_number(data) == format_number(again) == int(name[1 : name.index("-")])
    assert (old.header, old.body) == (new.header, new.body)
    assert repr(old.body) == repr(new.body)


def test_every_golden_object_has_its_files() -> None:
    made = golden_objects().items()
    names = [f"v{format_number(each.data)}-{name}" for name, each in made]

    assert sorted(names) == GOLDEN
    assert GOLDEN == sorted(path.stem for path in FOLDER.glob("*.json"))


def test_every_kind_of_object_has_a_golden_file() -> None:
    kinds = {load_golden(name)[0] for name in GOLDEN}

    assert {*OBJECTS} == kinds
    assert {*OF_RUN, *OF_NO_RUN} < kinds


def fields_in(row: Any, stored: object) -> Iterator[tuple[str, str]]:
    """Yield the kind of row and the name of each field of a stored mapping."""
    for name, value in cast("dict[str, Any]", stored).items():
        yield row.kind, name
        field = row.fields.get(name)
        if field is None or field.row is None:
            continue
        if isinstance(value, list):
            inner = cast("list[Any]", value)  # type: ignore[redundant-cast]
        else:
            inner = [*value.values()] if field.by_key else [value]
        for each in inner:
            yield from fields_in(field.row(), each)


def all_fields(row: Any) -> Iterator[tuple[str, str]]:
    """Yield the kind of row and the name of each field that a table can have."""
    for name, field in row.fields.items():
        yield row.kind, name
        if field.row is not None:
            yield from all_fields(field.row())


def test_every_field_is_in_a_golden_file() -> None:
    """A new field needs a golden file."""
    found: set[tuple[str, str]] = set()
    for name in GOLDEN:
        opened = decode_object((FOLDER / f"{name}.bin").read_bytes(), "golden")
        header, body = OBJECTS[opened.header["kind"]]
        found |= {*fields_in(header, opened.header), *fields_in(body, opened.body)}

    needed = {
        pair for rows in OBJECTS.values() for row in rows for pair in all_fields(row)
    }
    assert set() == needed - found


def test_golden_files_use_every_codec() -> None:
    codecs = {(FOLDER / f"{name}.bin").read_bytes()[6] for name in GOLDEN}

    assert {0, 1} == codecs


def test_dictionary_of_format_1_never_changes() -> None:
    """Stored bodies can only be read with the same bytes."""
    assert (
        "c0107b194189971b30e06808bae29b553c86da68a6e628c0c51798f727730bc8"
        == sha256(DICTIONARY).hexdigest()
    )


def test_write_missing_never_overwrites_a_file(tmp_path: Path) -> None:
    """Golden files are never written again."""
    kept = tmp_path / "v1-wait.bin"
    kept.write_bytes(b"kept")

    first, second = write_missing(tmp_path), write_missing(tmp_path)

    assert "wait" not in first
    assert len(golden_objects()) - 1 == len(first)
    assert [] == second
    assert b"kept" == kept.read_bytes()
    assert not (tmp_path / "v1-wait.json").exists()
