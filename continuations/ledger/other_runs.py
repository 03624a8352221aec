"""Objects of a run that name another run: no operation follows such a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.errors import Corrupt, RunErased, WaitNotFound
from continuations.ledger import layout
from continuations.wire.versions import decode_header

if TYPE_CHECKING:
    from continuations.core.rows.run import RunRow
    from continuations.core.rows.state import RunState
    from continuations.wire.versions import VersionHeader


def other_tombstone_error(key: str, run_id: str) -> Corrupt:
    """Return the error for a key of a run under which another tombstone lies."""
    msg = (
        f"{key} is damaged: it is the tombstone of another run. Nothing was "
        "deleted. Restore it from a backup."
    )
    return Corrupt(msg, run_id=run_id)


def decode_own_header(data: bytes, key: str, run_id: str) -> VersionHeader:
    """Return the header of a version; raises `RunErased` only for the run itself."""
    try:
        return decode_header(data, key)
    except RunErased as error:
        if error.run_id == run_id:
            raise
        raise other_tombstone_error(key, run_id) from None


def check_ids(state: RunState, key: str) -> None:
    """Raise `Corrupt` for the id of a wait, or of a thread, that is not the run's.

    The keys of the decision and of the object of a wait follow from its id.
    """
    if state.run.thread_key is not None:
        check_thread_id(state.run, key)
    for wait in state.waits.values():
        try:
            parts = layout.parse_wait_id(wait.id)
        except WaitNotFound:
            parts = None
        if parts is None or (parts.run_id, parts.kind) != (state.run.id, wait.kind):
            msg = (
                f"{key} is damaged: the id of one of its waits is not that of a wait "
                "of this run. It was not changed. Restore it from a backup."
            )
            raise Corrupt(msg, run_id=state.run.id)


def check_thread_id(run: RunRow, key: str) -> None:
    """Raise `Corrupt` if the id of a thread's run is that of another thread."""
    from continuations.ledger.layout import is_generation  # noqa: PLC0415 - for threads

    if not is_generation(run.id, run.agent, run.thread_key or ""):
        msg = (
            f"{key} is damaged: the run is the thread of another agent or key than its "
            "id says. It was not changed. Restore it from a backup."
        )
        raise Corrupt(msg, run_id=run.id)
