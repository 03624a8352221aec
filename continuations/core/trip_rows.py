"""Keep guardrails that tripped in the rows of a run.

A frame keeps the trips since its model last replied. All of them are committed before
its model is asked again, so the events of a run find each one in a version. A frame
that ends hands its trips to the frame above.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from continuations.core.draft import Draft
    from continuations.core.state import RunState
    from continuations.core.trips import Trip


def record(draft: Draft, trip: Trip) -> None:
    """Give a trip an id of its own, and add it to its frame."""
    frame = draft.frame(trip.frame_id)
    kept = replace(trip, id=draft.allocate_id("g"))
    draft.put_frame(replace(frame, trips=(*frame.trips, kept)))


def trips_between(before: RunState | None, after: RunState) -> list[Trip]:
    """Return the trips that one version added, in their order."""
    old = {trip.id for trip in _trips(before)} if before is not None else set[str]()
    new = {trip.id: trip for trip in _trips(after) if trip.id not in old}
    return sorted(new.values(), key=lambda trip: int(trip.id[1:]))


def _trips(state: RunState) -> list[Trip]:
    return [trip for frame in state.frames.values() for trip in frame.trips]
