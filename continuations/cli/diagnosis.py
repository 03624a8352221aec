"""What the doctor found of a run, in lines to read and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from continuations.engine.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from continuations.ledger.examination import Examination


def lines(found: Examination, repaired: int | None) -> Iterator[str]:
    """Say what is readable, what is not, and what to do next."""
    yield f"run: {visible(found.run_id)}"
    yield f"newest version: {found.newest or 'none'}"
    yield f"last good version: {found.last_good or 'none'}"
    if found.stranded:
        numbers = ", ".join(map(str, found.stranded))
        yield f"whole, but built on what is not: {numbers}"
    yield f"findings: {len(found.findings) or 'none'}"
    for finding in found.findings:
        yield f"  {finding.kind} {visible(finding.key)}"
        yield f"    {visible(finding.problem)}"
    if repaired is not None:
        yield f"repaired: version {repaired} is a new root"
    yield f"next: {_next(found, repaired)}"


def _next(found: Examination, repaired: int | None) -> str:
    run = visible(found.run_id)
    if repaired is not None:
        return f"continuations resume {run}; it asks about whatever may have happened"
    if found.goes_on:
        if found.findings:
            return "nothing must be done; only the past of the run is damaged"
        return "nothing; the run is whole"
    if found.last_good == 0:
        return "restore the objects from a backup; there is nothing to go on from"
    return (
        "restore the objects from a backup, or give up what they held: "
        f"continuations doctor {run} --repair goes on from version {found.last_good}"
    )


def json(found: Examination, repaired: int | None) -> dict[str, Any]:
    """Return the same as JSON values."""
    return {
        "run_id": found.run_id,
        "newest": found.newest,
        "last_good": found.last_good,
        "goes_on": found.goes_on,
        "stranded": list(found.stranded),
        "findings": [
            {
                "key": finding.key,
                "kind": finding.kind,
                "problem": finding.problem,
                "blocks": finding.blocks,
            }
            for finding in found.findings
        ],
        "repaired": repaired,
    }
