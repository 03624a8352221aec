"""One line in the log for each run that a worker moved."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from continuations.engine.outcomes import Suspended

if TYPE_CHECKING:
    from continuations.engine.outcomes import Outcome

_log = logging.getLogger("continuations")


def log_work(
    run_id: str, *, versions: tuple[int, int], result: str, seconds: float
) -> None:
    """Log what a worker did to a run, without arguments and texts of the run.

    The record has the fields `run_id`, `version_from`, `version_to`, `outcome` and
    `seconds`. A worker that wrote no version is not logged.

    Args:
        run_id: Id of the run.
        versions: The newest version before and after the work; 0 for a new run.
        result: The outcome, or the name of the error that ended the work.
        seconds: The duration of the work.
    """
    first, last = versions
    if first == last:
        return
    fields = {
        "run_id": run_id,
        "version_from": first,
        "version_to": last,
        "outcome": result,
        "seconds": round(seconds, 3),
    }
    _log.info(
        "run %s: %s after %.3f s, version %s to %s",
        run_id,
        result,
        seconds,
        first,
        last,
        extra=fields,
    )


def outcome_name(outcome: Outcome) -> str:
    """Return "finished", "failed", "cancelled", "suspended" or "paused"."""
    if isinstance(outcome, Suspended):
        return "paused" if outcome.paused else "suspended"
    return outcome.continuation.status
