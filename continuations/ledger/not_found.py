"""The error for a version that its run does not have."""

from __future__ import annotations

from continuations.errors import VersionNotFound


def version_not_found_error(run_id: str, number: int) -> VersionNotFound:
    """Return the error for a number that no version of a run has."""
    msg = (
        f"run {run_id} has no version {number} in this store. List its versions with "
        f"`continuations history {run_id}` or Runner.history()."
    )
    return VersionNotFound(msg, run_id=run_id)
