"""Stored versions of a run: a header that operators can read, and a delta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.core.changes import invariants
from continuations.core.rows.delta import Delta, DeltaMismatch, apply_delta
from continuations.core.rows.run import RUN_STATUSES, RunRow, RunStatus
from continuations.errors import Corrupt, RunErased
from continuations.value_class import dataclass
from continuations.wire import envelope, fields
from continuations.wire.fields import OBJECTS, Row
from continuations.wire.records import SplitRecord, check_kind
from continuations.wire.rows import DELTA, delta_fields, read_delta

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.rows.state import RunState


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


VERSION_HEADER = Row(
    "version header",
    VersionHeader,
    run=fields.ID.of("run_id"),
    number=fields.NUMBER,
    root=fields.NUMBER,
    base=fields.COUNT,
    base_digest=fields.BINARY,
    status=fields.one_of(RUN_STATUSES),
    at=fields.AT,
    until=fields.TIME.of("claimed_until"),
    markers=fields.TEXTS,
    base_object=fields.BINARY,
    inbox=fields.COUNT,
    answered=fields.COUNT,
    replies=fields.NUMBERS,
)
_VERSION = "version"
OBJECTS[_VERSION] = VERSION_HEADER, DELTA


def encode_version(header: VersionHeader, delta: Delta) -> bytes:
    """Return the bytes of a version; raises `FormatError` if it is too large."""
    head = {"kind": _VERSION, **VERSION_HEADER.write(header)}
    body = delta_fields(delta, full_copy=header.base == 0)
    return envelope.encode_object(head, body)


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


def _read_header(head: dict[str, Any], name: str) -> VersionHeader:
    where = f"the header of {name}"
    if head.get("kind") == TOMBSTONE.kind:
        check_kind(head, TOMBSTONE.kind, where)
        raise erased_error(TOMBSTONE.header.read(head, where))
    check_kind(head, _VERSION, where)
    return VERSION_HEADER.read(head, where)


# Tombstones -------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """The last version of an erased run, which holds no personal data.

    Attributes:
        run_id: Id of the run.
        number: Number of the version, the highest one of the run.
        at: When the run was erased.
        late_keys: Keys that a process which was frozen may still create. They contain
            ids only.
    """

    run_id: str
    number: int
    at: datetime
    late_keys: tuple[str, ...] = ()


TOMBSTONE = SplitRecord(
    "tombstone",
    Tombstone,
    header=Row(
        "tombstone header",
        dict[str, Any],
        run=fields.ID.of("run_id"),
        number=fields.NUMBER,
        at=fields.AT,
    ),
    body=Row("tombstone", dict[str, Any], keys=fields.TEXTS.of("late_keys")),
)


def erased_error(header: dict[str, Any]) -> RunErased:
    """Return the error for a run whose newest version has this header."""
    run_id = header["run_id"]
    at = fields.readable_time(header["at"])
    msg = (
        f"run {run_id[:128]} was erased on {at}, and its id is not used again. Start a "
        "run with another run_id."
    )
    return RunErased(msg, run_id=run_id)


# States -----------------------------------------------------------------------


def rebuild_state(base: RunState | None, delta: Delta, name: str) -> RunState:
    """Apply the delta of a version to its base; raises `Corrupt`."""
    try:
        return apply_delta(base, delta)
    except DeltaMismatch as error:
        raise Corrupt(
            f"{name} does not fit the version that it is based on: {error}. Restore "
            "both objects from a backup."
        ) from None


def check_state(state: RunState, name: str, known: RunState | None = None) -> RunState:
    """Return the state if its rows fit together; raises `FormatError`.

    `known` is a state that was checked: the rows that both share are not checked again.
    """
    violation = invariants.find_violation(state, known)
    if violation is not None:
        raise fields.invalid_object(name, violation)
    return state
