"""Stored requests of an operator to a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from continuations.core.operator_request import OPERATOR_ACTIONS, OperatorRequest
from continuations.wire.envelope import encode_object
from continuations.wire.fields import FieldReader, omit_empty, to_milliseconds
from continuations.wire.formats import fields_of, read_fields
from continuations.wire.records import decode_record

if TYPE_CHECKING:
    from continuations.core.operator_request import OperatorAction

_KIND = "operator request"


def encode_operator_request(request: OperatorRequest, run_id: str) -> bytes:
    """Return the bytes of a request of an operator."""
    body = omit_empty(
        id=request.id,
        number=request.number,
        at=to_milliseconds(request.at),
        action=request.action,
        call=request.call_id,
        by=request.by,
        reason=request.reason,
        marker=request.marker,
        **fields_of(_KIND, request),
    )
    return encode_object({"kind": _KIND, "run": run_id}, body)


def decode_operator_request(data: bytes, name: str, run_id: str) -> OperatorRequest:
    """Decode a request to the run `run_id`; raises `FormatError` or `Corrupt`."""
    return decode_record(data, name, _KIND, run_id, _read_operator_request)


def _read_operator_request(value: object, where: str) -> OperatorRequest:
    fields = FieldReader(value, where)
    request = OperatorRequest(
        id=fields.text("id"),
        number=fields.number("number"),
        at=fields.timestamp("at"),
        action=cast("OperatorAction", fields.one_of("action", OPERATOR_ACTIONS)),
        call_id=fields.text_or_none("call"),
        by=fields.text_or_none("by"),
        reason=fields.text_or_none("reason"),
        marker=fields.text_or_none("marker"),
        **read_fields(_KIND, fields),
    )
    fields.check_all_read()
    return request
