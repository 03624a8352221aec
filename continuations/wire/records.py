"""The small flat records: waits, decisions, messages, cancellations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from continuations.core.decisions import DECISION_KINDS, Decision
from continuations.core.jsontext import NotJson
from continuations.core.messages import MalformedMessage, Message
from continuations.core.waits import WAIT_KINDS, Wait
from continuations.errors import Corrupt, FormatError
from continuations.wire.envelope import decode_object, encode_object
from continuations.wire.fields import FieldReader, omit_empty, to_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import TypeVar

    T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """The one wish to end a run, whatever it is doing."""

    id: str
    at: datetime
    by: str | None = None
    reason: str | None = None
    marker: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxMessage:
    """One message in a run's inbox."""

    id: str
    number: int
    at: datetime
    message: Message
    by: str | None = None
    marker: str | None = None


def encode_wait(wait: Wait) -> bytes:
    """Return the bytes of a wait object."""
    return encode_object({"kind": "wait", "run": wait.run_id}, wait_fields(wait))


def decode_wait(data: bytes, name: str, run_id: str) -> Wait:
    """Return the wait of a run of its bytes; raises `FormatError` or `Corrupt`."""
    wait = _decode_record(data, name, "wait", run_id, read_wait)
    if wait.run_id != run_id:
        msg = f"{name} is a wait of run {wait.run_id} inside. It was left untouched."
        raise Corrupt(msg, run_id=run_id)
    return wait


def encode_decision(decision: Decision, run_id: str) -> bytes:
    """Return the bytes of a decision."""
    body = omit_empty(
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
    )
    return encode_object({"kind": "decision", "run": run_id}, body)


def decode_decision(data: bytes, name: str, run_id: str) -> Decision:
    """Return the decision of its bytes; raises `FormatError` or `Corrupt`."""
    return _decode_record(data, name, "decision", run_id, _read_decision)


def encode_cancel_request(request: CancelRequest, run_id: str) -> bytes:
    """Return the bytes of a cancellation."""
    body = omit_empty(
        id=request.id,
        at=to_milliseconds(request.at),
        by=request.by,
        reason=request.reason,
        marker=request.marker,
    )
    return encode_object({"kind": "cancellation", "run": run_id}, body)


def decode_cancel_request(data: bytes, name: str, run_id: str) -> CancelRequest:
    """Return the cancellation of its bytes; raises `FormatError` or `Corrupt`."""
    return _decode_record(data, name, "cancellation", run_id, _read_cancel_request)


def encode_inbox_message(message: InboxMessage, run_id: str) -> bytes:
    """Return the bytes of a message in an inbox."""
    body = omit_empty(
        id=message.id,
        number=message.number,
        at=to_milliseconds(message.at),
        message=message.message.text,
        by=message.by,
        marker=message.marker,
    )
    return encode_object({"kind": "message", "run": run_id}, body)


def decode_inbox_message(data: bytes, name: str, run_id: str) -> InboxMessage:
    """Return the message of its bytes; raises `FormatError` or `Corrupt`."""
    return _decode_record(data, name, "message", run_id, _read_inbox_message)


def _decode_record(
    data: bytes, name: str, kind: str, run_id: str, read: Callable[[object, str], T]
) -> T:
    opened = decode_object(data, name)
    header = FieldReader(opened.header, f"the header of {name}")
    header.one_of("kind", frozenset({kind}))
    told = header.text("run")
    header.check_all_read()
    if told != run_id:
        msg = f"{name} was made for run {told}. It was left untouched."
        raise Corrupt(msg, run_id=run_id)
    return read(opened.body, name)


def wait_fields(wait: Wait) -> dict[str, object]:
    """Return a wait as stored, in its own object and in a version alike."""
    deadline = wait.deadline
    return omit_empty(
        id=wait.id,
        run=wait.run_id,
        call=wait.call_id,
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
    )


def read_wait(value: object, where: str) -> Wait:
    """Return the wait of its stored fields."""
    fields = FieldReader(value, where)
    wait = Wait(
        id=fields.text("id"),
        run_id=fields.text("run"),
        call_id=fields.text("call"),
        kind=fields.one_of("kind", WAIT_KINDS),
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
    )
    fields.check_all_read()
    return wait


def _read_decision(value: object, where: str) -> Decision:
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
    )
    fields.check_all_read()
    return decision


def _read_cancel_request(value: object, where: str) -> CancelRequest:
    fields = FieldReader(value, where)
    cancellation = CancelRequest(
        id=fields.text("id"),
        at=fields.timestamp("at"),
        by=fields.text_or_none("by"),
        reason=fields.text_or_none("reason"),
        marker=fields.text_or_none("marker"),
    )
    fields.check_all_read()
    return cancellation


def _read_inbox_message(value: object, where: str) -> InboxMessage:
    fields = FieldReader(value, where)
    letter = InboxMessage(
        id=fields.text("id"),
        number=fields.number("number"),
        at=fields.timestamp("at"),
        message=_read_user_message(fields.text("message"), where),
        by=fields.text_or_none("by"),
        marker=fields.text_or_none("marker"),
    )
    fields.check_all_read()
    return letter


def _read_user_message(text: str, where: str) -> Message:
    message = read_message(text, where)
    if message.role != "user":
        msg = f"{where} is a message of the {message.role}, not of a user"
        raise FormatError(msg)
    return message


def read_message(value: object, where: str) -> Message:
    """Return the message of its stored text."""
    if type(value) is not str:
        msg = f"{where} is not a text"
        raise FormatError(msg)
    try:
        return Message.from_json(value)
    except (MalformedMessage, NotJson) as error:
        msg = f"{where} is not a message: {error}"
        raise FormatError(msg) from None
