"""Stored records of a run: waits and decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.decisions import DECISION_KINDS, Decision
from continuations.core.wait_rules import WAIT_KINDS, WAIT_RULES
from continuations.core.waits import Wait
from continuations.errors import Corrupt
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
    from typing import TypeVar

    T = TypeVar("T")


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
