"""ULIDs sort by the time at which they were created."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.core.ulid import (
    LENGTH,
    RANDOM_BYTES,
    NotUlid,
    encode_ulid,
    milliseconds_of,
)
from tests.sampling import examples

TIMES = st.integers(0, 2**48 - 1)
RANDOMNESS = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)
SETTINGS = settings(max_examples=examples(200), deadline=None, derandomize=True)


def test_example_of_the_specification() -> None:
    """github.com/ulid/spec has the example 01ARZ3NDEKTSV4RRFFQ69G5FAV."""
    assert 1469922850259 == milliseconds_of("01arz3ndektsv4rrffq69g5fav")


def test_smallest_and_largest_ulid() -> None:
    assert "0" * 26 == encode_ulid(0, bytes(10))
    assert "7" + "z" * 25 == encode_ulid(2**48 - 1, b"\xff" * 10)


@SETTINGS
@given(TIMES, RANDOMNESS)
def test_milliseconds_of_returns_the_encoded_time(time: int, randomness: bytes) -> None:
    made = encode_ulid(time, randomness)

    assert LENGTH == len(made)
    assert time == milliseconds_of(made)


@SETTINGS
@given(TIMES, RANDOMNESS, TIMES, RANDOMNESS)
def test_ulids_sort_by_time_and_then_by_randomness(
    a: int, x: bytes, b: int, y: bytes
) -> None:
    assert ((a, x) < (b, y)) == (encode_ulid(a, x) < encode_ulid(b, y))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0" * 25,
        "0" * 27,
        "8" + "0" * 25,
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "0" * 25 + "u",
        "0" * 25 + "\u0660",
        "0" * 25 + "\n",
    ],
)
def test_milliseconds_of_rejects_other_texts(text: str) -> None:
    with pytest.raises(NotUlid):
        milliseconds_of(text)
