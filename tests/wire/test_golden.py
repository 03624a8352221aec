"""Golden bytes of format 1: what was once stored is read for ever."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from continuations.wire.continuation import Continuation
from continuations.wire.envelope import read_header, unseal
from continuations.wire.records import (
    decode_cancellation,
    decode_decision,
    decode_letter,
    decode_wait,
    encode_cancellation,
    encode_decision,
    encode_letter,
    encode_wait,
)
from continuations.wire.versions import decode_header, decode_version, encode_version
from tests.core.rows import RUN, run_row
from tests.wire.golden.make import FOLDER, described, shapes, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOLDEN = sorted(path.stem for path in FOLDER.glob("*.bin"))


def load(data: bytes) -> tuple[object, Callable[[], bytes]]:
    """Return what bytes hold, by their kind, and how to write it again."""
    match read_header(data, "golden")["kind"]:
        case "continuation":
            whole = Continuation.from_bytes(data)
            return whole, whole.to_bytes
        case "version":
            # What never changes of a run stands in full copies only.
            base = decode_header(data, "golden").base
            version = decode_version(data, "golden", run_row() if base else None)
            return version, lambda: encode_version(version.header, version.delta)
        case "wait":
            wait = decode_wait(data, "golden", RUN)
            return wait, lambda: encode_wait(wait)
        case "decision":
            decision = decode_decision(data, "golden", RUN)
            return decision, lambda: encode_decision(decision, RUN)
        case "message":
            letter = decode_letter(data, "golden", RUN)
            return letter, lambda: encode_letter(letter, RUN)
        case kind:
            assert kind == "cancellation"
            wish = decode_cancellation(data, "golden", RUN)
            return wish, lambda: encode_cancellation(wish, RUN)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_bytes_hold_what_they_always_held(name: str) -> None:
    """R-H4, X-17, SL-L14: the description beside it was not made by a reader."""
    expected = json.loads((FOLDER / f"{name}.json").read_text("ascii"))

    value, _ = load((FOLDER / f"{name}.bin").read_bytes())

    assert expected == described(value)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values_are_written_as_they_always_were(name: str) -> None:
    """R-H4: the same fields; the bytes may differ by the version of zstd."""
    data = (FOLDER / f"{name}.bin").read_bytes()
    _, encode = load(data)

    old, new = unseal(data, "golden"), unseal(encode(), "again")

    assert (old.header, old.body) == (new.header, new.body)
    assert repr(old.body) == repr(new.body)


def test_there_are_golden_bytes_of_every_shape() -> None:
    assert sorted(f"v1-{name}" for name in shapes()) == GOLDEN
    assert GOLDEN == sorted(path.stem for path in FOLDER.glob("*.json"))


def test_golden_bytes_are_of_both_codecs() -> None:
    codecs = {(FOLDER / f"{name}.bin").read_bytes()[6] for name in GOLDEN}

    assert {0, 1} == codecs


def test_what_exists_is_never_written_again(tmp_path: Path) -> None:
    """Habit 13: golden bytes are never regenerated."""
    kept = tmp_path / "v1-wait.bin"
    kept.write_bytes(b"kept")

    first, second = write(tmp_path), write(tmp_path)

    assert "wait" not in first
    assert len(shapes()) - 1 == len(first)
    assert [] == second
    assert b"kept" == kept.read_bytes()
    assert not (tmp_path / "v1-wait.json").exists()
