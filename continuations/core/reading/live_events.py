"""Events that exist only while a worker runs: parts of replies, and progress of tools.

They are never stored. The events of `run_stream` follow from the versions, and what
they say replaces the live events before:

- A delta belongs to a reply that a later version has: its `fence` is smaller than the
  number of that version. So a reply in version 7 replaces all deltas of its frame with
  a fence below 7, also those that arrive later.
- A reply may be begun several times: by another process after a crash (`fence`), or by
  the same process after an error (`attempt`). The highest `(fence, attempt)` counts.
- Within one of them, `index` counts from 0.

`LiveTranscript` applies these rules.

A client may get live events twice, late or in another order, from several processes
that worked on the run one after the other. Stored events may come again, in their
order. The texts that it shows depend only on the set of events that it got.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from continuations.core import jsontext
from continuations.core.reading import run_stream
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
RunEvent: TypeAlias = run_stream.StreamEvent | LiveEvent
LIVE_EVENT_TYPES: tuple[type[LiveEvent], ...] = (
    TextDelta,
    ReasoningDelta,
    CallProgress,
)


_REASONING_FIELDS = ("reasoning_content", "reasoning")
_SHOWN_ROLES = ("user", "assistant")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownText:
    """A text of a run: a message that is stored, or one that is being written.

    Attributes:
        frame: Id of the frame. `None` for an agent that began and ended within one
            version.
        path: Names from the root agent down to the agent.
        role: `"user"` or `"assistant"`.
        text: The text, or its beginning.
        reasoning: The thoughts of the model before, if the provider shows them.
        is_complete: Whether the text is stored. Otherwise more may come, or the text
            may begin anew.
    """

    frame: str | None
    path: tuple[str, ...]
    role: Literal["user", "assistant"]
    text: str
    reasoning: str = ""
    is_complete: bool = True


class LiveTranscript:
    """The texts of a run, from its events.

    Give it each event of `runner.stream`, `runner.events` or another source of events.
    A stored message replaces its parts. Parts of a later attempt replace those of
    an earlier one.
    """

    def __init__(self) -> None:
        self._place = (0, 0)
        self._stored: list[ShownText] = []
        # Live events of a frame or call with a lower fence are void.
        self._floors: dict[str, int] = {}
        self._floor = 0
        self._writing: dict[str, _Attempt] = {}
        self._running: dict[str, _Attempt] = {}

    @property
    def cursor(self) -> str:
        """The cursor of the last stored event, `""` before the first one.

        Pass it as `after` to go on, in any process.
        """
        version, ordinal = self._place
        return f"{version}.{ordinal}" if version else ""

    @property
    def texts(self) -> tuple[ShownText, ...]:
        """The stored texts in their order, then those that are being written."""
        frames = sorted(self._writing, key=lambda each: (len(each), each))
        written = (self._writing[frame].shown() for frame in frames)
        return (*self._stored, *(text for text in written if text is not None))

    @property
    def progress(self) -> dict[str, Any]:
        """The last `ctx.progress` value of each call that runs, by the call's id."""
        return {call: each.last_value() for call, each in self._running.items()}

    def add(self, event: RunEvent) -> None:
        """Add an event. A repeated or replaced event changes nothing.

        Args:
            event: The event. All events must be of one run.
        """
        if isinstance(event, CallProgress):
            self._add_live(self._running, event.call, event)
        elif isinstance(event, TextDelta | ReasoningDelta):
            self._add_live(self._writing, event.frame, event)
        else:
            version, _, ordinal = event.cursor.partition(".")
            place = (int(version), int(ordinal))
            if place > self._place:
                self._place = place
                self._add_stored(event, place[0])

    def _add_live(
        self, attempts: dict[str, _Attempt], key: str, event: LiveEvent
    ) -> None:
        if event.fence < max(self._floor, self._floors.get(key, 0)):
            return
        found = attempts.get(key)
        number = (event.fence, event.attempt)
        if found is None or found.number < number:
            found = attempts[key] = _Attempt(number)
        if found.number == number:
            found.parts[event.index] = event

    def _add_stored(self, event: run_stream.StreamEvent, version: int) -> None:
        match event:
            case run_stream.RunRepaired():
                self._stored.clear()
                self._void_all(version)
            case run_stream.ReplyGiven() | run_stream.RunEnded():
                self._void_all(version)
            case run_stream.MessageAdded(frame=str() as frame):
                self._add_message(event, frame, version)
            case run_stream.FrameEnded():
                self._void(self._writing, event.frame, version)
                # The last reply of the root agent is a message too.
                if event.call is not None and event.output:
                    self._show(event.frame, event.path, "assistant", event.output)
            case run_stream.CallStarted() | run_stream.CallEnded():
                self._void(self._running, event.call, version)
            case _:
                pass

    def _add_message(
        self, event: run_stream.MessageAdded, frame: str, version: int
    ) -> None:
        message = event.message
        role, text = message.get("role"), message.get("content")
        if role == "assistant":
            self._void(self._writing, frame, version)
        if role in _SHOWN_ROLES and isinstance(text, str) and text:
            thought = (message.get(name) for name in _REASONING_FIELDS)
            reasoning = next((each for each in thought if isinstance(each, str)), "")
            self._show(frame, event.path, role, text, reasoning)

    def _show(
        self,
        frame: str | None,
        path: tuple[str, ...],
        role: Literal["user", "assistant"],
        text: str,
        reasoning: str = "",
    ) -> None:
        self._stored.append(
            ShownText(frame=frame, path=path, role=role, text=text, reasoning=reasoning)
        )

    def _void(
        self, attempts: dict[str, _Attempt], key: str | None, version: int
    ) -> None:
        """Drop the live events from before a version, and take no more of them."""
        if key is None:
            return
        self._floors[key] = version
        found = attempts.get(key)
        if found is not None and found.number[0] < version:
            del attempts[key]

    def _void_all(self, version: int) -> None:
        self._floor = version
        self._floors.clear()
        for attempts in (self._writing, self._running):
            for key in list(attempts):
                if attempts[key].number[0] < version:
                    del attempts[key]


class _Attempt:
    """The live events of one fence and attempt, by index."""

    def __init__(self, number: tuple[int, int]) -> None:
        self.number = number
        self.parts: dict[int, LiveEvent] = {}

    def shown(self) -> ShownText | None:
        """Return the text up to the first part that is missing."""
        text = reasoning = ""
        first = self.parts.get(0)
        index = 0
        while (part := self.parts.get(index)) is not None:
            if isinstance(part, TextDelta):
                text += part.text
            elif isinstance(part, ReasoningDelta):
                reasoning += part.text
            index += 1
        if first is None:
            return None
        return ShownText(
            frame=first.frame,
            path=first.path,
            role="assistant",
            text=text,
            reasoning=reasoning,
            is_complete=False,
        )

    def last_value(self) -> Any:
        """Return the value that was reported last."""
        last = self.parts[max(self.parts)]
        return last.value if isinstance(last, CallProgress) else None
