"""Golden files of all formats: every later release must read these bytes."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from continuations.wire.arrivals import (
    CANCEL_REQUEST,
    EVENT,
    FILE,
    MESSAGE,
    MESSAGE_ID,
    OPERATOR_REQUEST,
    REVOCATION,
    SIGNAL,
    SIGNAL_ID,
    SLOT,
    FirstNumber,
    decode_file,
)
from continuations.wire.continuation import Continuation
from continuations.wire.dictionary import DICTIONARY
from continuations.wire.envelope import (
    decode_object,
    decode_object_header,
    format_number,
)
from continuations.wire.records import DECISION, WAIT
from continuations.wire.versions import (
    TOMBSTONE,
    decode_header,
    decode_version,
    encode_version,
)
from tests.core.rows import RUN, run_row
from tests.wire.golden.write_golden import (
    FOLDER,
    describe,
    golden_objects,
    write_missing,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOLDEN = sorted(path.stem for path in FOLDER.glob("*.bin"))


POSTED_KINDS = frozenset(
    (
        "signal",
        "message",
        "message id",
        "signal id",
        "event",
        "slot",
        "operator request",
        "tombstone",
        "file",
    )
)


def load_posted(  # noqa: PLR0911 - one return for each kind of object
    data: bytes,
) -> tuple[object, Callable[[], bytes]]:
    """Do the same for signals, events, messages, slots, requests and tombstones."""
    kind = decode_object_header(data, "golden")["kind"]
    if kind == "tombstone":
        tombstone = TOMBSTONE.decode(data, "golden")
        return tombstone, lambda: TOMBSTONE.encode(tombstone)
    if kind == "file":
        stored = decode_file(data, "golden")
        return stored, lambda: FILE.encode(stored)
    if kind == "event":
        event = EVENT.decode(data, "golden")
        return event, lambda: EVENT.encode(event)
    if kind == "operator request":
        asked = OPERATOR_REQUEST.decode(data, "golden", RUN)
        return asked, lambda: OPERATOR_REQUEST.encode(asked, RUN)
    if kind == "slot":
        slot = SLOT.decode(data, "golden", RUN)
        return slot, lambda: SLOT.encode(slot, RUN)
    if kind == "signal":
        signal = SIGNAL.decode(data, "golden", RUN)
        return signal, lambda: SIGNAL.encode(signal, RUN)
    if kind == "signal id":
        number = SIGNAL_ID.decode(data, "golden", RUN).number
        return number, lambda: SIGNAL_ID.encode(FirstNumber(number), RUN)
    if kind == "message id":
        number = MESSAGE_ID.decode(data, "golden", RUN).number
        return number, lambda: MESSAGE_ID.encode(FirstNumber(number), RUN)
    message = MESSAGE.decode(data, "golden", RUN)
    return message, lambda: MESSAGE.encode(message, RUN)


def load_golden(  # noqa: PLR0911 - one return for each kind of object
    data: bytes,
) -> tuple[object, Callable[[], bytes]]:
    """Return the decoded value of an object, and a function that encodes it again."""
    match decode_object_header(data, "golden")["kind"]:
        case "continuation":
            continuation = Continuation.from_bytes(data)
            return continuation, continuation.to_bytes
        case "version":
            # Deltas omit the fields of a run that never change.
            base = decode_header(data, "golden").base
            version = decode_version(data, "golden", run_row() if base else None)
            return version, lambda: encode_version(version.header, version.delta)
        case "wait":
            wait = WAIT.decode(data, "golden", RUN)
            return wait, lambda: WAIT.encode(wait)
        case "decision":
            decision = DECISION.decode(data, "golden", RUN)
            return decision, lambda: DECISION.encode(decision, RUN)
        case kind if kind in POSTED_KINDS:
            return load_posted(data)
        case "revocation":
            revocation = REVOCATION.decode(data, "golden", RUN)
            return revocation, lambda: REVOCATION.encode(revocation, RUN)
        case kind:
            assert kind == "cancellation"
            request = CANCEL_REQUEST.decode(data, "golden", RUN)
            return request, lambda: CANCEL_REQUEST.encode(request, RUN)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes_decode_to_the_described_value(name: str) -> None:
    """The description was made from the value before it was encoded."""
    expected = json.loads((FOLDER / f"{name}.json").read_text("ascii"))

    value, _ = load_golden((FOLDER / f"{name}.bin").read_bytes())

    assert expected == describe(value)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values_encode_to_the_same_fields(name: str) -> None:
    """Format and fields are equal; the bytes may differ by the version of zstd."""
    data = (FOLDER / f"{name}.bin").read_bytes()
    _, encode = load_golden(data)

    again = encode()
    old, new = decode_object(data, "golden"), decode_object(again, "again")

    assert format_number(data) == format_number(again) == int(name[1 : name.index("-")])
    assert (old.header, old.body) == (new.header, new.body)
    assert repr(old.body) == repr(new.body)


def test_every_kind_of_object_has_golden_files() -> None:
    made = golden_objects().items()
    assert sorted(f"v{golden.format_number}-{name}" for name, golden in made) == GOLDEN
    assert GOLDEN == sorted(path.stem for path in FOLDER.glob("*.json"))


def test_golden_files_use_every_codec() -> None:
    codecs = {(FOLDER / f"{name}.bin").read_bytes()[6] for name in GOLDEN}

    assert {0, 1, 2} == codecs


def test_dictionary_of_format_2_never_changes() -> None:
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
