"""Envelopes: damaged, foreign and newer bytes raise different errors."""

from __future__ import annotations

import sys
import threading
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from continuations.errors import Corrupt, FormatError
from continuations.wire import envelope
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import (
    decode_object,
    decode_object_header,
    encode_object,
)
from continuations.wire.fields import FIRST_FORMAT, FORMATS, NEWEST_FORMAT
from tests.core.rows import nested_agents, new_state
from tests.sampling import examples
from tests.wire.handmade_objects import (
    HEADER,
    PLAIN,
    ZSTD,
    make_object,
    pack,
    small_continuation,
    with_digest,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

NAME = "runs/jane-1/v/1"
TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | TEXT
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5)
    ),
    max_leaves=20,
)
READERS: tuple[Callable[[bytes, str], object], ...] = (
    decode_object,
    decode_object_header,
)


# Encode and decode ------------------------------------------------------------


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(st.dictionaries(TEXT.filter(lambda key: key != "size"), VALUE), VALUE)
def test_any_value_comes_back(header: dict[str, object], body: object) -> None:
    """Lone surrogates come back equal, too."""
    data = encode_object(header, body)

    opened = decode_object(data, NAME)

    assert (header, body) == (opened.header, opened.body)
    assert header == decode_object_header(data, NAME)


def test_body_that_shrinks_is_compressed() -> None:
    assert ZSTD == encode_object({}, "ab12" * 200)[6]


def test_body_that_hardly_shrinks_is_stored_plain() -> None:
    """To read it takes half of the time, because it needs no decompressor."""
    body = "".join(Random(1).choices(_MANY_LETTERS, k=1000))  # noqa: S311 - repeatable
    data = encode_object({}, body)

    assert PLAIN == data[6]
    assert body == decode_object(data, NAME).body


_MANY_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"


def test_large_body_takes_hardly_more_than_without_a_dictionary() -> None:
    """With a dictionary, zstd expects a small body: two fifths more bytes."""
    random = Random(1)  # noqa: S311 - repeatable
    words = ["".join(random.choices(_MANY_LETTERS, k=12)) for _ in range(5000)]
    body = [{"call": random.choice(words), "name": "ask"} for _ in range(9000)]

    data = encode_object({}, body)

    assert len(data) < 1.05 * len(zstd.compress(pack(body), 3))
    assert body == decode_object(data, NAME).body


def test_one_compressor_is_made_for_many_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To make a compressor takes ten times as long as to compress a small body."""
    made: list[int] = []
    stored: list[bool] = []

    class Zstd:
        @staticmethod
        def ZstdCompressor(level: int, **options: Any) -> Any:  # noqa: N802
            made.append(level)
            return zstd.ZstdCompressor(level, **options)

    monkeypatch.setattr(envelope, "_zstd", Zstd)

    def encode_in_new_thread() -> None:
        for number in range(5):
            body = f"{number}" * 1000
            packed = zstd.compress(pack(body), 9)
            whole = make_object(packed, codec=ZSTD, size=len(pack(body)))
            stored.append(whole == encode_object(HEADER, body))

    thread = threading.Thread(target=encode_in_new_thread)
    thread.start()
    thread.join()

    assert 1 == len(made)
    assert [True] * 5 == stored


def test_header_is_never_compressed() -> None:
    """Operators can read the header without decompressing the object."""
    data = encode_object({"run": "jane-1", "marker": "m" * 500}, ["x" * 5000])

    assert b"jane-1" in data
    assert b"m" * 500 in data
    assert len(data) < 1000


def test_only_large_bodies_are_compressed() -> None:
    assert PLAIN == encode_object({}, "x")[6]
    assert ZSTD == encode_object({}, "x" * 1000)[6]


def test_first_bytes_have_the_documented_layout() -> None:
    """The layout is magic, format, codec, zero, length of the header."""
    data = encode_object({"k": "v"}, None)

    assert b"CONT\x00\x01\x00\x00" == data[:8]
    assert pack({"k": "v", "size": 1}) == data[12 : 12 + int.from_bytes(data[8:12])]


@pytest.mark.parametrize(
    "value",
    [2**64, -(2**63) - 1, (1, 2), {1, 2}, object(), 1j, {"a": 2**70}],
    ids=lambda value: type(value).__name__,
)
def test_encode_object_rejects_values_that_cannot_be_stored(value: object) -> None:
    with pytest.raises(FormatError):
        encode_object({}, value)


def test_encode_object_rejects_a_body_that_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(envelope, "MAX_BODY_BYTES", 1000)

    with pytest.raises(FormatError, match="1000"):
        encode_object({}, "x" * 1001)


def test_encode_object_rejects_a_body_with_too_many_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the object could be stored and never be loaded."""
    rows = [[0] * 8 for _ in range(200)]
    data = encode_object({"kind": "x"}, rows)
    monkeypatch.setattr(envelope, "_MAX_ITEMS", 500)
    monkeypatch.setattr(envelope, "_MAX_TOTAL_ITEMS", 1500)

    with pytest.raises(FormatError, match="more values"):
        encode_object({"kind": "x"}, rows)
    with pytest.raises(Corrupt, match="not valid msgpack"):
        decode_object(data, NAME)
    monkeypatch.setattr(envelope, "_MAX_TOTAL_ITEMS", 2000)
    assert rows == decode_object(encode_object({"kind": "x"}, rows), NAME).body


def test_mapping_with_too_many_keys_is_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mapping takes more time than a list of the same size."""
    body = {f"k{number}": None for number in range(300)}
    data = encode_object({"kind": "x"}, body)
    monkeypatch.setattr(envelope, "_MAX_KEYS", 299)

    with pytest.raises(Corrupt, match="not valid msgpack"):
        decode_object(data, NAME)
    monkeypatch.setattr(envelope, "_MAX_ITEMS", 1000)
    with pytest.raises(FormatError, match="was not stored"):
        encode_object({"kind": "x"}, body)


def test_a_body_with_too_many_keys_is_large_enough_to_be_checked() -> None:
    """Else it could be stored and never be loaded."""
    shortest = {chr(number): None for number in range(0x20, 0x7F)}
    limits = vars(envelope)
    least = limits["_MAX_KEYS"] * 4 + len(shortest)

    assert least >= limits["_MAX_ITEMS"]


# Damage -----------------------------------------------------------------------

OBJECTS = {
    "small": small_continuation(),
    "large": Continuation(nested_agents(3), 7).to_bytes(),
    "plain": encode_object({"kind": "x"}, [1, "two"]),
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("read", READERS, ids=["decode_object", "decode_object_header"])
def test_every_truncation_is_rejected(
    name: str, read: Callable[[bytes, str], object]
) -> None:
    """The bytes are cut at every length, at the front and at the end."""
    data = OBJECTS[name]
    for end in range(len(data)):
        with pytest.raises(FormatError):
            read(data[:end], NAME)
        if end:
            with pytest.raises(FormatError):
                read(data[end:], NAME)
    for end in range(12, len(data)):
        with pytest.raises(Corrupt):
            read(data[:end], NAME)


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("read", READERS, ids=["decode_object", "decode_object_header"])
def test_every_flipped_bit_is_rejected(
    name: str, read: Callable[[bytes, str], object]
) -> None:
    """A changed magic number is foreign; every other change is damage."""
    data = OBJECTS[name]
    for place in range(len(data)):
        for bit in range(8):
            wrong = bytearray(data)
            wrong[place] ^= 1 << bit
            with pytest.raises(FormatError) as caught:
                read(bytes(wrong), NAME)
            assert (place >= 4) == isinstance(caught.value, Corrupt)


@pytest.mark.parametrize("extra", [b"\0", b"x", b"CONT", small_continuation()], ids=len)
def test_bytes_after_the_end_are_rejected(extra: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_object(small_continuation() + extra, NAME)


@pytest.mark.parametrize("size", [0, 1, 5, 44, 4096])
def test_empty_and_zero_filled_bytes_are_corrupt(size: int) -> None:
    """A crash of the machine may leave such a file. It does not mean "no run"."""
    with pytest.raises(Corrupt, match="empty"):
        decode_object(bytes(size), NAME)


@pytest.mark.parametrize(
    "data",
    [b"{}", b'{"run": 1}', b"\x80\x04\x95", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"CO"],
    ids=repr,
)
def test_foreign_bytes_raise_format_error_and_not_corrupt(data: bytes) -> None:
    """No other format (JSON, pickle, zip) is ever tried."""
    with pytest.raises(FormatError, match="not an object of continuations") as caught:
        decode_object(data, NAME)

    assert not isinstance(caught.value, Corrupt)


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(st.binary(max_size=200))
def test_random_bytes_raise_only_format_error(data: bytes) -> None:
    for candidate in (data, b"CONT" + data, with_digest(b"CONT\0\1" + data)):
        with pytest.raises(FormatError):
            decode_object(candidate, NAME)


@settings(max_examples=examples(300), deadline=None, derandomize=True)
@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(0, 1))
def test_random_body_in_a_valid_envelope_raises_only_format_error(
    header: bytes, body: bytes, codec: int
) -> None:
    """An attacker who can write to the store can also write a valid digest."""
    data = make_object(body, header=header, codec=codec)

    with pytest.raises(FormatError):
        Continuation.from_bytes(data)


def test_error_names_the_object_and_the_next_step() -> None:
    """The error contains nothing of the object's contents."""
    wrong = bytearray(Continuation(new_state()).to_bytes())
    wrong[-40] ^= 1

    with pytest.raises(Corrupt) as caught:
        decode_object(bytes(wrong), NAME)

    assert NAME in str(caught.value)
    assert "Restore" in str(caught.value)
    assert "Jane" not in str(caught.value)


# Newer formats ----------------------------------------------------------------


@pytest.mark.parametrize("number", [NEWEST_FORMAT + 1, 99, 65535])
def test_newer_format_is_rejected_by_number(number: int) -> None:
    """The error says what to do and is not `Corrupt`."""
    with pytest.raises(FormatError, match=f"format {number}.*newer release") as caught:
        Continuation.from_bytes(make_object(b"\xc0", format_number=number))

    assert not isinstance(caught.value, Corrupt)


def test_newer_format_may_have_any_layout_after_its_number() -> None:
    """Only the magic, the format number and the digest stay in all formats."""
    with pytest.raises(FormatError, match="format 99"):
        decode_object(with_digest(b"CONT\0\x63" + b"\xff" * 100), NAME)


def test_damaged_object_of_a_newer_format_is_corrupt() -> None:
    wrong = bytearray(make_object(b"\xc0", format_number=99))
    wrong[-1] ^= 1

    with pytest.raises(Corrupt):
        decode_object(bytes(wrong), NAME)


def test_every_format_number_has_a_description() -> None:
    assert list(range(FIRST_FORMAT, NEWEST_FORMAT + 1)) == sorted(FORMATS)
    assert all(FORMATS.values())


# Invalid objects with a valid digest ------------------------------------------


def nested_lists(levels: int) -> bytes:
    """Return nested lists as msgpack."""
    return b"\x91" * levels + b"\xc0"


VALID_BODY = pack({"a": 1})
INVALID_OBJECTS: dict[str, bytes] = {
    "codec 2": make_object(VALID_BODY, codec=2),
    "codec 255": make_object(VALID_BODY, codec=255),
    "a byte that is not zero": make_object(VALID_BODY, reserved_byte=1),
    "a header longer than the object": make_object(VALID_BODY, header_length=10_000),
    "a header of 4 GiB": make_object(VALID_BODY, header_length=2**32 - 1),
    "a header that ends too soon": make_object(VALID_BODY, header_length=3),
    "a header that takes the body": make_object(
        VALID_BODY, header=pack(HEADER), header_length=60
    ),
    "no header": make_object(VALID_BODY, header=b""),
    "a header that is a list": make_object(VALID_BODY, header=pack([1, 2])),
    "a header that is a text": make_object(VALID_BODY, header=pack("size")),
    "a header without a size": make_object(VALID_BODY, header=pack(HEADER)),
    "a size that is a text": make_object(VALID_BODY, size="4"),
    "a size that is a flag": make_object(b"\xc0", size=True),
    "a size that is a fraction": make_object(VALID_BODY, size=4.0),
    "a size below zero": make_object(VALID_BODY, size=-1),
    "a size that is too small": make_object(VALID_BODY, size=len(VALID_BODY) - 1),
    "a size that is too large": make_object(VALID_BODY, size=len(VALID_BODY) + 1),
    "a size above the limit": make_object(VALID_BODY, size=envelope.MAX_BODY_BYTES + 1),
    "a size of 2**64": make_object(VALID_BODY, size=2**64 - 1),
    "zstd: a small size": make_object(zstd.compress(VALID_BODY), size=1, codec=ZSTD),
    "zstd: a large size": make_object(zstd.compress(VALID_BODY), size=99, codec=ZSTD),
    "zstd: size zero": make_object(zstd.compress(VALID_BODY), size=0, codec=ZSTD),
    "zstd: no body": make_object(b"", size=4, codec=ZSTD),
    "zstd: not zstd": make_object(b"plain text", size=4, codec=ZSTD),
    "zstd: cut short": make_object(zstd.compress(VALID_BODY)[:-1], size=4, codec=ZSTD),
    "zstd: two frames": make_object(
        zstd.compress(VALID_BODY) * 2, size=2 * len(VALID_BODY), codec=ZSTD
    ),
    "zstd: bytes after the frame": make_object(
        zstd.compress(VALID_BODY) + b"x", size=len(VALID_BODY), codec=ZSTD
    ),
    "zstd: a frame that skips": make_object(
        b"\x50\x2a\x4d\x18\x04\0\0\0skip" + zstd.compress(VALID_BODY),
        size=len(VALID_BODY),
        codec=ZSTD,
    ),
    "no body": make_object(b""),
    "two values": make_object(VALID_BODY + VALID_BODY),
    "half a value": make_object(VALID_BODY[:-1]),
    "an unused type": make_object(b"\xc1"),
    "a string that is not UTF-8": make_object(b"\xa2\xff\xfe"),
    "a string longer than the body": make_object(b"\xdb\xff\xff\xff\xffabc"),
    "a list of 4 billion": make_object(b"\xdd\xff\xff\xff\xff\x01"),
    "a mapping of 4 billion": make_object(b"\xdf\xff\xff\xff\xff\xa1a\x01"),
    "lists of 4 million in lists": make_object(b"\xdd\x00\x40\x00\x00" * 900),
    "a hundred thousand levels": make_object(nested_lists(100_000)),
    "levels of mappings": make_object(b"\x81\xa1a" * 100_000 + b"\xc0"),
    "a repeated key": make_object(b"\x82\xa1a\x01\xa1a\x02"),
    "a repeated key in a nested mapping": make_object(b"\x91\x82\xa1a\x01\xa1a\x01"),
    "a key that is a number": make_object(b"\x81\x01\x01"),
    "a key that is nil": make_object(b"\x81\xc0\x01"),
    "a key that is bytes": make_object(b"\x81\xc4\x01a\x01"),
    "keys that are bytes and text": make_object(b"\x82\xc4\x01a\x01\xa1a\x01"),
    "a key that is a list": make_object(b"\x81\x91\x01\x01"),
    "a key that is an extension": make_object(b"\x81\xd4\x05\x00\x01"),
    "an invalid timestamp": make_object(b"\xd7\xff" + b"\xff" * 8),
    "a header key that is bytes": make_object(
        VALID_BODY, header=b"\x82\xa4size\x04\xc4\x01a\x01"
    ),
    "a repeated header key": make_object(
        VALID_BODY, header=b"\x82\xa4size\x04\xa4size\x04"
    ),
    "a deeply nested header": make_object(VALID_BODY, header=nested_lists(100_000)),
}


@pytest.mark.parametrize("name", INVALID_OBJECTS)
def test_invalid_object_with_valid_digest_is_corrupt(name: str) -> None:
    """No other exception is raised, whatever the bytes are."""
    with pytest.raises(Corrupt):
        decode_object(INVALID_OBJECTS[name], NAME)


@pytest.mark.parametrize(
    "body", [b"\xd4\x05\x00", b"\xd6\xff\0\0\0\1", nested_lists(900)]
)
def test_msgpack_extensions_are_never_decoded_to_objects(body: bytes) -> None:
    """CVE-2026-28277 used an extension hook. Here an extension is not a valid row."""
    with pytest.raises(FormatError, match="must be a mapping"):
        Continuation.from_bytes(make_object(body))


def peak_memory_of_rejection(data: bytes) -> int:
    """Return the peak memory, in bytes, of rejecting an object."""
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt):
            decode_object(data, NAME)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_body_larger_than_its_claimed_size_is_not_unpacked() -> None:
    """600 MiB of zeros in 19 kB are rejected before they are unpacked."""
    compressor = zstd.ZstdCompressor()
    block = bytes(1 << 20)
    bomb = b"".join(
        [*(compressor.compress(block) for _ in range(600)), compressor.flush()]
    )
    assert len(bomb) < 100_000

    for size in (0, 1, 1000):
        assert (
            peak_memory_of_rejection(make_object(bomb, size=size, codec=ZSTD)) < 4 << 20
        )


def test_list_with_millions_of_items_is_rejected_before_it_is_created() -> None:
    """1 kB can be a valid body of 32 MiB that holds only zeros."""
    count = 1 << 25
    body = b"\xdd" + count.to_bytes(4, "big") + bytes(count)
    bomb = zstd.compress(body)
    assert len(bomb) < 10_000

    peak = peak_memory_of_rejection(make_object(bomb, size=len(body), codec=ZSTD))

    # Memory for the body, perhaps twice, but not for a list of 256 MiB.
    assert peak < 100 << 20


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_from_bytes_accepts_bytearray_and_memoryview(
    kind: Callable[[bytes], Any],
) -> None:
    assert Continuation(new_state()) == Continuation.from_bytes(
        kind(small_continuation())
    )


@pytest.mark.parametrize("data", [b"rubbish", b"CONT rubbish"])
def test_error_of_a_stored_object_names_its_key_and_the_doctor(data: bytes) -> None:
    for key in (NAME, "waits/approval-01@jane-1"):
        with pytest.raises(FormatError) as caught:
            decode_object(data, key)

        text = str(caught.value)
        assert text.startswith(f"{key} is ")
        assert text.endswith(
            "`continuations doctor jane-1` checks the run and can repair it."
        )
    with pytest.raises(FormatError) as caught:
        Continuation.from_bytes(data)
    assert "doctor" not in str(caught.value)
