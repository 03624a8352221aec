"""Objects made by hand: bytes that the library itself never writes."""

from __future__ import annotations

from typing import Any

import msgpack

from continuations.core.rows.delta import diff
from continuations.wire.continuation import Continuation
from continuations.wire.envelope import object_digest
from continuations.wire.rows import delta_fields
from tests.core.rows import RUN, nested_agents, new_state

HEADER: dict[str, object] = {"kind": "continuation", "run": RUN, "version": 0}

PLAIN, ZSTD = 0, 1


def pack(value: object) -> bytes:
    """Return any value as msgpack."""
    return msgpack.packb(value, unicode_errors="surrogatepass")


def with_digest(data: bytes) -> bytes:
    """Return bytes followed by their digest."""
    return data + object_digest(data)


def make_object(
    body: bytes,
    *,
    header: bytes | None = None,
    size: Any = None,
    codec: int = PLAIN,
    format_number: int = 1,
    reserved_byte: int = 0,
    header_length: int | None = None,
) -> bytes:
    """Return an object with a valid digest and the given parts."""
    size = len(body) if size is None else size
    packed_header = pack({**HEADER, "size": size}) if header is None else header
    header_length = len(packed_header) if header_length is None else header_length
    prefix = b"CONT" + format_number.to_bytes(2, "big") + bytes([codec, reserved_byte])
    return with_digest(prefix + header_length.to_bytes(4, "big") + packed_header + body)


def stored_fields(**changes: object) -> dict[str, Any]:
    """Return the stored fields of a run that waits two agents deep."""
    return {**delta_fields(diff(None, nested_agents(2))), **changes}


def small_continuation() -> bytes:
    return Continuation(new_state()).to_bytes()
