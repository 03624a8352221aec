"""Read everything that people, programs and rules decided about a run.

The records lie beside the versions and stay when the run has ended. One listing shows
them, and each costs one read. The newest version is looked at too: a run may be erased.
"""

from __future__ import annotations

from asyncio import gather
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from continuations.core.operator_request import tells_of_cancellation
from continuations.core.reading.audit import AuditLine, rewind_reason
from continuations.errors import Corrupt, FormatError, RunErased
from continuations.ledger import layout
from continuations.ledger.arrivals.arrival_logs import REQUESTS, REVOCATIONS, SIGNALS
from continuations.ledger.arrivals.arrivals import read_cancel_request
from continuations.ledger.arrivals.recorded_decisions import read_decision
from continuations.ledger.objects import NotFound, in_batches
from continuations.ledger.other_runs import decode_own_header
from continuations.ledger.repair.erasing import keeps_audit, read_tombstone
from continuations.ledger.versions import Versions
from continuations.value_class import replace
from continuations.wire.versions import decode_version

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Sequence
    from datetime import datetime

    from continuations.core.operator_request import OperatorRequest
    from continuations.core.rows.run import RunRow
    from continuations.ledger.objects import Objects
    from continuations.wire.arrivals import CancelRequest, Revocation, Signal
    from continuations.wire.versions import VersionObject


_PARALLEL_READS = 50


async def read_audit(
    objects: Objects, run_id: str, *, past: bool = True
) -> list[AuditLine]:
    """Return the lines of a run, in the order of their times.

    With `past`, each version is read too, and forks and rewinds are lines.

    Raises:
        RunNotFound: The store has no such run.
        RunErased: The run was erased.
        Corrupt: A record is damaged.
        FormatError: A record has a newer format.
        StoreError: The store failed.
    """
    try:
        lines = await _read_lines(objects, run_id)
        if past:
            with suppress(RunErased):  # its versions are gone; see below
                lines += await read_past_lines(objects, run_id, lines)
    except FormatError:
        await _check_exists(objects, run_id)  # an erasure deletes the records first
        raise
    # A process that was frozen may have written a record after the erasure.
    await _check_exists(objects, run_id)
    return sorted(lines, key=_position)


async def _read_lines(objects: Objects, run_id: str) -> list[AuditLine]:
    prefix = layout.arrivals_prefix(run_id)
    keys = [key async for key in objects.all_keys(prefix)]
    records: dict[str, AuditLine] = {}
    # Slots sort after decisions: a vote that ended its wait is in the decision.
    for some in in_batches(keys):
        reads = [read for key in some if (read := _read_record(objects, run_id, key))]
        for record in await gather(*reads):
            if record is not None:
                records.setdefault(record.id, record.line)
    return list(records.values())


class _Record(NamedTuple):
    """The id of a stored record, and its line."""

    id: str
    line: AuditLine


def _position(line: AuditLine) -> tuple[datetime, str, bool]:
    """Return the place of a line among lines of one time.

    A request to cancel precedes what it closes, and a vote precedes the decision.
    """
    return line.at, line.wait or "", not line.verdict.startswith("vote ")


def _read_record(
    objects: Objects, run_id: str, key: str
) -> Awaitable[_Record | None] | None:
    """Return the read of a record; `None` for a key without a line."""
    wait_id = layout.decided_wait_id(key, run_id)
    if wait_id is not None:
        return _decision_line(objects, wait_id, run_id)
    for log, line in (
        (SIGNALS, _signal_line),
        (REVOCATIONS, _revocation_line),
        (REQUESTS, _operator_line),
    ):
        number = log.number_in(key)
        if number is not None:
            return line(objects, run_id, number)
    if layout.parse_slot_key(key, run_id) is not None:
        return _slot_line(objects, run_id, key)
    if key == layout.cancel_request_key(run_id):
        return _cancel_line(objects, run_id)
    return None


async def _decision_line(objects: Objects, wait_id: str, run_id: str) -> _Record | None:
    decision = await read_decision(objects, wait_id)
    if decision is None:
        return None
    return _Record(decision.id, AuditLine.of_decision(decision, run_id))


async def _slot_line(objects: Objects, run_id: str, key: str) -> _Record | None:
    """Return a vote, or what moved a deadline; an expiry is a decision."""
    from continuations.wire.arrivals import SLOT  # noqa: PLC0415 - rarely used

    try:
        slot = SLOT.decode(await objects.read(key), key, run_id)
    except NotFound:
        msg = f"{key} is missing, although it was listed. Restore it from a backup."
        raise Corrupt(msg, run_id=run_id) from None
    if slot.vote is not None:
        line = AuditLine.of_decision(slot.vote, run_id)
        return _Record(slot.vote.id, replace(line, verdict=f"vote {line.verdict}"))
    if slot.kind == "expire":
        return None
    line = AuditLine(
        at=slot.at,
        run=run_id,
        wait=slot.wait_id,
        kind=slot.wait_id.partition("-")[0],
        verdict=slot.kind,
        by=slot.by,
        door="deadline" if slot.kind == "escalate" else None,
        digest=slot.digest,
    )
    return _Record(slot.id, line)


async def _signal_line(objects: Objects, run_id: str, number: int) -> _Record | None:
    signal = await SIGNALS.read_listed(objects, run_id, number)
    line = _line(signal, run_id, "signal", "signal", reason=signal.name)
    # The sender chose the id, so it may be that of another record.
    return _Record(f"signal {number}", line)


async def _revocation_line(
    objects: Objects, run_id: str, number: int
) -> _Record | None:
    revocation = await REVOCATIONS.read_listed(objects, run_id, number)
    line = _line(revocation, run_id, "grant", "revoke", reason=revocation.reason)
    return _Record(revocation.id, replace(line, rule=f"grant {revocation.grant}"))


async def _operator_line(objects: Objects, run_id: str, number: int) -> _Record | None:
    """Return the line of a request; see `_cancel_line` for a cancelled run."""
    request = await REQUESTS.read_listed(objects, run_id, number)
    if tells_of_cancellation(request):
        return None
    kind = "call" if request.call_id else "run"
    line = _line(request, run_id, kind, request.action, reason=request.reason)
    if request.action == "drop":
        what = "signals" if request.signal_name is None else request.signal_name
        rule = f"{what} to number {request.signal_number}"
        line = replace(line, kind="signal", rule=rule)
    return _Record(request.id, line)


async def _cancel_line(objects: Objects, run_id: str) -> _Record | None:
    request = await read_cancel_request(objects, run_id)
    if request is None:
        return None
    line = _line(request, run_id, "run", "cancel", reason=request.reason)
    return _Record(request.id, line)


def _line(
    record: Signal | Revocation | OperatorRequest | CancelRequest,
    run_id: str,
    kind: str,
    verdict: str,
    *,
    reason: str | None,
) -> AuditLine:
    """Return the line of a record that decides no wait."""
    return AuditLine(
        at=record.at,
        run=run_id,
        kind=kind,
        verdict=verdict,
        by=record.by,
        authentication=record.authentication,
        door=record.door,
        reason=reason,
    )


async def _check_exists(objects: Objects, run_id: str) -> None:
    from continuations.ledger.versions import Versions  # noqa: PLC0415 - rarely needed

    versions = Versions(objects, run_id)
    try:
        if await versions.newest_header() is None:
            raise versions.run_not_found_error()
    except RunErased:
        if not keeps_audit(await read_tombstone(objects, run_id)):
            raise


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
    waits: set[str] = set()  # since the last rewind, which gives each a new id
    async for version in _read_versions(objects, run_id):
        run, header = version.delta.run, version.header
        if before is None and run.forked_from is not None:
            lines.append(_fork_line(run))
        is_rewound = before is not None and before.rewind_to > 0 and not run.rewind_to
        # A root after other versions was made by a repair.
        if before is not None and is_rewound and header.root != header.number:
            closed = _closing_line(before.rewind_to, waits, records)
            lines.append(_rewind_line(version, before.rewind_to, closed))
            waits.clear()
        waits.update(wait.id for wait in version.delta.waits)
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
    rewound_to: int, waits: set[str], records: Sequence[AuditLine]
) -> AuditLine | None:
    """Return the line of a wait that a rewind closed for a known person.

    A later rewind may go to the same version, so the waits count too.
    """
    reason = rewind_reason(rewound_to)
    closed = (
        line
        for line in records
        if (line.verdict, line.reason) == ("cancel", reason)
        and line.by is not None
        and line.wait in waits
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
