"""Markers: keys, sorted by due time, that say "look at this run at this time".

A marker is created before the object that it guards. So after a crash at any point, a
sweep that follows only markers finds the run. A marker is deleted when the thing that
it guards is no longer open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.run import ENDED_STATUSES
from continuations.ledger import layout
from continuations.ledger.layout import Marker
from continuations.ledger.objects import AlreadyExists
from continuations.wire.fields import to_milliseconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime

    from continuations.core.state import RunState
    from continuations.ledger.objects import Objects


def guard(run_id: str, number: int, due: datetime, nonce: str) -> Marker:
    """Return the marker for a version that claims its run."""
    return _new_marker(run_id, "g", str(number), due, nonce)


def for_decision(wait_id: str, due: datetime, nonce: str) -> Marker:
    """Return the marker for a decision that will be recorded."""
    name = layout.parse_wait_id(wait_id)
    return _new_marker(name.run_id, "d", name.ulid, due, nonce)


def for_deadline(wait_id: str, due: datetime, nonce: str) -> Marker:
    """Return the marker for the deadline of a wait."""
    name = layout.parse_wait_id(wait_id)
    return _new_marker(name.run_id, "e", name.ulid, due, nonce)


def for_inbox_message(run_id: str, number: int, due: datetime, nonce: str) -> Marker:
    """Return the marker for an inbox message that will be posted."""
    return _new_marker(run_id, "m", str(number), due, nonce)


def for_pause(run_id: str, number: int, due: datetime, nonce: str) -> Marker:
    """Return the marker for a version that pauses only at a time limit."""
    return _new_marker(run_id, "r", str(number), due, nonce)


def for_cancel_request(run_id: str, due: datetime, nonce: str) -> Marker:
    """Return the marker for a cancel request that will be recorded."""
    return _new_marker(run_id, "c", "0", due, nonce)


def _new_marker(
    run_id: str, reason: str, target: str, due: datetime, nonce: str
) -> Marker:
    return Marker(
        to_milliseconds(due), reason, target, nonce[-layout.NONCE_LENGTH :], run_id
    )


async def create(objects: Objects, marker: Marker) -> datetime | None:
    """Create a marker; return the store's time, or `None`.

    A marker that exists is the same marker, because its body is empty.
    """
    try:
        return await objects.create(marker.key, b"")
    except AlreadyExists:
        return None


async def create_with_time(objects: Objects, marker: Marker) -> datetime | None:
    """Create a marker; return the store's time of it, or `None`.

    With a store that does not return its time from a create, but can tell when a key
    was created, this costs one more request.
    """
    time = await create(objects, marker)
    return time or await objects.created_at(marker.key)


async def list_due(objects: Objects, now: datetime) -> AsyncIterator[Marker]:
    """Iterate over the markers that are due, the oldest first."""
    last = layout.key_after_due_markers(to_milliseconds(now))
    async for key in objects.all_keys(layout.MARKERS_PREFIX):
        if key > last:
            return
        marker = layout.parse_marker(key)
        if marker is not None:
            yield marker


def is_needed(marker: Marker, newest_number: int, state: RunState | None) -> bool:
    """Return whether the thing that a marker guards is open in the newest version.

    A guard is created before its version, and the process may stop in between. So a
    guard is needed until that version number exists.

    Args:
        marker: The marker.
        newest_number: The number of the newest version; 0 without one.
        state: The newest version, or `None` if the run has no version yet.
    """
    if state is None or state.run.status in ENDED_STATUSES:
        return state is None
    match marker.reason:
        case "g":
            return newest_number < int(marker.target) or state.run.status == "running"
        case "r":
            return newest_number <= int(marker.target)
        case "d" | "e":
            return any(f"-{marker.target}@" in wait for wait in state.waits)
        case "m":
            return state.run.last_inbox_number < int(marker.target)
        case _:
            return True
