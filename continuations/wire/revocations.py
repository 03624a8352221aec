"""Stored revocations of grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.value_class import dataclass
from continuations.wire.envelope import encode_object
from continuations.wire.fields import FieldReader, omit_empty, to_milliseconds
from continuations.wire.records import decode_record

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocation:
    """The end of a grant; numbers start at 1 without gaps in a run.

    `door` and `authentication` are those of a decision.
    """

    id: str
    number: int
    at: datetime
    grant: str
    by: str | None = None
    reason: str | None = None
    door: str | None = None
    authentication: str | None = None


def encode_revocation(revocation: Revocation, run_id: str) -> bytes:
    """Return the bytes of a revocation."""
    body = omit_empty(
        id=revocation.id,
        number=revocation.number,
        at=to_milliseconds(revocation.at),
        grant=revocation.grant,
        by=revocation.by,
        reason=revocation.reason,
        door=revocation.door,
        authentication=revocation.authentication,
    )
    return encode_object({"kind": "revocation", "run": run_id}, body)


def decode_revocation(data: bytes, name: str, run_id: str) -> Revocation:
    """Decode a revocation of the run `run_id`; raises `FormatError` or `Corrupt`."""
    return decode_record(data, name, "revocation", run_id, _read_revocation)


def _read_revocation(value: object, where: str) -> Revocation:
    fields = FieldReader(value, where)
    revocation = Revocation(
        id=fields.text("id"),
        number=fields.number("number"),
        at=fields.timestamp("at"),
        grant=fields.text("grant"),
        by=fields.text_or_none("by"),
        reason=fields.text_or_none("reason"),
        door=fields.text_or_none("door"),
        authentication=fields.text_or_none("authentication"),
    )
    fields.check_all_read()
    return revocation
