"""Laws about the keys by which runs are found."""

from __future__ import annotations

from continuations.core.rows.run import ENDED_STATUSES
from continuations.ledger.index import run_index
from tests.simulation.evidence import Evidence


def runs_are_found(evidence: Evidence) -> str | None:
    """After the last sweep, each run has the key of its status.

    A process that dies at the wrong time may leave a live key of an ended run, which a
    listing skips.
    """
    keys = set(evidence.environment.store.keys(run_index.INDEX_PREFIX))
    for history in evidence.runs.values():
        if not history.versions or history.load_error:
            continue
        status = history.newest_state.run.status
        if status in ENDED_STATUSES:
            is_found = any(
                key.startswith("index/ended/") and key.endswith(f"/{history.run_id}")
                for key in keys
            )
        else:
            is_found = run_index.live_key(history.run_id) in keys
        if not is_found:
            return f"{history.run_id} is {status}, and the index does not list it"
    return None
