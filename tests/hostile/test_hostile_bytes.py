"""Bytes that were made to hurt: refused by type, in bounded time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations import Continuation, ContinuationsError, FormatError
from tests.hostile import fuzz_from_bytes as fuzz
from tests.hostile.decompression_bombs import BOMBS, HARMLESS
from tests.hostile.mutations import mutate, seal_with_digest
from tests.hostile.sampling import RUN_ALL

ROOT = Path(__file__).parents[2]
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=10)
    | st.binary(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=30_000 if RUN_ALL else 1500, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(fuzz.valid_objects())), st.integers(0, 2**32))
def test_changed_body_with_valid_digest_is_refused_or_usable(
    name: str, number: int
) -> None:
    """R-E7, R-I1: refused as `FormatError`, or whole enough for all that follows."""
    data = mutate(fuzz.valid_objects()[name], Random(number))  # noqa: S311
    taken = fuzz.read_with_all_readers(data)
    if name == "shop" and "continuation" in taken:
        fuzz.resume_from_bytes(data)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.sampled_from(["continuation", "version", "wait", "decision", "message"]),
    VALUE,
    st.dictionaries(st.text(max_size=6), VALUE, max_size=3),
)
def test_any_value_as_body_is_refused(
    kind: str, body: object, more: dict[str, object]
) -> None:
    """R-I1: any header, any body, rightly signed."""
    assert [] == fuzz.read_with_all_readers(
        seal_with_digest({"kind": kind, "run": "x", **more}, body)
    )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.binary(max_size=200),
    st.sampled_from(sorted(fuzz.valid_objects())),
    st.integers(0),
)
def test_random_or_extra_bytes_are_refused(odd: bytes, name: str, place: int) -> None:
    """R-E7: what is not an object from its first byte to its last is refused."""
    whole = fuzz.valid_objects()[name]
    place %= len(whole)
    for data in (odd, odd + whole, whole + odd, whole[:place] + odd + whole[place:]):
        if data != whole:
            assert [] == fuzz.read_with_all_readers(data)


@pytest.mark.parametrize("name", [*fuzz.READERS])
def test_every_reader_takes_its_own_good_bytes(name: str) -> None:
    """The tests above would hold as well if nothing were ever taken."""
    taken = {
        each
        for data in fuzz.valid_objects().values()
        for each in fuzz.read_with_all_readers(data)
    }
    assert name in taken


def test_valid_continuation_resumes_to_its_end() -> None:
    assert "Finished" == fuzz.resume_from_bytes(fuzz.valid_objects()["shop"])
    with pytest.raises(FormatError):
        Continuation.from_bytes(b"no bytes of ours")
    assert issubclass(FormatError, ContinuationsError)


# What a few bytes may cost. Making 64 MiB of a few kB takes its share of either.
MAX_CPU_SECONDS = 2.5
MAX_MIB = 400


def test_bombs_are_refused_in_bounded_time_and_memory() -> None:
    """R-I4: lists of lists, maps, texts, numbers, JSON in a message, deep and wide."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.decompression_bombs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert 0 == done.returncode, done.stderr[-500:]
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [*BOMBS, *HARMLESS] == [each["name"] for each in told]
    refused = {each["name"]: each["raised"] for each in told}
    assert [] == [each for each in told if each["name"] in HARMLESS and each["raised"]]
    assert {"Corrupt", "FormatError"} == {refused[name] for name in BOMBS}
    dear = [
        each for each in told if each["cpu"] > MAX_CPU_SECONDS or each["mib"] > MAX_MIB
    ]
    assert [] == dear


# The program that goes on for longer --------------------------------------------


def test_a_trial_is_the_same_in_every_process() -> None:
    """What it finds can be made again by its number."""
    assert fuzz.trial_bytes(7) == fuzz.trial_bytes(7)
    assert len({fuzz.trial_bytes(number) for number in range(50)}) > 40


def test_fuzzer_reports_unexpected_exceptions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would say "0 failed" as well if it looked at nothing."""
    assert 0 == fuzz.run_trials(range(30))
    assert " 0 failed" in capsys.readouterr().out

    def fails(data: bytes) -> object:
        raise KeyError(len(data))

    monkeypatch.setitem(fuzz.READERS, "wait", fails)

    assert 3 == fuzz.run_trials(range(3))
    assert "fuzz_from_bytes --trial 2" in capsys.readouterr().out


def test_mutator_changes_valid_bytes_and_replaces_invalid_ones() -> None:
    """How libFuzzer is helped over the digest."""
    assert fuzz.mutate_or_replace(b"no object", 1) == fuzz.mutate_or_replace(b"", 1)
    assert fuzz.mutate_or_replace(
        fuzz.valid_objects()["shop"], 1
    ) != fuzz.mutate_or_replace(b"", 1)


def test_fuzzer_without_atheris_names_the_missing_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    monkeypatch.setattr(sys, "argv", ["fuzz", "--atheris"])

    assert 2 == fuzz.main()
    assert "pip install atheris" in capsys.readouterr().out
