"""Events that exist only while a worker runs: parts of replies, and progress of tools.

They are never stored. The events of `run_stream` follow from the versions, and what
they say replaces the live events before:

- A delta belongs to a reply that a later version has: its `fence` is smaller than the
  number of that version. So a reply in version 7 replaces all deltas of its frame with
  a fence below 7, also those that arrive later.
- A reply may be begun several times: by another process after a crash (`fence`), or by
  the same process after an error (`attempt`). The highest `(fence, attempt)` counts.
- Within one of them, `index` counts from 0.

`live_transcript.LiveTranscript` applies these rules.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from continuations.core import jsontext
from continuations.core.reading.run_stream import StreamEvent
from continuations.value_class import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseLiveEvent:
    """The fields of every live event.

    Attributes:
        run_id: Id of the run.
        frame: Id of the frame.
        path: Names from the root agent down to the agent or the tool.
        turn: Number of the model's turn in the frame, from 1.
        fence: Number of the version under which the worker began: `ctx.fence` of a
            tool. A process that takes the run over has a higher one.
        attempt: Number of the attempt under this fence, from 1.
        index: Place of the event among those of the same reply or call, from 0. It
            begins at 0 again with each fence and attempt.
    """

    run_id: str
    frame: str
    path: tuple[str, ...]
    turn: int
    fence: int
    attempt: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(BaseLiveEvent):
    """A part of a reply that the model is still writing.

    Attributes:
        text: The part.
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta(BaseLiveEvent):
    """A part of the reasoning of a model before its reply.

    Attributes:
        text: The part.
    """

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgress(BaseLiveEvent):
    """A tool that runs reported its progress with `ctx.progress`.

    Attributes:
        call: Id of the call.
        tool: Name of the tool.
        value_json: The reported value as JSON text.
    """

    call: str
    tool: str
    value_json: str

    @property
    def value(self) -> Any:
        """The reported value, as a new JSON value."""
        return jsontext.parse(self.value_json)


LiveEvent: TypeAlias = TextDelta | ReasoningDelta | CallProgress
RunEvent: TypeAlias = StreamEvent | LiveEvent
LIVE_EVENT_TYPES: tuple[type[LiveEvent], ...] = (
    TextDelta,
    ReasoningDelta,
    CallProgress,
)
