"""The outside of every stored object: magic, format number, header, body, digest.

    4 bytes   CONT
    2 bytes   format number
    1 byte    codec of the body: 0 plain, 1 zstd
    1 byte    zero
    4 bytes   length of the header
    header    msgpack, never compressed or encrypted: what operators may read
    body      msgpack, as the codec says
    16 bytes  the first half of the SHA-256 of all before it

Numbers are big-endian. Damage and a newer format are told apart by name, and nothing
in the bytes is ever more than data.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

import msgpack

from continuations.errors import Corrupt, FormatError

MAGIC = b"CONT"
FORMATS = {1: "2026-11: the first"}
FORMAT = max(FORMATS)

_PLAIN, _ZSTD = 0, 1
_PREFIX_BYTES = 12
_DIGEST_BYTES = 16
# A body that is not worth a frame of zstd.
_MIN_COMPRESSED_BYTES = 200
# Most bodies are some kB, and every byte of them is kept for the life of the run.
_ZSTD_LEVELS = ((1 << 16, 9), (1 << 40, 3))
# What one object may unpack to. A 64 MiB transcript fits well below.
MAX_BODY_BYTES = 256 * 1024 * 1024
# What one list or mapping may hold, and how many of both there may be in one object;
# and what all of them may hold together: more rows or messages than any run has.
_MAX_ITEMS, _MAX_TOTAL_ITEMS = 1 << 20, 4 << 20
# Who wants much of a reader's memory must have stored something: honest conversations
# shrink by less than a hundred, and what shrinks by more is stored plain.
_MAX_RATIO, _RATIO_ALLOWANCE_BYTES = 1000, 4 << 20


@dataclass(frozen=True, slots=True)
class DecodedObject:
    """The values of one object; `digest` is what others name its bytes by."""

    header: dict[str, Any]
    body: object
    digest: bytes


def encode_object(header: dict[str, object], body: object) -> bytes:
    """Return the bytes of an object; raises `FormatError` if it is too large."""
    packed = _to_msgpack(body)
    if len(packed) > MAX_BODY_BYTES:
        msg = (
            f"{len(packed)} bytes are more than one object may hold ({MAX_BODY_BYTES})"
        )
        raise FormatError(msg)
    if len(packed) > _MAX_ITEMS:
        _check_item_counts(packed)
    codec = _PLAIN if len(packed) < _MIN_COMPRESSED_BYTES else _ZSTD
    top = _to_msgpack({**header, "size": len(packed)})
    level = next(level for most, level in _ZSTD_LEVELS if len(packed) < most)
    stored = packed if codec == _PLAIN else _zstd().compress(packed, level)
    if _is_decompression_bomb(len(packed), len(stored)):
        codec, stored = _PLAIN, packed
    prefix = MAGIC + FORMAT.to_bytes(2, "big") + bytes([codec, 0])
    data = b"".join((prefix, len(top).to_bytes(4, "big"), top, stored))
    return data + object_digest(data)


def _check_item_counts(packed: bytes) -> None:
    # A value takes a byte at least, so only what is this large can hold too many.
    try:
        _from_msgpack(packed, "it")
    except Corrupt:
        msg = f"this has more values than one object may hold ({_MAX_TOTAL_ITEMS})"
        raise FormatError(msg) from None


def decode_object(data: bytes, name: str) -> DecodedObject:
    """Return the values of an object called `name` in errors.

    Raises `Corrupt` for damaged bytes and `FormatError` for bytes that are not ours
    or of a newer format.
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
        raise _corrupt_error(name, f"it holds {len(packed)} bytes and not {size}")
    return DecodedObject(header, _from_msgpack(packed, name), object_digest(data))


def _is_decompression_bomb(size: int, stored_size: int) -> bool:
    return size > _MAX_RATIO * stored_size + _RATIO_ALLOWANCE_BYTES


def object_digest(data: bytes) -> bytes:
    """Return the digest by which other objects name these bytes.

    It tells damage and mix-ups; 128 bits are plenty against chance.
    """
    return sha256(data).digest()[:_DIGEST_BYTES]


def decode_object_header(data: bytes, name: str) -> dict[str, Any]:
    """Return the plain header of an object; raises as `unseal` does."""
    _, header_end = _check_envelope(data, name)
    header = _decode_header(data[_PREFIX_BYTES:header_end], name)
    header.pop("size")
    return header


def _decode_header(data: bytes, name: str) -> dict[str, Any]:
    header = _from_msgpack(data, name)
    if isinstance(header, dict):
        fields = cast("dict[str, Any]", header)
        if type(fields.get("size")) is int:
            return fields
    raise _corrupt_error(name, "its header is not a header")


def _check_envelope(data: bytes, name: str) -> tuple[int, int]:
    """Return the codec and the end of the header, once the digest is right."""
    if len(data) < len(MAGIC) + 2 or not data.startswith(MAGIC):
        if not data.strip(b"\0"):
            raise _corrupt_error(name, "it is empty")
        msg = f"{name} is not an object of continuations; it was left untouched"
        raise FormatError(msg)
    number = int.from_bytes(data[4:6], "big")
    intact = len(data) >= _PREFIX_BYTES + _DIGEST_BYTES and (
        object_digest(data[:-_DIGEST_BYTES]) == data[-_DIGEST_BYTES:]
    )
    if not intact:
        raise _corrupt_error(name, "its digest does not match its bytes")
    if number not in FORMATS:
        msg = (
            f"{name} has format {number}; this version reads {min(FORMATS)} to "
            f"{FORMAT}. It was left untouched. Use a newer version of continuations."
        )
        raise FormatError(msg)
    codec, zero = data[6], data[7]
    header_end = _PREFIX_BYTES + int.from_bytes(data[8:12], "big")
    if codec not in (_PLAIN, _ZSTD) or zero or header_end > len(data) - _DIGEST_BYTES:
        raise _corrupt_error(name, "its outside is not that of an object")
    return codec, header_end


def _corrupt_error(name: str, why: str) -> Corrupt:
    return Corrupt(
        f"{name} is damaged: {why}. Nothing was changed. Restore this object from a "
        "backup or from an earlier version of the bucket."
    )


def _to_msgpack(value: object) -> bytes:
    # Lone surrogates are legal in what a model says (JSON escapes) and must survive.
    try:
        return msgpack.packb(value, strict_types=True, unicode_errors="surrogatepass")
    except (OverflowError, TypeError, ValueError) as error:
        msg = f"this cannot be stored: {error}"
        raise FormatError(msg) from None


def _from_msgpack(data: bytes, name: str) -> object:
    containers = items = 0

    def count(held: int) -> None:
        nonlocal containers, items
        containers += 1
        items += held
        if containers > _MAX_ITEMS or items > _MAX_TOTAL_ITEMS:
            msg = "there are too many values in it"
            raise ValueError(msg)

    def mapping(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
        count(len(pairs))
        return _unique_text_keys(pairs)

    def sequence(values: list[Any]) -> list[Any]:
        count(len(values))
        return values

    most = min(_MAX_ITEMS, len(data))
    try:
        return msgpack.unpackb(
            data,
            strict_map_key=True,
            unicode_errors="surrogatepass",
            object_pairs_hook=mapping,
            list_hook=sequence,
            max_array_len=most,
            max_map_len=most,
        )
    except (
        MemoryError,
        RecursionError,
        ValueError,
        msgpack.UnpackException,
    ) as error:
        raise _corrupt_error(
            name, f"it does not unpack ({type(error).__name__})"
        ) from None


def _unique_text_keys(pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs) or not all(type(key) is str for key in found):
        msg = "a key stands twice, or is no text"
        raise ValueError(msg)
    return found


def _decompress(data: bytes, size: int, name: str) -> bytes:
    zstd = _zstd()
    decompressor = zstd.ZstdDecompressor()
    try:
        # One byte more than promised is enough to know that it lied.
        packed: bytes = decompressor.decompress(data, size + 1)
    except zstd.ZstdError:
        raise _corrupt_error(name, "its body does not decompress") from None
    if not decompressor.eof or decompressor.unused_data:
        raise _corrupt_error(name, "its body is not one whole frame")
    return packed


def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - not needed for small records
    else:
        from backports import zstd  # noqa: PLC0415 - likewise
    return zstd
