"""The lines of an audit about forks and rewinds, made from the versions of a run.

The first version of a fork names the other run. A rewind is two versions: the first one
names the earlier version, and the second one does not any more. Both are read without
the versions between them and their bases.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from continuations.core.audit import AuditLine, rewind_reason
from continuations.errors import FormatError
from continuations.ledger import layout
from continuations.ledger.other_runs import decode_own_header
from continuations.ledger.versions import Versions
from continuations.wire.versions import decode_version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from continuations.core.run import RunRow
    from continuations.ledger.objects import Objects
    from continuations.wire.versions import VersionObject

_PARALLEL_READS = 50


async def read_past_lines(
    objects: Objects, run_id: str, records: Sequence[AuditLine]
) -> list[AuditLine]:
    """Return the lines of a fork and of rewinds; a damaged version has no line.

    Args:
        objects: The store.
        run_id: Id of the run.
        records: The other lines of the run. The waits that a rewind closed name the
            person.

    Raises:
        RunErased: The run was erased.
        StoreError: The store failed.
    """
    lines: list[AuditLine] = []
    before: RunRow | None = None
    rewound_at = datetime.min.replace(tzinfo=UTC)
    async for version in _read_versions(objects, run_id):
        run, header = version.delta.run, version.header
        if before is None and run.forked_from is not None:
            lines.append(_fork_line(run))
        is_rewound = before is not None and before.rewind_to > 0 and not run.rewind_to
        # A root after other versions was made by a repair.
        if before is not None and is_rewound and header.root != header.number:
            closed = _closing_line(before.rewind_to, rewound_at, header.at, records)
            lines.append(_rewind_line(version, before.rewind_to, closed))
            rewound_at = header.at
        before = run
    return lines


async def _read_versions(objects: Objects, run_id: str) -> AsyncIterator[VersionObject]:
    newest = await Versions(objects, run_id).newest_number()
    run: RunRow | None = None
    for first in range(1, newest + 1, _PARALLEL_READS):
        numbers = range(first, min(first + _PARALLEL_READS, newest + 1))
        keys = [layout.version_key(run_id, number) for number in numbers]
        bodies = await objects.read_many(keys)
        for key, data in zip(keys, bodies, strict=True):
            if data is None:
                continue
            try:
                is_full = decode_own_header(data, key, run_id).base == 0
                # A delta omits the fields of the run that never change.
                version = decode_version(data, key, None if is_full else run)
            except FormatError:
                continue
            run = version.delta.run
            yield version


def _fork_line(run: RunRow) -> AuditLine:
    source, _, version = str(run.forked_from).rpartition("@")
    return AuditLine(
        at=run.created_at,
        run=run.id,
        kind="run",
        verdict="fork",
        by=run.requester,
        reason=f"version {version} of run {source}",
    )


def _closing_line(
    rewound_to: int, after: datetime, until: datetime, records: Sequence[AuditLine]
) -> AuditLine | None:
    """Return the line of a wait that a rewind closed for a known person.

    A later rewind may go to the same version, so the times count too.
    """
    reason = rewind_reason(rewound_to)
    closed = (
        line
        for line in records
        if (line.verdict, line.reason) == ("cancel", reason)
        and line.by is not None
        and after <= line.at <= until
    )
    return next(closed, None)


def _rewind_line(
    version: VersionObject, rewound_to: int, closed: AuditLine | None
) -> AuditLine:
    return AuditLine(
        at=version.header.at,
        run=version.header.run_id,
        kind="run",
        verdict="rewind",
        by=closed.by if closed else None,
        authentication=closed.authentication if closed else None,
        door=closed.door if closed else None,
        reason=f"to version {rewound_to}",
    )
