"""The types of the events that `runner.events(run_id)` yields.

from continuations.events import CallStarted, MessageAdded, StreamEvent
"""

from __future__ import annotations

from continuations.core.run_stream import (
    Attempt,
    CallEnded,
    CallProposed,
    CallStarted,
    Compacted,
    FrameEnded,
    FrameStarted,
    GuardrailTripped,
    MessageAdded,
    ReplyGiven,
    RunEnded,
    RunRepaired,
    StreamEvent,
    WaitDecided,
    WaitOpened,
)

__all__ = [
    "Attempt",
    "CallEnded",
    "CallProposed",
    "CallStarted",
    "Compacted",
    "FrameEnded",
    "FrameStarted",
    "GuardrailTripped",
    "MessageAdded",
    "ReplyGiven",
    "RunEnded",
    "RunRepaired",
    "StreamEvent",
    "WaitDecided",
    "WaitOpened",
]
