"""Valid keys, prefixes and limits."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from continuations_storage.errors import InvalidKey
from continuations_storage.keys import (
    MAX_KEY_LENGTH,
    check_key,
    check_limit,
    check_prefix,
    split_key,
    split_prefix,
)

LEGAL = set(string.ascii_letters + string.digits + "._@=~-")
NEARLY_KEYS = st.text(st.sampled_from("aZ09._@=~-/+ \\\0\näé😀"), max_size=12)


def is_valid_key(key: str) -> bool:
    """Return the expected result, written in another way."""
    segments = key.split("/")
    return len(key.encode()) <= MAX_KEY_LENGTH and all(
        segment not in {"", ".", ".."}
        and len(segment.encode()) <= 255
        and set(segment) <= LEGAL
        for segment in segments
    )


@given(NEARLY_KEYS)
@example("a" * 255)
@example("a" * 256)
@example("a/" * 449 + "aa")
@example("a/" * 449 + "aaa")
@example("a\n")
@example("...")
def test_split_key_accepts_exactly_the_valid_keys(key: str) -> None:
    if is_valid_key(key):
        assert key == "/".join(split_key(key))
        return
    with pytest.raises(InvalidKey) as raised:
        check_key(key)
    assert key == raised.value.key


@given(NEARLY_KEYS.filter(is_valid_key), st.integers(min_value=0))
def test_every_beginning_of_a_key_is_a_valid_prefix(key: str, cut: int) -> None:
    prefix = key[: cut % (len(key) + 1)]

    folders, start = split_prefix(prefix)

    assert prefix == "".join(f"{folder}/" for folder in folders) + start


@pytest.mark.parametrize("prefix", ["/", "a//", "../", "a b", "a/\0", "x" * 256])
def test_invalid_prefix_is_rejected(prefix: str) -> None:
    with pytest.raises(InvalidKey):
        check_prefix(prefix)


def test_error_of_an_invalid_key_has_the_rule() -> None:
    with pytest.raises(InvalidKey, match=r"segment '\.\.'.*joined by '/'"):
        check_key("runs/../etc")


def test_limit_below_one_is_rejected() -> None:
    check_limit(1)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        check_limit(0)
