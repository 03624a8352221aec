"""One stored version of a run: a plain header and a delta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from continuations.core import soundness
from continuations.core.delta import DeltaMismatch, apply
from continuations.core.run import STATUSES
from continuations.errors import Corrupt, FormatError
from continuations.wire import envelope
from continuations.wire.fields import Fields, milliseconds, present
from continuations.wire.v1 import delta_fields, read_delta

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.delta import Delta
    from continuations.core.run import RunRow, Status
    from continuations.core.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
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
    status: Status
    at: datetime
    until: datetime | None = None
    markers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VersionObject:
    """A version as it was read: its header, its delta, the digest of its bytes."""

    header: Header
    delta: Delta
    digest: bytes


def encode_version(header: Header, delta: Delta) -> bytes:
    """Return the bytes of a version; raises `FormatError` if they are too many."""
    until = header.until
    fields = present(
        kind="version",
        run=header.run_id,
        number=header.number,
        root=header.root,
        base=header.base or None,
        base_digest=header.base_digest,
        status=header.status,
        at=milliseconds(header.at),
        until=None if until is None else milliseconds(until),
        markers=list(header.markers),
    )
    return envelope.seal(fields, delta_fields(delta, whole=header.base == 0))


def decode_version(data: bytes, name: str, base: RunRow | None = None) -> VersionObject:
    """Return the version of its bytes; raises `FormatError` or `Corrupt`.

    `base` is the run's row in the version that this one is a delta from: what never
    changes of a run stands in full copies only.
    """
    opened = envelope.unseal(data, name)
    header = _read_header(opened.header, name)
    delta = read_delta(opened.body, name, base)
    run = delta.run
    if (header.run_id, header.status) != (run.id, run.status):
        msg = f"{name} says {header.run_id} {header.status} outside, other inside."
        raise Corrupt(msg, run_id=header.run_id)
    return VersionObject(header, delta, opened.digest)


def decode_header(data: bytes, name: str) -> Header:
    """Return the header alone; raises as `decode_version` does."""
    return _read_header(envelope.read_header(data, name), name)


def _read_header(value: dict[str, Any], name: str) -> Header:
    fields = Fields(value, f"the header of {name}")
    fields.chosen("kind", frozenset({"version"}))
    header = Header(
        run_id=fields.text("run"),
        number=fields.number("number"),
        root=fields.number("root"),
        base=fields.number("base", 0),
        base_digest=fields.data_or_none("base_digest"),
        status=fields.chosen("status", STATUSES),
        at=fields.moment("at"),
        until=fields.moment_or_none("until"),
        markers=fields.texts("markers"),
    )
    fields.end()
    return header


def rebuilt(base: Table | None, delta: Delta, name: str) -> Table:
    """Return the table of a version on top of its base; raises `Corrupt`."""
    try:
        return apply(base, delta)
    except DeltaMismatch as error:
        msg = f"{name} does not fit the version before it: {error}"
        raise Corrupt(msg) from None


def checked(table: Table, name: str) -> Table:
    """Return the table if its rows fit together; raises `FormatError`."""
    wrong = soundness.fault(table)
    if wrong is not None:
        msg = f"{name} is not a run that can be: {wrong}. It was left untouched."
        raise FormatError(msg)
    return table
