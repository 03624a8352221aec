"""What the rows of a run keep about guardrails that tripped.

A frame keeps the trips since its model last replied. All of them are committed before
its model is asked again, so the events of a run find each one in a version. A frame
that ends hands its trips to the frame above.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from continuations.core.draft import Draft
    from continuations.core.frames import FrameRow
    from continuations.core.state import RunState
    from continuations.core.trips import Trip


def numbered(draft: Draft, trip: Trip | None) -> tuple[Trip, ...]:
    """Return a trip with an id of its own, if there is one."""
    return () if trip is None else (replace(trip, id=draft.allocate_id("g")),)


def record(draft: Draft, trip: Trip) -> None:
    """Add a trip to its frame."""
    frame = draft.frame(trip.frame_id)
    draft.put_frame(replace(frame, trips=frame.trips + numbered(draft, trip)))


def hand_over(draft: Draft, frame: FrameRow, parent_id: str) -> None:
    """Keep the trips of a frame that ends in the frame above."""
    parent = draft.frame(parent_id)
    draft.put_frame(replace(parent, trips=parent.trips + frame.trips))


def trips_between(before: RunState | None, after: RunState) -> list[Trip]:
    """Return the trips that one version added, in their order."""
    old = {trip.id for trip in _trips(before)} if before is not None else set[str]()
    new = {trip.id: trip for trip in _trips(after) if trip.id not in old}
    return sorted(new.values(), key=lambda trip: int(trip.id[1:]))


def _trips(state: RunState) -> list[Trip]:
    return [trip for frame in state.frames.values() for trip in frame.trips]
