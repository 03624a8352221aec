"""The events that need no commit of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from continuations.core.call_events import (
    ApprovalRequested,
    CallAccepted,
    CallInvalid,
    SubAgentStarted,
)
from continuations.core.events import FrameWatched

if TYPE_CHECKING:
    from continuations.core.events import Event

_DERIVED_EVENTS = (
    CallAccepted,
    ApprovalRequested,
    CallInvalid,
    SubAgentStarted,
    FrameWatched,
)


def is_derived(event: Event) -> bool:
    """Return whether a later process can compute an event again from the state.

    The trip of a guardrail must stand in a version, because the events of a run follow
    from versions.
    """
    return isinstance(event, _DERIVED_EVENTS) and getattr(event, "trip", None) is None
