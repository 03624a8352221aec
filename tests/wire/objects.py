"""Objects made by hand: bytes that no honest writer would write."""

from __future__ import annotations

from typing import Any

import msgpack

from continuations.core.delta import diff
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import digest_of
from continuations.wire.v1 import delta_fields
from tests.core.rows import RUN, new_table, tower

HEADER: dict[str, object] = {"kind": "continuation", "run": RUN, "version": 0}

PLAIN, ZSTD = 0, 1


def pack(value: object) -> bytes:
    """Return msgpack, whatever the value."""
    return msgpack.packb(value, unicode_errors="surrogatepass")


def signed(data: bytes) -> bytes:
    """Return bytes with the digest that belongs to them."""
    return data + digest_of(data)


def sealed(
    body: bytes,
    *,
    header: bytes | None = None,
    size: Any = None,
    codec: int = PLAIN,
    number: int = 1,
    zero: int = 0,
    length: int | None = None,
) -> bytes:
    """Return an object with a right digest, and anything else as told."""
    size = len(body) if size is None else size
    top = pack({**HEADER, "size": size}) if header is None else header
    length = len(top) if length is None else length
    prefix = b"CONT" + number.to_bytes(2, "big") + bytes([codec, zero])
    return signed(prefix + length.to_bytes(4, "big") + top + body)


def body(**changes: object) -> dict[str, Any]:
    """Return the stored fields of a run that waits two agents deep."""
    return {**delta_fields(diff(None, tower(2))), **changes}


def small() -> bytes:
    """Return the honest bytes of a small continuation."""
    return Continuation(new_table()).to_bytes()
