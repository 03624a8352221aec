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
from tests.hostile.bombs import BOMBS, DUDS
from tests.hostile.mutations import mutated, resealed
from tests.hostile.share import FULL

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


@settings(max_examples=30_000 if FULL else 1500, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(fuzz.good())), st.integers(0, 2**32))
def test_changed_insides_under_a_right_digest(name: str, number: int) -> None:
    """R-E7, R-I1: refused as `FormatError`, or whole enough for all that follows."""
    data = mutated(fuzz.good()[name], Random(number))  # noqa: S311
    taken = fuzz.read_by_all(data)
    if name == "shop" and "continuation" in taken:
        fuzz.gone_on_with(data)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.sampled_from(["continuation", "version", "wait", "decision", "message"]),
    VALUE,
    st.dictionaries(st.text(max_size=6), VALUE, max_size=3),
)
def test_any_value_as_a_body(kind: str, body: object, more: dict[str, object]) -> None:
    """R-I1: any header, any body, rightly signed."""
    assert [] == fuzz.read_by_all(resealed({"kind": kind, "run": "x", **more}, body))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.binary(max_size=200), st.sampled_from(sorted(fuzz.good())), st.integers(0))
def test_any_bytes_alone_before_behind_and_within(
    odd: bytes, name: str, place: int
) -> None:
    """R-E7: what is not an object from its first byte to its last is refused."""
    whole = fuzz.good()[name]
    place %= len(whole)
    for data in (odd, odd + whole, whole + odd, whole[:place] + odd + whole[place:]):
        if data != whole:
            assert [] == fuzz.read_by_all(data)


@pytest.mark.parametrize("name", [*fuzz.READERS])
def test_every_reader_takes_its_own_good_bytes(name: str) -> None:
    """The tests above would hold as well if nothing were ever taken."""
    taken = {each for data in fuzz.good().values() for each in fuzz.read_by_all(data)}
    assert name in taken


def test_a_good_run_goes_on() -> None:
    assert "Finished" == fuzz.gone_on_with(fuzz.good()["shop"])
    with pytest.raises(FormatError):
        Continuation.from_bytes(b"no bytes of ours")
    assert issubclass(FormatError, ContinuationsError)


# What a few bytes may cost. Making 64 MiB of a few kB takes its share of either.
MOST_CPU = 2.5
MOST_MIB = 400


def test_bombs_are_refused_in_bounded_time_and_memory() -> None:
    """R-I4: lists of lists, maps, texts, numbers, JSON in a message, deep and wide."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.hostile.bombs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert 0 == done.returncode, done.stderr[-500:]
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [*BOMBS, *DUDS] == [each["name"] for each in told]
    refused = {each["name"]: each["raised"] for each in told}
    assert [] == [each for each in told if each["name"] in DUDS and each["raised"]]
    assert {"Corrupt", "FormatError"} == {refused[name] for name in BOMBS}
    dear = [each for each in told if each["cpu"] > MOST_CPU or each["mib"] > MOST_MIB]
    assert [] == dear


# The program that goes on for longer --------------------------------------------


def test_a_trial_is_the_same_in_every_process() -> None:
    """What it finds can be made again by its number."""
    assert fuzz.trial(7) == fuzz.trial(7)
    assert len({fuzz.trial(number) for number in range(50)}) > 40


def test_what_a_reader_lets_out_is_found_and_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would say "0 failed" as well if it looked at nothing."""
    assert 0 == fuzz.loop(range(30))
    assert " 0 failed" in capsys.readouterr().out

    def fails(data: bytes) -> object:
        raise KeyError(len(data))

    monkeypatch.setitem(fuzz.READERS, "wait", fails)

    assert 3 == fuzz.loop(range(3))
    assert "fuzz_from_bytes --trial 2" in capsys.readouterr().out


def test_changes_open_what_can_be_opened_and_take_good_bytes_for_the_rest() -> None:
    """How libFuzzer is helped over the digest."""
    assert fuzz.changed(b"no object", 1) == fuzz.changed(b"", 1)
    assert fuzz.changed(fuzz.good()["shop"], 1) != fuzz.changed(b"", 1)


def test_without_atheris_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "atheris", None)
    monkeypatch.setattr(sys, "argv", ["fuzz", "--atheris"])

    assert 2 == fuzz.main()
    assert "pip install atheris" in capsys.readouterr().out
