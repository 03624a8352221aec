"""Decode every version of a schedule once, and not once for each process.

The processes of a schedule read the same versions again and again. Without this, a
schedule spends a fifth of its time on decoding them.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from unittest import mock

from continuations.core.rows.run import RunRow
from continuations.ledger import other_runs, versions
from continuations.ledger.repair import integrity
from continuations.wire.versions import VersionObject, decode_header, decode_version


@contextmanager
def versions_decoded_once() -> Generator[None]:
    """Keep the versions that are decoded while one schedule runs, but no errors."""
    decoded: dict[tuple[bytes, str], VersionObject] = {}

    def decode(data: bytes, name: str, base: RunRow | None = None) -> VersionObject:
        # The bytes determine the base: they contain its digest.
        key = data, name
        if key not in decoded:
            decoded[key] = decode_version(data, name, base)
        return decoded[key]

    header = cache(decode_header)
    with (
        mock.patch.object(versions, "decode_version", decode),
        mock.patch.object(other_runs, "decode_header", header),
        mock.patch.object(integrity, "decode_header", header),
    ):
        yield
