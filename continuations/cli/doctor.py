"""The command `doctor`: check and repair a run, and format the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.engine import portal
from continuations.engine.ports import Ports
from continuations.ledger import doctor
from continuations.ledger.objects import Objects
from continuations.present.escaping import escape_invisible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations import Runner
    from continuations.ledger.integrity import IntegrityReport


def examine_run(runner: Runner, run_id: str) -> IntegrityReport:
    """Return what is found of a run; writes nothing."""
    return portal.run_until_complete(
        doctor.check_integrity(Objects(runner.store), run_id)
    )


def repair_run(runner: Runner, examination: IntegrityReport) -> int | None:
    """Repair a run; returns the number of the new root, `None` if none was needed."""
    machine = Ports()
    now = machine.clock.now()
    mended = portal.run_until_complete(
        doctor.repair(
            Objects(runner.store),
            examination.run_id,
            now=now,
            new_ulid=lambda: machine.ids.new_ulid(now),
        )
    )
    return mended.number if mended.number > examination.newest_number else None


def examination_lines(
    examination: IntegrityReport, new_root: int | None
) -> Iterator[str]:
    """Say what is readable, what is not, and what to do next."""
    yield f"run: {escape_invisible(examination.run_id)}"
    yield f"newest version: {examination.newest_number or 'none'}"
    yield f"last good version: {examination.last_good_number or 'none'}"
    if examination.versions_without_base:
        numbers = ", ".join(map(str, examination.versions_without_base))
        yield f"whole, but built on what is not: {numbers}"
    yield f"findings: {len(examination.findings) or 'none'}"
    for finding in examination.findings:
        yield f"  {finding.kind} {escape_invisible(finding.key)}"
        yield f"    {escape_invisible(finding.problem)}"
    if new_root is not None:
        yield f"repaired: version {new_root} is a new root"
    yield f"next: {_next_step(examination, new_root)}"


def _next_step(examination: IntegrityReport, new_root: int | None) -> str:
    run = escape_invisible(examination.run_id)
    if new_root is not None:
        return f"continuations resume {run}; it asks about whatever may have happened"
    if examination.is_resumable:
        if examination.findings:
            return "nothing must be done; only the past of the run is damaged"
        return "nothing; the run is whole"
    if examination.last_good_number == 0:
        return "restore the objects from a backup; there is nothing to go on from"
    return (
        "restore the objects from a backup, or give up what they held: "
        f"continuations doctor {run} --repair goes on from version {examination.last_good_number}"
    )


def examination_json(
    examination: IntegrityReport, new_root: int | None
) -> dict[str, Any]:
    """Return the same as JSON values."""
    return {
        "run_id": examination.run_id,
        "newest": examination.newest_number,
        "last_good": examination.last_good_number,
        "goes_on": examination.is_resumable,
        "stranded": list(examination.versions_without_base),
        "findings": [
            {
                "key": finding.key,
                "kind": finding.kind,
                "problem": finding.problem,
                "blocks": finding.blocks_run,
            }
            for finding in examination.findings
        ],
        "repaired": new_root,
    }
