"""Stored versions of a run: a header that operators can read, and a delta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core import invariants
from continuations.core.delta import DeltaMismatch, apply_delta
from continuations.core.run import RUN_STATUSES
from continuations.errors import Corrupt
from continuations.value_class import dataclass
from continuations.wire import envelope
from continuations.wire.fields import (
    FieldReader,
    invalid_object,
    omit_empty,
    to_milliseconds,
)
from continuations.wire.formats import fields_of, read_fields
from continuations.wire.rows import delta_fields, read_delta
from continuations.wire.tombstone import TOMBSTONE, erased_error

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.delta import Delta
    from continuations.core.run import RunRow, RunStatus
    from continuations.core.state import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionHeader:
    """The header of a version, which is stored uncompressed.

    Attributes:
        run_id: Id of the run.
        number: Number of the version, from 1.
        root: Number of the version from which the tree of deltas is counted.
        base: Number of the version that the delta starts from, 0 for a full copy.
        base_digest: Digest of the bytes of that version, or `None` for a full copy.
        status: Status of the run.
        at: When the version was written.
        claimed_until: End of the claim of a running version, or `None`.
        markers: Keys of the marker objects that point at the run.
        from_zero: Whether the positions in the tree of deltas begin with 0 and not
            with 1. If so, only the root is a full copy.
        base_object: The bytes of the base, if this version carries them, or `None`.
        inbox: Number of the last message that a thread has read.
        answered: Number of the last message that has its reply in a thread.
        replies: The versions of replies of a thread (`ledger.reply_table`).
    """

    run_id: str
    number: int
    root: int
    base: int
    base_digest: bytes | None
    status: RunStatus
    at: datetime
    claimed_until: datetime | None = None
    markers: tuple[str, ...] = ()
    from_zero: bool = False
    base_object: bytes | None = None
    inbox: int = 0
    answered: int = 0
    replies: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class VersionObject:
    """A decoded version, with the digest of its bytes."""

    header: VersionHeader
    delta: Delta
    digest: bytes


def encode_version(header: VersionHeader, delta: Delta) -> bytes:
    """Return the bytes of a version; raises `FormatError` if it is too large."""
    until = header.claimed_until
    fields = omit_empty(
        kind="version",
        run=header.run_id,
        number=header.number,
        root=header.root,
        base=header.base or None,
        base_digest=header.base_digest,
        status=header.status,
        at=to_milliseconds(header.at),
        until=None if until is None else to_milliseconds(until),
        markers=list(header.markers),
        **fields_of("version header", header),
    )
    return envelope.encode_object(
        fields, delta_fields(delta, full_copy=header.base == 0)
    )


def decode_version(data: bytes, name: str, base: RunRow | None = None) -> VersionObject:
    """Decode a version; raises `FormatError` or `Corrupt`.

    `base` is the row of the run in the version that the delta starts from. Deltas omit
    the fields of a run that never change.
    """
    opened = envelope.decode_object(data, name)
    header = _read_header(opened.header, name)
    delta = read_delta(opened.body, name, base)
    run = delta.run
    if (header.run_id, header.status) != (run.id, run.status):
        msg = (
            f"{name} is damaged: its header says run {header.run_id}, {header.status}, "
            f"and its body says run {run.id}, {run.status}. Restore it from a backup."
        )
        raise Corrupt(msg, run_id=header.run_id)
    numbers = (header.inbox, header.answered)
    is_thread = run.thread_key is not None
    if numbers != ((run.last_inbox_number, run.answered) if is_thread else (0, 0)):
        msg = (
            f"{name} is damaged: the message numbers of its header, {numbers}, are not "
            "those of its body. Restore it from a backup."
        )
        raise Corrupt(msg, run_id=header.run_id)
    return VersionObject(header, delta, envelope.object_digest(data))


def decode_header(data: bytes, name: str) -> VersionHeader:
    """Decode only the header; raises the same errors as `decode_version`."""
    return _read_header(envelope.decode_object_header(data, name), name)


def _read_header(value: dict[str, Any], name: str) -> VersionHeader:
    if value.get("kind") == TOMBSTONE:
        raise erased_error(value)
    fields = FieldReader(value, f"the header of {name}")
    fields.one_of("kind", frozenset({"version"}))
    header = VersionHeader(
        run_id=fields.text("run"),
        number=fields.number("number"),
        root=fields.number("root"),
        base=fields.number("base", 0),
        base_digest=fields.binary_or_none("base_digest"),
        status=fields.one_of("status", RUN_STATUSES),
        at=fields.timestamp("at"),
        claimed_until=fields.timestamp_or_none("until"),
        markers=fields.texts("markers"),
        **read_fields("version header", fields),
    )
    fields.check_all_read()
    return header


def rebuild_state(base: RunState | None, delta: Delta, name: str) -> RunState:
    """Apply the delta of a version to its base; raises `Corrupt`."""
    try:
        return apply_delta(base, delta)
    except DeltaMismatch as error:
        raise Corrupt(
            f"{name} does not fit the version that it is based on: {error}. Restore "
            "both objects from a backup."
        ) from None


def check_state(state: RunState, name: str) -> RunState:
    """Return the state if its rows fit together; raises `FormatError`."""
    violation = invariants.find_violation(state)
    if violation is not None:
        raise invalid_object(name, violation)
    return state
