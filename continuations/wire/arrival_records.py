"""Stored records that arrive at a run: signals, messages and cancel requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.jsontext import NotJson
from continuations.core.messages import MalformedMessage, Message
from continuations.value_class import dataclass
from continuations.wire.envelope import encode_object
from continuations.wire.fields import (
    FieldReader,
    invalid_object,
    omit_empty,
    to_milliseconds,
)
from continuations.wire.formats import fields_of, read_fields
from continuations.wire.records import decode_record

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """The one request to cancel a run.

    `marker` is the key of the marker object that was created for the request. `door`
    and `authentication` are those of a decision.
    """

    id: str
    at: datetime
    by: str | None = None
    reason: str | None = None
    marker: str | None = None
    door: str | None = None
    authentication: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxMessage:
    """One message in the inbox of a run; numbers start at 1 without gaps.

    `marker` is the key of the marker object that was created for the message. In a
    thread, `when_busy` says what the message does while an earlier one is answered;
    empty: it waits. A message that `closes` its thread has no text for the agent.
    `unread_bytes` are the bytes of the messages before it that the run had not read.
    """

    id: str
    number: int
    at: datetime
    message: Message
    by: str | None = None
    marker: str | None = None
    when_busy: str = ""
    closes: bool = False
    unread_bytes: int = 0

    @property
    def size(self) -> int:
        """The bytes of its text."""
        return len(self.message.text.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One signal to a run; numbers start at 1 without gaps.

    `data` is JSON text. `marker` is the key of the marker object that was created for
    the signal. `door` and `authentication` are those of a decision. `keyed` says that
    an object keeps where the signal is if its sender chose the id.
    """

    id: str
    number: int
    at: datetime
    name: str
    data: str
    by: str | None = None
    marker: str | None = None
    door: str | None = None
    authentication: str | None = None
    keyed: bool = False


def encode_cancel_request(request: CancelRequest, run_id: str) -> bytes:
    """Return the bytes of a cancel request."""
    body = omit_empty(
        id=request.id,
        at=to_milliseconds(request.at),
        by=request.by,
        reason=request.reason,
        marker=request.marker,
        **fields_of("cancellation", request),
    )
    return encode_object({"kind": "cancellation", "run": run_id}, body)


def decode_cancel_request(data: bytes, name: str, run_id: str) -> CancelRequest:
    """Decode a cancel request of `run_id`; raises `FormatError` or `Corrupt`."""
    return decode_record(data, name, "cancellation", run_id, _read_cancel_request)


def encode_inbox_message(message: InboxMessage, run_id: str) -> bytes:
    """Return the bytes of an inbox message."""
    body = omit_empty(
        id=message.id,
        number=message.number,
        at=to_milliseconds(message.at),
        message=message.message.text,
        by=message.by,
        marker=message.marker,
        **fields_of("message", message),
    )
    return encode_object({"kind": "message", "run": run_id}, body)


def decode_inbox_message(data: bytes, name: str, run_id: str) -> InboxMessage:
    """Decode an inbox message of `run_id`; raises `FormatError` or `Corrupt`."""
    return decode_record(data, name, "message", run_id, _read_inbox_message)


def encode_first_number(number: int, run_id: str) -> bytes:
    """Return the bytes of the object that keeps where a message's id may stand."""
    return encode_object({"kind": "message id", "run": run_id}, {"number": number})


def decode_first_number(data: bytes, name: str, run_id: str) -> int:
    """Decode the lowest number of a message; raises `FormatError` or `Corrupt`."""
    return decode_record(data, name, "message id", run_id, _read_first_number)


def encode_first_signal(number: int, run_id: str) -> bytes:
    """Return the bytes of the object that keeps where a signal's id may stand."""
    return encode_object({"kind": "signal id", "run": run_id}, {"number": number})


def decode_first_signal(data: bytes, name: str, run_id: str) -> int:
    """Decode the lowest number of a signal; raises `FormatError` or `Corrupt`."""
    return decode_record(data, name, "signal id", run_id, _read_first_number)


def encode_signal(signal: Signal, run_id: str) -> bytes:
    """Return the bytes of a signal."""
    body = omit_empty(
        id=signal.id,
        number=signal.number,
        at=to_milliseconds(signal.at),
        name=signal.name,
        data=signal.data,
        by=signal.by,
        marker=signal.marker,
        **fields_of("signal", signal),
    )
    return encode_object({"kind": "signal", "run": run_id}, body)


def decode_signal(data: bytes, name: str, run_id: str) -> Signal:
    """Decode a signal to `run_id`; raises `FormatError` or `Corrupt`."""
    return decode_record(data, name, "signal", run_id, _read_signal)


def _read_cancel_request(value: object, where: str) -> CancelRequest:
    fields = FieldReader(value, where)
    request = CancelRequest(
        id=fields.text("id"),
        at=fields.timestamp("at"),
        by=fields.text_or_none("by"),
        reason=fields.text_or_none("reason"),
        marker=fields.text_or_none("marker"),
        **read_fields("cancellation", fields),
    )
    fields.check_all_read()
    return request


def _read_inbox_message(value: object, where: str) -> InboxMessage:
    fields = FieldReader(value, where)
    message = InboxMessage(
        id=fields.text("id"),
        number=fields.number("number"),
        at=fields.timestamp("at"),
        message=_read_user_message(fields.text("message"), where),
        by=fields.text_or_none("by"),
        marker=fields.text_or_none("marker"),
        **read_fields("message", fields),
    )
    fields.check_all_read()
    return message


def _read_first_number(value: object, where: str) -> int:
    fields = FieldReader(value, where)
    number = fields.number("number")
    fields.check_all_read()
    return number


def _read_signal(value: object, where: str) -> Signal:
    fields = FieldReader(value, where)
    signal = Signal(
        id=fields.text("id"),
        number=fields.number("number"),
        at=fields.timestamp("at"),
        name=fields.text("name"),
        data=fields.json_or_none("data") or "null",
        by=fields.text_or_none("by"),
        marker=fields.text_or_none("marker"),
        **read_fields("signal", fields),
    )
    fields.check_all_read()
    return signal


def _read_user_message(text: str, where: str) -> Message:
    message = read_message(text, where)
    if message.role != "user":
        raise invalid_object(where, f"its role must be user, got {message.role}")
    return message


def read_message(value: object, where: str) -> Message:
    """Return the message that a stored text describes; raises `FormatError`."""
    if type(value) is not str:
        raise invalid_object(where, f"it must be str, got {type(value).__name__}")
    try:
        return Message.from_json(value)
    except (MalformedMessage, NotJson) as error:
        raise invalid_object(where, f"it is not a chat message, {error}") from None
