"""Read everything that people, programs and rules decided about a run.

The records lie beside the versions and stay when the run has ended. One listing shows
them, and each costs one read. The newest version is looked at too: a run may be erased.
"""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING, NamedTuple

from continuations.core.audit import AuditLine
from continuations.core.operator_request import tells_of_cancellation
from continuations.errors import Corrupt, FormatError
from continuations.ledger import layout, operator_inbox
from continuations.ledger.arrivals import read_cancel_request, read_kept_signal
from continuations.ledger.objects import NotFound
from continuations.ledger.recorded_decisions import read_decision
from continuations.value_class import replace

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from datetime import datetime

    from continuations.ledger.objects import Objects

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
            from continuations.ledger.past_records import read_past_lines  # noqa: PLC0415 - not for all

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
    for first in range(0, len(keys), _PARALLEL_READS):
        some = keys[first : first + _PARALLEL_READS]
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
    for letter, line in (
        (layout.SIGNAL, _signal_line),
        (layout.REVOCATION, _revocation_line),
        (layout.OPERATOR_REQUEST, _operator_line),
    ):
        number = layout.number_in(letter, key)
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
    signal = await read_kept_signal(objects, run_id, number)
    line = AuditLine(
        at=signal.at,
        run=run_id,
        kind="signal",
        verdict="signal",
        by=signal.by,
        authentication=signal.authentication,
        door=signal.door,
        reason=signal.name,
    )
    # The sender chose the id, so it may be that of another record.
    return _Record(f"signal {number}", line)


async def _revocation_line(
    objects: Objects, run_id: str, number: int
) -> _Record | None:
    from continuations.ledger import revocation_records  # noqa: PLC0415 - rarely needed

    revocation = await revocation_records.read_listed(objects, run_id, number)
    line = AuditLine(
        at=revocation.at,
        run=run_id,
        kind="grant",
        verdict="revoke",
        by=revocation.by,
        authentication=revocation.authentication,
        door=revocation.door,
        reason=revocation.reason,
        rule=f"grant {revocation.grant}",
    )
    return _Record(revocation.id, line)


async def _operator_line(objects: Objects, run_id: str, number: int) -> _Record | None:
    """Return the line of a request; see `_cancel_line` for a cancelled run."""
    request = await operator_inbox.read_listed_request(objects, run_id, number)
    if tells_of_cancellation(request):
        return None
    line = AuditLine(
        at=request.at,
        run=run_id,
        kind="call" if request.call_id else "run",
        verdict=request.action,
        by=request.by,
        authentication=request.authentication,
        door=request.door,
        reason=request.reason,
    )
    if request.action == "drop":
        what = "signals" if request.signal_name is None else request.signal_name
        rule = f"{what} to number {request.signal_number}"
        line = replace(line, kind="signal", rule=rule)
    return _Record(request.id, line)


async def _cancel_line(objects: Objects, run_id: str) -> _Record | None:
    request = await read_cancel_request(objects, run_id)
    if request is None:
        return None
    line = AuditLine(
        at=request.at,
        run=run_id,
        kind="run",
        verdict="cancel",
        by=request.by,
        authentication=request.authentication,
        door=request.door,
        reason=request.reason,
    )
    return _Record(request.id, line)


async def _check_exists(objects: Objects, run_id: str) -> None:
    from continuations.ledger.versions import Versions  # noqa: PLC0415 - rarely needed

    versions = Versions(objects, run_id)
    if await versions.newest_header() is None:  # it raises `RunErased`
        raise versions.run_not_found_error()
