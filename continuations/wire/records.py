"""Stored records of a run: waits, decisions, signals, messages, cancel requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.decisions import DECISION_KINDS, Decision
from continuations.core.jsontext import NotJson
from continuations.core.messages import MalformedMessage, Message
from continuations.core.wait_rules import WAIT_KINDS, WAIT_RULES
from continuations.core.waits import Wait
from continuations.errors import Corrupt
from continuations.value_class import dataclass
from continuations.wire.envelope import decode_object, encode_object
from continuations.wire.fields import (
    FieldReader,
    invalid_object,
    omit_empty,
    to_milliseconds,
)
from continuations.wire.formats import fields_of, read_fields

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import TypeVar

    T = TypeVar("T")


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
    """

    id: str
    number: int
    at: datetime
    message: Message
    by: str | None = None
    marker: str | None = None
    when_busy: str = ""
    closes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One signal to a run; numbers start at 1 without gaps.

    `data` is JSON text. `marker` is the key of the marker object that was created for
    the signal. `door` and `authentication` are those of a decision.
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


def encode_wait(wait: Wait) -> bytes:
    """Return the bytes of a wait object."""
    return encode_object({"kind": "wait", "run": wait.run_id}, wait_fields(wait))


def decode_wait(data: bytes, name: str, run_id: str) -> Wait:
    """Decode a wait of the run `run_id`; raises `FormatError` or `Corrupt`."""
    wait = decode_record(data, name, "wait", run_id, read_wait)
    if wait.run_id != run_id:
        raise _other_run_error(name, wait.run_id, run_id)
    return wait


def encode_decision(decision: Decision, run_id: str) -> bytes:
    """Return the bytes of a decision."""
    body = decision_fields(decision)
    return encode_object({"kind": "decision", "run": run_id}, body)


def decision_fields(decision: Decision) -> dict[str, object]:
    """Return the stored fields of a decision, for its own object and for votes."""
    return omit_empty(
        id=decision.id,
        wait=decision.wait_id,
        kind=decision.kind,
        at=to_milliseconds(decision.at),
        digest=decision.digest,
        by=decision.by,
        reason=decision.reason,
        arguments=decision.arguments,
        value=decision.value,
        marker=decision.marker,
        **fields_of("decision", decision),
    )


def decode_decision(data: bytes, name: str, run_id: str) -> Decision:
    """Decode a decision of the run `run_id`; raises `FormatError` or `Corrupt`."""
    return decode_record(data, name, "decision", run_id, read_decision)


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


def decode_record(
    data: bytes, name: str, kind: str, run_id: str, read: Callable[[object, str], T]
) -> T:
    """Decode a record of the run `run_id`; raises `FormatError` or `Corrupt`."""
    opened = decode_object(data, name)
    header = FieldReader(opened.header, f"the header of {name}")
    header.one_of("kind", frozenset({kind}))
    stored_run_id = header.text("run")
    header.check_all_read()
    if stored_run_id != run_id:
        raise _other_run_error(name, stored_run_id, run_id)
    return read(opened.body, name)


def _other_run_error(name: str, stored_run_id: str, run_id: str) -> Corrupt:
    msg = (
        f"{name} belongs to run {stored_run_id}, not to run {run_id}. It was not "
        "changed. Restore the right object from a backup."
    )
    return Corrupt(msg, run_id=run_id)


def wait_fields(wait: Wait) -> dict[str, object]:
    """Return the stored fields of a wait, for its own object and for versions."""
    deadline = wait.deadline
    return omit_empty(
        id=wait.id,
        run=wait.run_id,
        call=wait.call_id or None,
        kind=wait.kind,
        path=list(wait.path),
        tool=wait.tool,
        arguments=wait.arguments_json,
        schema=wait.schema_json,
        digest=wait.digest,
        created=to_milliseconds(wait.created_at),
        deadline=None if deadline is None else to_milliseconds(deadline),
        valid_for=wait.valid_for,
        policy=wait.policy,
        denial_stops=wait.denial_stops,
        expiry_stops=wait.expiry_stops,
        note=wait.note,
        **fields_of("wait", wait),
    )


def read_wait(value: object, where: str) -> Wait:
    """Return the wait that the stored fields describe; raises `FormatError`."""
    fields = FieldReader(value, where)
    kind = fields.one_of("kind", WAIT_KINDS)
    of_call = "call" in WAIT_RULES[kind].subjects
    wait = Wait(
        id=fields.text("id"),
        run_id=fields.text("run"),
        call_id=fields.text("call") if of_call else "",
        kind=kind,
        path=fields.texts("path"),
        tool=fields.text("tool"),
        arguments_json=fields.json_object("arguments"),
        schema_json=fields.json_object("schema"),
        digest=fields.text("digest"),
        created_at=fields.timestamp("created"),
        deadline=fields.timestamp_or_none("deadline"),
        valid_for=fields.number_or_none("valid_for"),
        policy=fields.text_or_none("policy"),
        denial_stops=fields.flag("denial_stops"),
        expiry_stops=fields.flag("expiry_stops"),
        note=fields.text_or_none("note"),
        **read_fields("wait", fields),
    )
    fields.check_all_read()
    if wait.subject not in wait.rules.subjects or (of_call and wait.frame_id):
        raise invalid_object(where, f"a wait of kind {wait.kind} has another subject")
    return wait


def read_decision(value: object, where: str) -> Decision:
    """Return the decision that the fields describe; raises `FormatError`."""
    fields = FieldReader(value, where)
    decision = Decision(
        id=fields.text("id"),
        wait_id=fields.text("wait"),
        kind=fields.one_of("kind", DECISION_KINDS),
        at=fields.timestamp("at"),
        digest=fields.text("digest"),
        by=fields.text_or_none("by"),
        reason=fields.text_or_none("reason"),
        arguments=fields.json_object_or_none("arguments"),
        value=fields.json_or_none("value"),
        marker=fields.text_or_none("marker"),
        **read_fields("decision", fields),
    )
    fields.check_all_read()
    return decision


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
