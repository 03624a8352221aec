"""Hostile bytes raise typed errors, in bounded time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations import Continuation, ContinuationsError
from continuations.errors import FormatError
from tests.hostile import fuzz_from_bytes as fuzz
from tests.hostile.decompression_bombs import BOMBS, HARMLESS
from tests.hostile.mutations import mutate, seal_with_digest
from tests.hostile.sampling import RUN_ALL
from tests.sampling import examples, sample

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


@settings(max_examples=30_000 if RUN_ALL else 600, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(fuzz.valid_objects())), st.integers(0, 2**32))
def test_changed_body_with_valid_digest_is_refused_or_usable(
    name: str, number: int
) -> None:
    """A reader raises `FormatError`, or accepts an object that can be used."""
    data = mutate(fuzz.valid_objects()[name], Random(number))  # noqa: S311
    accepted_by = fuzz.read_with_all_readers(data)
    if name == "sample run" and "continuation" in accepted_by:
        fuzz.resume_from_bytes(data)


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(
    st.sampled_from(["continuation", "version", "wait", "decision", "message"]),
    VALUE,
    st.dictionaries(st.text(max_size=6), VALUE, max_size=3),
)
def test_any_value_as_body_is_refused(
    kind: str, body: object, more: dict[str, object]
) -> None:
    """Promise 6: any header and body with a right digest raise `FormatError`."""
    assert [] == fuzz.read_with_all_readers(
        seal_with_digest({"kind": kind, "run": "x", **more}, body)
    )


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(
    st.binary(max_size=200),
    st.sampled_from(sorted(fuzz.valid_objects())),
    st.integers(0),
)
def test_random_or_extra_bytes_are_refused(odd: bytes, name: str, place: int) -> None:
    """Bytes that are not exactly one object raise `FormatError`."""
    whole = fuzz.valid_objects()[name]
    place %= len(whole)
    for data in (odd, odd + whole, whole + odd, whole[:place] + odd + whole[place:]):
        if data != whole:
            assert [] == fuzz.read_with_all_readers(data)


@pytest.mark.parametrize("name", [*fuzz.READERS])
def test_every_reader_accepts_its_valid_bytes(name: str) -> None:
    """A reader that accepts nothing would pass the tests above."""
    accepted_by = {
        each
        for data in fuzz.valid_objects().values()
        for each in fuzz.read_with_all_readers(data)
    }
    assert name in accepted_by


def test_valid_continuation_resumes_to_its_end() -> None:
    assert "Finished" == fuzz.resume_from_bytes(fuzz.valid_objects()["sample run"])
    with pytest.raises(FormatError):
        Continuation.from_bytes(b"other bytes")
    assert issubclass(FormatError, ContinuationsError)


# The limits for one object. Decompressing 64 MiB is part of both.
MAX_CPU_SECONDS = 2.5
MAX_MIB = 400


def test_bombs_are_refused_in_bounded_time_and_memory() -> None:
    """Nested lists, maps, texts, numbers and JSON raise errors, deep or wide."""
    bombs = sample([*BOMBS], 5)
    names = [*bombs, *HARMLESS]
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.decompression_bombs", *names],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert 0 == done.returncode, done.stderr[-500:]
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert names == [each["name"] for each in results]
    refused = {each["name"]: each["raised"] for each in results}
    assert [] == [
        each for each in results if each["name"] in HARMLESS and each["raised"]
    ]
    assert {"Corrupt", "FormatError"} == {refused[name] for name in bombs}
    expensive = [
        each
        for each in results
        if each["cpu"] > MAX_CPU_SECONDS or each["mib"] > MAX_MIB
    ]
    assert [] == expensive


# The fuzzer ------------------------------------------------------------------------


def test_a_trial_is_the_same_in_every_process() -> None:
    """A failure can be repeated by its number."""
    assert fuzz.trial_bytes(7) == fuzz.trial_bytes(7)
    assert len({fuzz.trial_bytes(number) for number in range(50)}) > 40


def test_fuzzer_reports_unexpected_exceptions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fuzzer that checks nothing would also print "0 failed"."""
    assert 0 == fuzz.run_trials(range(30))
    assert " 0 failed" in capsys.readouterr().out

    def fails(data: bytes) -> object:
        raise KeyError(len(data))

    monkeypatch.setitem(fuzz.READERS, "wait", fails)

    assert 3 == fuzz.run_trials(range(3))
    assert "fuzz_from_bytes --trial 2" in capsys.readouterr().out


def test_mutator_changes_valid_bytes_and_replaces_invalid_ones() -> None:
    """libFuzzer gets objects with right digests."""
    assert fuzz.mutate_or_replace(b"no object", 1) == fuzz.mutate_or_replace(b"", 1)
    assert fuzz.mutate_or_replace(
        fuzz.valid_objects()["sample run"], 1
    ) != fuzz.mutate_or_replace(b"", 1)


def test_fuzzer_without_atheris_names_the_missing_package(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    monkeypatch.setattr(sys, "argv", ["fuzz", "--atheris"])

    assert 2 == fuzz.main()
    assert "pip install atheris" in capsys.readouterr().out
