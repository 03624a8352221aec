"""Read everything that people, programs and rules decided about a run.

The records lie beside the versions and stay when the run has ended. One listing shows
them, and each costs one read.
"""

from __future__ import annotations

from asyncio import gather
from typing import TYPE_CHECKING

from continuations.core.audit import AuditLine
from continuations.ledger import layout
from continuations.ledger.arrivals import (
    read_cancel_request,
    read_decision,
    read_kept_signal,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from datetime import datetime

    from continuations.ledger.objects import Objects

_PARALLEL_READS = 50


async def read_audit(objects: Objects, run_id: str) -> list[AuditLine]:
    """Return the lines of a run, in the order of their times.

    Raises:
        RunNotFound: The store has no such run.
        RunErased: The run was erased.
        Corrupt: A record is damaged.
        FormatError: A record has a newer format.
        StoreError: The store failed.
    """
    prefix = layout.arrivals_prefix(run_id)
    keys = [key async for key in objects.all_keys(prefix)]
    if not keys:
        await _check_exists(objects, run_id)
    lines: list[AuditLine] = []
    for first in range(0, len(keys), _PARALLEL_READS):
        some = keys[first : first + _PARALLEL_READS]
        reads = [read for key in some if (read := _read_line(objects, run_id, key))]
        lines += [line for line in await gather(*reads) if line is not None]
    return sorted(lines, key=_position)


def _position(line: AuditLine) -> tuple[datetime, str]:
    """Return the place of a line: a request to cancel precedes what it closes."""
    return line.at, line.wait or ""


def _read_line(
    objects: Objects, run_id: str, key: str
) -> Awaitable[AuditLine | None] | None:
    """Return the read of a record; `None` for a key without a line."""
    wait_id = layout.decided_wait_id(key, run_id)
    if wait_id is not None:
        return _decision_line(objects, wait_id, run_id)
    number = layout.signal_number(key)
    if number is not None:
        return _signal_line(objects, run_id, number)
    if key == layout.cancel_request_key(run_id):
        return _cancel_line(objects, run_id)
    return None


async def _decision_line(
    objects: Objects, wait_id: str, run_id: str
) -> AuditLine | None:
    decision = await read_decision(objects, wait_id)
    return None if decision is None else AuditLine.of_decision(decision, run_id)


async def _signal_line(objects: Objects, run_id: str, number: int) -> AuditLine:
    signal = await read_kept_signal(objects, run_id, number)
    return AuditLine(
        at=signal.at,
        run=run_id,
        kind="signal",
        verdict="signal",
        by=signal.by,
        authentication=signal.authentication,
        door=signal.door,
        reason=signal.name,
    )


async def _cancel_line(objects: Objects, run_id: str) -> AuditLine | None:
    request = await read_cancel_request(objects, run_id)
    if request is None:
        return None
    return AuditLine(
        at=request.at,
        run=run_id,
        kind="run",
        verdict="cancel",
        by=request.by,
        authentication=request.authentication,
        door=request.door,
        reason=request.reason,
    )


async def _check_exists(objects: Objects, run_id: str) -> None:
    from continuations.ledger.versions import Versions  # noqa: PLC0415 - rarely needed

    versions = Versions(objects, run_id)
    if await versions.newest_header() is None:  # it raises `RunErased`
        raise versions.run_not_found_error()
