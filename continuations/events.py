"""The types of the events that `runner.events` and `runner.stream` yield.

from continuations.events import CallStarted, MessageAdded, StreamEvent
"""

from __future__ import annotations

from continuations.core.reading.live_events import (
    CallProgress,
    LiveEvent,
    LiveTranscript,
    ReasoningDelta,
    RunEvent,
    ShownText,
    TextDelta,
)
from continuations.core.reading.run_stream import (
    Attempt,
    CallEnded,
    CallProposed,
    CallsLeftOpen,
    CallStarted,
    Compacted,
    FrameEnded,
    FrameStarted,
    GuardrailTripped,
    Handoff,
    MessageAdded,
    ReplyGiven,
    RunEnded,
    RunRepaired,
    RunRewound,
    StateChanged,
    StreamEvent,
    WaitDecided,
    WaitOpened,
)

__all__ = [
    "Attempt",
    "CallEnded",
    "CallProgress",
    "CallProposed",
    "CallStarted",
    "CallsLeftOpen",
    "Compacted",
    "FrameEnded",
    "FrameStarted",
    "GuardrailTripped",
    "Handoff",
    "LiveEvent",
    "LiveTranscript",
    "MessageAdded",
    "ReasoningDelta",
    "ReplyGiven",
    "RunEnded",
    "RunEvent",
    "RunRepaired",
    "RunRewound",
    "ShownText",
    "StateChanged",
    "StreamEvent",
    "TextDelta",
    "WaitDecided",
    "WaitOpened",
]
