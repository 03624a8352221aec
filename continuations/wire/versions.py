"""One stored version of a run: a plain header and a delta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from continuations.core import invariants
from continuations.core.delta import DeltaMismatch, apply_delta
from continuations.core.run import RUN_STATUSES
from continuations.errors import Corrupt, FormatError
from continuations.wire import envelope
from continuations.wire.fields import FieldReader, omit_empty, to_milliseconds
from continuations.wire.v1 import delta_fields, read_delta

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.delta import Delta
    from continuations.core.run import RunRow, RunStatus
    from continuations.core.state import RunState


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionHeader:
    """What the plain header of a version says.

    `base` is the number of the version that the delta is from, 0 for a full copy;
    `root` is where the tree of deltas counts from. `until` is the end of the claim
    of a running version. `markers` are the keys that point at the run.
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


@dataclass(frozen=True, slots=True)
class VersionObject:
    """A version as it was read: its header, its delta, the digest of its bytes."""

    header: VersionHeader
    delta: Delta
    digest: bytes


def encode_version(header: VersionHeader, delta: Delta) -> bytes:
    """Return the bytes of a version; raises `FormatError` if they are too many."""
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
    )
    return envelope.encode_object(
        fields, delta_fields(delta, full_copy=header.base == 0)
    )


def decode_version(data: bytes, name: str, base: RunRow | None = None) -> VersionObject:
    """Return the version of its bytes; raises `FormatError` or `Corrupt`.

    `base` is the run's row in the version that this one is a delta from: what never
    changes of a run stands in full copies only.
    """
    opened = envelope.decode_object(data, name)
    header = _read_header(opened.header, name)
    delta = read_delta(opened.body, name, base)
    run = delta.run
    if (header.run_id, header.status) != (run.id, run.status):
        msg = f"{name} says {header.run_id} {header.status} outside, other inside."
        raise Corrupt(msg, run_id=header.run_id)
    return VersionObject(header, delta, opened.digest)


def decode_header(data: bytes, name: str) -> VersionHeader:
    """Return the header alone; raises as `decode_version` does."""
    return _read_header(envelope.decode_object_header(data, name), name)


def _read_header(value: dict[str, Any], name: str) -> VersionHeader:
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
    )
    fields.check_all_read()
    return header


def rebuild_state(base: RunState | None, delta: Delta, name: str) -> RunState:
    """Return the table of a version on top of its base; raises `Corrupt`."""
    try:
        return apply_delta(base, delta)
    except DeltaMismatch as error:
        msg = f"{name} does not fit the version before it: {error}"
        raise Corrupt(msg) from None


def check_state(state: RunState, name: str) -> RunState:
    """Return the table if its rows fit together; raises `FormatError`."""
    wrong = invariants.find_violation(state)
    if wrong is not None:
        msg = f"{name} is not a run that can be: {wrong}. It was left untouched."
        raise FormatError(msg)
    return state
