"""Check and repair a run, and format the report, for the command `doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.cli.application import store_name
from continuations.core.visible_text import escape_invisible
from continuations.engine.ports import Ports
from continuations.engine.sync import portal
from continuations.ledger.objects import Objects
from continuations.ledger.repair import doctor, run_files
from continuations.present.times import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from continuations import Runner
    from continuations.ledger.repair.integrity import IntegrityReport
    from continuations.ledger.repair.run_files import UnreferencedFile
    from continuations_storage import Store


def check_run(runner: Runner, run_id: str) -> IntegrityReport:
    """Read every object of a run and report the damage; write nothing."""
    return portal.run_until_complete(
        doctor.check_integrity(Objects(runner.store), run_id)
    )


def unreferenced_files(runner: Runner, run_id: str) -> tuple[UnreferencedFile, ...]:
    """Return the attachments that no message refers to; write nothing."""
    return portal.run_until_complete(
        run_files.find_unreferenced(Objects(runner.store), run_id)
    )


def repair_run(runner: Runner, report: IntegrityReport) -> int | None:
    """Repair a run; return the number of the new root, `None` if none was needed."""
    ports = Ports()
    now = ports.clock.now()
    repaired = portal.run_until_complete(
        doctor.repair(
            Objects(runner.store),
            report.run_id,
            now=now,
            new_ulid=lambda: ports.ids.new_ulid(now),
        )
    )
    return repaired.number if repaired.number > report.newest_number else None


def report_lines(
    report: IntegrityReport,
    new_root: int | None,
    store: Store,
    unreferenced: Sequence[UnreferencedFile] = (),
) -> Iterator[str]:
    """Yield the report for people: readable versions, damage and the next step."""
    yield f"store: {escape_invisible(store_name(store))}"
    yield f"run: {escape_invisible(report.run_id)}"
    yield f"newest version: {report.newest_number or 'none'}"
    yield f"last good version: {report.last_good_number or 'none'}"
    if report.versions_without_base:
        numbers = ", ".join(map(str, report.versions_without_base))
        yield f"undamaged, but based on a damaged version: {numbers}"
    yield f"findings: {len(report.findings) or 'none'}"
    for finding in report.findings:
        yield f"  {finding.kind} {escape_invisible(finding.key)}"
        yield f"    {escape_invisible(finding.problem)}"
    if unreferenced:
        total = sum(each.size for each in unreferenced)
        yield (
            f"attachments without a message: {len(unreferenced):,}, "
            f"{counted(total, 'byte')}. A process died before its message, or is about "
            "to send it. They are kept until the run is erased."
        )
    if new_root is not None:
        yield f"repaired: version {new_root} is a new root"
    yield f"next: {_next_step(report, new_root)}"
    if new_root is None and not report.is_resumable and report.last_good_number:
        run = escape_invisible(report.run_id)
        yield (
            f"  or: continuations doctor {run} --repair (gives up the lost versions; "
            f"the run continues from version {report.last_good_number})"
        )


def _next_step(report: IntegrityReport, new_root: int | None) -> str:
    run = escape_invisible(report.run_id)
    if new_root is not None:
        return (
            f"continuations resume {run} (it asks about each call that may have "
            "happened)"
        )
    if report.is_resumable:
        if report.findings:
            return "nothing to do; the run can continue, only its history is damaged"
        return "nothing to do; the run is undamaged"
    if report.last_good_number == 0:
        return "restore the objects from a backup; no version can be read"
    return "restore the objects from a backup"


def report_json(
    report: IntegrityReport,
    new_root: int | None,
    store: Store,
    unreferenced: Sequence[UnreferencedFile] = (),
) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "store": store_name(store),
        "run_id": report.run_id,
        "newest": report.newest_number,
        "last_good": report.last_good_number,
        "goes_on": report.is_resumable,
        "stranded": list(report.versions_without_base),
        "findings": [
            {
                "key": finding.key,
                "kind": finding.kind,
                "problem": finding.problem,
                "blocks": finding.blocks_run,
            }
            for finding in report.findings
        ],
        "unreferenced_files": [
            {"key": each.key, "bytes": each.size} for each in unreferenced
        ],
        "repaired": new_root,
    }
