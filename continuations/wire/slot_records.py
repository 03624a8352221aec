"""Stored slots of waits. A process that decides imports them only if it needs them."""

from __future__ import annotations

from continuations.core.slots import SLOT_KINDS, Slot
from continuations.wire.envelope import encode_object
from continuations.wire.fields import FieldReader, omit_empty, to_milliseconds
from continuations.wire.formats import fields_of, read_fields
from continuations.wire.records import decision_fields, decode_record, read_decision


def encode_slot(slot: Slot, run_id: str) -> bytes:
    """Return the bytes of a slot."""
    body = omit_empty(
        id=slot.id,
        wait=slot.wait_id,
        number=slot.number,
        kind=slot.kind,
        at=to_milliseconds(slot.at),
        digest=slot.digest,
        deadline=None if slot.deadline is None else to_milliseconds(slot.deadline),
        vote=None if slot.vote is None else decision_fields(slot.vote),
        by=slot.by,
        **fields_of("slot", slot),
    )
    return encode_object({"kind": "slot", "run": run_id}, body)


def decode_slot(data: bytes, name: str, run_id: str) -> Slot:
    """Decode a slot of a wait of `run_id`; raises `FormatError` or `Corrupt`."""
    return decode_record(data, name, "slot", run_id, _read_slot)


def _read_slot(value: object, where: str) -> Slot:
    fields = FieldReader(value, where)
    slot = Slot(
        id=fields.text("id"),
        wait_id=fields.text("wait"),
        number=fields.number("number"),
        kind=fields.one_of("kind", SLOT_KINDS),
        at=fields.timestamp("at"),
        digest=fields.text("digest"),
        deadline=fields.timestamp_or_none("deadline"),
        vote=fields.nested_or_none("vote", read_decision),
        by=fields.text_or_none("by"),
        **read_fields("slot", fields),
    )
    fields.check_all_read()
    return slot
