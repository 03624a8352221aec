"""The envelope of every stored object: magic, format number, header, body, digest.

    4 bytes   CONT
    2 bytes   format number
    1 byte    codec of the body: 0 plain, 1 zstd with the dictionary of `dictionary`
    1 byte    zero
    4 bytes   length of the header
    header    msgpack, never compressed or encrypted, so that operators can read it
    body      msgpack, as the codec says
    16 bytes  the first half of the SHA-256 of all bytes before it

Numbers are big-endian. Damage and a newer format raise different errors. Reading the
bytes never executes code.
"""

from __future__ import annotations

import sys
import threading
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import msgpack

from continuations.errors import Corrupt, FormatError, NewerFormat
from continuations.value_class import dataclass
from continuations.wire.fields import (
    FIRST_FORMAT,
    FORMATS,
    NEWEST_FORMAT,
    lowest_format,
)

if TYPE_CHECKING:
    from collections.abc import Callable

MAGIC = b"CONT"

_PLAIN, _ZSTD = 0, 1
# The format that introduced a codec. A later format may bring another dictionary.
_FORMAT_OF_CODEC = {_PLAIN: 1, _ZSTD: 1}
_PREFIX_BYTES = 12
_DIGEST_BYTES = 16
_TEXT_ONLY = frozenset({str})
# Smaller bodies are stored plain, because zstd would save little or nothing.
_MIN_COMPRESSED_BYTES = 400
# A body is also stored plain if zstd makes it less than a quarter smaller: to read a
# small body takes half of the time then. Most objects of waits are small.
_MAX_COMPRESSED_SHARE = 0.75
# Pairs of (body size below which it applies, level). Most bodies have some kB and are
# kept for the life of the run, so they get the higher level. Level 12 would save 0.3 %
# of a small body, and take three times as long.
_LARGE_BODY = 1 << 16
_ZSTD_LEVELS = ((_LARGE_BODY, 9), (1 << 40, 3))
# Maximum size of an unpacked body. A transcript of 64 MiB fits.
MAX_BODY_BYTES = 256 * 1024 * 1024
# Maximum number of containers in one object and of items in one container, and maximum
# number of items in all containers. No run has as many rows or messages.
_MAX_ITEMS, _MAX_TOTAL_ITEMS = 1 << 20, 4 << 20
# Maximum number of keys in one mapping; the largest ones have a key for each frame. To
# read a mapping takes ten times as long as a list. So many keys have more bytes than
# `_MAX_ITEMS`, so a writer notices them too.
_MAX_KEYS = 1 << 18
# A small object must not fill the memory of its reader (a decompression bomb). Real
# conversations shrink by a factor below 100. A body that shrinks more is stored plain.
_MAX_RATIO, _RATIO_ALLOWANCE_BYTES = 1000, 4 << 20


@dataclass(frozen=True, slots=True)
class DecodedObject:
    """The values of one object."""

    header: dict[str, Any]
    body: object


def encode_object(header: dict[str, object], body: object) -> bytes:
    """Return the bytes of an object, in the lowest format that suffices.

    Raises `FormatError` if the object is too large.
    """
    packed = _to_msgpack(body)
    if len(packed) > MAX_BODY_BYTES:
        raise FormatError(
            f"the object was not stored: it has {len(packed)} bytes, and at most "
            f"{MAX_BODY_BYTES} are allowed. Use shorter messages or results."
        )
    if len(packed) > _MAX_ITEMS:
        _check_item_counts(packed)
    number = lowest_format(header, body)
    codec = _PLAIN if len(packed) < _MIN_COMPRESSED_BYTES else _ZSTD
    packed_header = _to_msgpack({**header, "size": len(packed)})
    level = next(level for limit, level in _ZSTD_LEVELS if len(packed) < limit)
    stored = packed if codec == _PLAIN else _compress(packed, level)
    is_bomb = _is_decompression_bomb(len(packed), len(stored))
    if is_bomb or len(stored) > _MAX_COMPRESSED_SHARE * len(packed):
        codec, stored = _PLAIN, packed
    prefix = MAGIC + number.to_bytes(2, "big") + bytes([codec, 0])
    data = b"".join(
        (prefix, len(packed_header).to_bytes(4, "big"), packed_header, stored)
    )
    return data + object_digest(data)


def _check_item_counts(packed: bytes) -> None:
    # Each value takes at least one byte, so the caller checks only large bodies.
    try:
        _from_msgpack(packed, "the object")
    except Corrupt:
        raise FormatError(
            f"the object was not stored: it has more values than the allowed "
            f"{_MAX_TOTAL_ITEMS}. Use shorter messages or results."
        ) from None


def decode_object(data: bytes, name: str) -> DecodedObject:
    """Return the values of an object; errors call it `name`.

    Raises `Corrupt` for damaged bytes, `NewerFormat` for a newer format, and
    `FormatError` for bytes of another program.
    """
    codec, header_end = _check_envelope(data, name)
    header = _decode_header(data[_PREFIX_BYTES:header_end], name)
    size = header.pop("size")
    if not 0 <= size <= MAX_BODY_BYTES:
        raise _corrupt_error(name, f"it claims to hold {size} bytes")
    stored = data[header_end:-_DIGEST_BYTES]
    if _is_decompression_bomb(size, len(stored)):
        raise _corrupt_error(name, f"it claims to hold {size} bytes in {len(stored)}")
    packed = stored if codec == _PLAIN else _decompress(stored, size, name)
    if len(packed) != size:
        raise _corrupt_error(name, f"its body has {len(packed)} bytes, not {size}")
    body = _from_msgpack(packed, name)
    _check_format(data, header, body, name)
    return DecodedObject(header, body)


def _is_decompression_bomb(size: int, stored_size: int) -> bool:
    return size > _MAX_RATIO * stored_size + _RATIO_ALLOWANCE_BYTES


def object_digest(data: bytes) -> bytes:
    """Return the digest by which other objects refer to these bytes.

    It detects damage and mix-ups, not forgery; 128 bits suffice against chance.
    """
    return sha256(data).digest()[:_DIGEST_BYTES]


def decode_object_header(data: bytes, name: str) -> dict[str, Any]:
    """Return the header of an object; raises the same errors as `decode_object`."""
    _, header_end = _check_envelope(data, name)
    header = _decode_header(data[_PREFIX_BYTES:header_end], name)
    header.pop("size")
    _check_format(data, header, None, name)
    return header


def _check_format(data: bytes, header: dict[str, Any], body: object, name: str) -> None:
    number = format_number(data)
    if number == NEWEST_FORMAT:
        return  # it may have every field
    needed = lowest_format(header, body)
    if number < needed:
        raise FormatError(
            f"{name} is invalid: it has format {number} and fields of format {needed}. "
            "It was not changed. Check which program wrote it."
        )


def format_number(data: bytes) -> int:
    """Return the format number that the prefix of an object has."""
    return int.from_bytes(data[4:6], "big")


def _decode_header(data: bytes, name: str) -> dict[str, Any]:
    header = _from_msgpack(data, name)
    if isinstance(header, dict):
        fields = cast("dict[str, Any]", header)
        if type(fields.get("size")) is int:
            return fields
    raise _corrupt_error(name, "its header has no size")


def _check_envelope(data: bytes, name: str) -> tuple[int, int]:
    """Check format and digest; return the codec and the end of the header."""
    if len(data) < len(MAGIC) + 2 or not data.startswith(MAGIC):
        if not data.strip(b"\0"):
            raise _corrupt_error(name, "it is empty")
        raise FormatError(
            f"{name} is not an object of continuations. It was not changed. "
            f"{_doctor_advice(name) or 'Check which file or object you passed.'}"
        )
    number = format_number(data)
    intact = len(data) >= _PREFIX_BYTES + _DIGEST_BYTES and (
        object_digest(data[:-_DIGEST_BYTES]) == data[-_DIGEST_BYTES:]
    )
    if not intact:
        raise _corrupt_error(name, "its digest does not match its bytes")
    if number not in FORMATS:
        known = f"formats {FIRST_FORMAT} to {NEWEST_FORMAT}"
        if FIRST_FORMAT == NEWEST_FORMAT:
            known = f"format {NEWEST_FORMAT}"
        raise NewerFormat(
            f"{name} has format {number}, and this release reads {known}. It was not "
            "changed. Use a newer release of continuations."
        )
    codec, zero = data[6], data[7]
    header_end = _PREFIX_BYTES + int.from_bytes(data[8:12], "big")
    known_codec = _FORMAT_OF_CODEC.get(codec, number + 1) <= number
    if not known_codec or zero or header_end > len(data) - _DIGEST_BYTES:
        raise _corrupt_error(name, "its envelope is invalid")
    return codec, header_end


def _corrupt_error(name: str, why: str) -> Corrupt:
    msg = (
        f"{name} is damaged: {why}. It was not changed. Restore it from a backup or "
        f"from an earlier version of the object in the bucket. {_doctor_advice(name)}"
    )
    return Corrupt(msg.rstrip())


def _doctor_advice(name: str) -> str:
    """Return how to repair the run of a stored object, or "" for other bytes."""
    # A stored object has its key as name: runs/RUN/... or waits/WAIT@RUN.
    folder, _, rest = name.partition("/")
    if folder not in ("runs", "waits"):
        return ""
    run_id = rest.partition("/")[0].rpartition("@")[2]
    return f"`continuations doctor {run_id}` checks the run and can repair it."


def _to_msgpack(value: object) -> bytes:
    # JSON escapes of a model may be lone surrogates, which must come back equal.
    try:
        return msgpack.packb(value, strict_types=True, unicode_errors="surrogatepass")
    except (OverflowError, TypeError, ValueError) as error:
        raise FormatError(f"the object cannot be stored: {error}") from None


def _from_msgpack(data: bytes, name: str) -> object:
    # Each value takes at least one byte, so only large objects can have too many.
    is_small = len(data) <= _MAX_ITEMS
    mapping, sequence = (_unique_text_keys, None) if is_small else _counting_hooks()
    limit = min(_MAX_ITEMS, len(data))
    try:
        return msgpack.unpackb(
            data,
            strict_map_key=True,
            unicode_errors="surrogatepass",
            object_pairs_hook=mapping,
            list_hook=sequence,
            max_array_len=limit,
            max_map_len=min(_MAX_KEYS, limit),
        )
    except (
        MemoryError,
        RecursionError,
        ValueError,
        msgpack.UnpackException,
    ) as error:
        raise _corrupt_error(
            name, f"it is not valid msgpack ({type(error).__name__})"
        ) from None


def _counting_hooks() -> tuple[
    Callable[[list[tuple[Any, Any]]], dict[str, Any]], Callable[[list[Any]], list[Any]]
]:
    """Return hooks for mappings and lists that raise ValueError for too many values."""
    containers = items = 0

    def count(length: int) -> None:
        nonlocal containers, items
        containers += 1
        items += length
        if containers > _MAX_ITEMS or items > _MAX_TOTAL_ITEMS:
            raise ValueError("too many values")

    def mapping(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
        count(len(pairs))
        return _unique_text_keys(pairs)

    def sequence(values: list[Any]) -> list[Any]:
        count(len(values))
        return values

    return mapping, sequence


def _unique_text_keys(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs) or not {*map(type, values)} <= _TEXT_ONLY:
        raise ValueError("a key is repeated or is not a string")
    return values


def _compress(packed: bytes, level: int) -> bytes:
    if len(packed) >= _LARGE_BODY:
        # As a dictionary, the few bytes would make zstd expect a small body: its
        # result would be two fifths larger. A prefix reads the same.
        prefix = _dictionary().as_prefix
        compressor = _zstd().ZstdCompressor(level, zstd_dict=prefix)
        large: bytes = compressor.compress(packed, compressor.FLUSH_FRAME)
        return large
    # A new compressor costs ten times what the compression of a small body costs.
    compressors = _compressors.of_thread
    compressor = compressors.get(level)
    if compressor is None:
        compressor = _zstd().ZstdCompressor(level, zstd_dict=_dictionary())
        compressors[level] = compressor
    compressed: bytes = compressor.compress(packed, compressor.FLUSH_FRAME)
    return compressed


class _Compressors(threading.local):
    """The compressors of each thread, by level."""

    def __init__(self) -> None:
        self.of_thread: dict[int, Any] = {}


_compressors = _Compressors()


def _decompress(data: bytes, size: int, name: str) -> bytes:
    zstd = _zstd()
    decompressor = zstd.ZstdDecompressor(zstd_dict=_dictionary())
    try:
        # One byte more than the header claims is enough to detect a wrong size.
        packed: bytes = decompressor.decompress(data, size + 1)
    except zstd.ZstdError:
        raise _corrupt_error(name, "its body does not decompress") from None
    if not decompressor.eof or decompressor.unused_data:
        raise _corrupt_error(name, "its body is not one complete zstd frame")
    return packed


@lru_cache
def _dictionary() -> Any:
    from continuations.wire.dictionary import DICTIONARY  # noqa: PLC0415 - as zstd is

    return _zstd().ZstdDict(DICTIONARY, is_raw=True)


@lru_cache
def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - not needed for small records
    else:
        from backports import zstd  # noqa: PLC0415 - not needed for small records
    return zstd
