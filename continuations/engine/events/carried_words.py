"""The words of one thread as the ephemeral value by which processes share them.

A value has the live events of the present turns of one worker. Its reader gets the same
events, with the same numbers, as a reader in the process of the worker. The bytes of a
value may be anything: then there are no words.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from continuations.core import jsontext
from continuations.core.reading.live_events import (
    BaseLiveEvent,
    CallProgress,
    ReasoningDelta,
    TextDelta,
)
from continuations.core.rows.calls import CLOSED_STATES
from continuations.ledger import layout
from continuations.value_class import dataclass
from continuations_storage.contract import MAX_EPHEMERAL_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from continuations.core.reading.live_events import LiveEvent, RunEvent
    from continuations.core.rows.state import RunState

# The bytes of all turns, with room for what stands around them.
_MAX_BYTES = MAX_EPHEMERAL_BYTES - 1000
# The first character of a part says what it is.
_TEXT, _REASONING = "t", "r"


def _key_of(event: LiveEvent) -> str:
    """Return the id of what a live event is about: a call, or a frame."""
    return event.call if isinstance(event, CallProgress) else event.frame


# What a worker writes ---------------------------------------------------------------


class WrittenWords:
    """The words of one run that its worker writes now, and that no version has."""

    def __init__(self, process: str, run_id: str) -> None:
        self._process, self._run_id = process, run_id
        self._turns: dict[str, _WrittenTurn] = {}

    @property
    def size(self) -> int:
        """The number of their bytes, about; 0 without any."""
        return sum(turn.size for turn in self._turns.values())

    def add(self, event: RunEvent) -> bool:
        """Take an event; return whether there is something new."""
        if not isinstance(event, BaseLiveEvent):
            return False
        key, number = _key_of(event), (event.fence, event.attempt)
        turn = self._turns.get(key)
        if turn is None or turn.number < number:
            self._turns.pop(key, None)  # a new turn is the last one
            turn = self._turns[key] = _WrittenTurn(event)
        if turn.is_full or number < turn.number or not turn.takes(event):
            return False
        turn.add(event)
        # Agents that have ended may have the oldest turns.
        while self.size > _MAX_BYTES and len(self._turns) > 1:
            del self._turns[next(each for each in self._turns if each != key)]
        if self.size > _MAX_BYTES:
            turn.cut()
        return not turn.is_full

    def keep_unstored(self, state: RunState) -> bool:
        """Drop the turns that a version has; return whether there were any.

        A version without a claim is the end of the work, also of turns without a reply.
        """
        is_over = state.run.claim is None
        turns = self._turns.items()
        stored = [key for key, turn in turns if is_over or turn.is_stored(state)]
        for key in stored:
            del self._turns[key]
        return bool(stored)

    def value(self) -> bytes:
        """Return the words as a value."""
        head = json.dumps({"by": self._process, "run": self._run_id})[:-1]
        turns = ", ".join(turn.json() for turn in self._turns.values())
        return f'{head}, "turns": [{turns}]}}'.encode()


class _WrittenTurn:
    """The parts of one reply, or the last progress of one call, as JSON."""

    def __init__(self, event: LiveEvent) -> None:
        self.number = (event.fence, event.attempt)
        self.is_full = False
        self._frame, self._turn = event.frame, event.turn
        self._call: str | None = None
        self._head: dict[str, Any] = {
            "frame": event.frame,
            "path": event.path,
            "turn": event.turn,
            "fence": event.fence,
            "attempt": event.attempt,
        }
        if isinstance(event, CallProgress):
            self._call = event.call
            self._head |= {"call": event.call, "tool": event.tool}
        self._parts: list[str] = []
        self._head_size = len(json.dumps(self._head))
        self.size = self._head_size

    def takes(self, event: LiveEvent) -> bool:
        """Return whether an event is the next one of the turn."""
        return self._call is not None or event.index == len(self._parts)

    def add(self, event: LiveEvent) -> None:
        """Take the next part."""
        if isinstance(event, CallProgress):
            self._head["index"] = event.index
            self._parts.clear()
            self.size = self._head_size
            text = event.value_json
        else:
            kind = _TEXT if isinstance(event, TextDelta) else _REASONING
            text = f"{kind}{event.text}"
        self._parts.append(json.dumps(text))
        self.size += len(self._parts[-1]) + 2

    def cut(self) -> None:
        """Leave the last part out, and take no more."""
        self.size -= len(self._parts.pop()) + 2
        self.is_full = True

    def is_stored(self, state: RunState) -> bool:
        """Return whether a version has the reply, or the end of the call."""
        if self._call is not None:
            call = state.calls.get(self._call)
            return call is None or isinstance(call.state, CLOSED_STATES)
        frame = state.frames.get(self._frame)
        return frame is None or frame.turns >= self._turn

    def json(self) -> str:
        """Return the turn as JSON."""
        head = json.dumps(self._head)[:-1]
        return f'{head}, "parts": [{", ".join(self._parts)}]}}'


# What another process reads ---------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTurn:
    """One turn of a value.

    Attributes:
        run_id: Id of the run.
        key: The id of the frame or call.
        number: The fence and the attempt.
        place: The fields that all events of the turn share.
        parts: The parts of the reply, or the value of the progress.
        start: The number of the first part.
    """

    run_id: str
    key: str
    number: tuple[int, int]
    place: Mapping[str, Any]
    parts: tuple[str, ...]
    start: int

    @property
    def is_of_root(self) -> bool:
        """Whether the root agent writes it."""
        return len(self.place["path"]) <= 1

    @property
    def end(self) -> int:
        """The number after the last part."""
        return self.start + len(self.parts)

    def events(self, start: int) -> list[LiveEvent]:
        """Return the live events from a number on."""
        found: list[LiveEvent] = []
        for index in range(max(start, self.start), self.end):
            part, place = self.parts[index - self.start], self.place
            if "call" in place:
                found.append(CallProgress(index=index, value_json=part, **place))
            else:
                make = TextDelta if part[0] == _TEXT else ReasoningDelta
                found.append(make(index=index, text=part[1:], **place))
        return found


def read_words(value: bytes, thread: str, own_process: str) -> list[ReadTurn]:
    """Return the turns that another process writes in a thread.

    Args:
        value: The value. Other bytes than those of `WrittenWords` are no words.
        thread: The thread.
        own_process: The process whose words are left out.
    """
    try:
        found = jsontext.parse(value.decode("utf-8", "replace"))
    except jsontext.NotJson:
        return []
    if not isinstance(found, dict):
        return []
    fields = cast("dict[str, Any]", found)
    run_id, turns = fields.get("run"), fields.get("turns")
    if not isinstance(run_id, str) or layout.thread_of(run_id) != thread:
        return []
    if fields.get("by") == own_process or not isinstance(turns, list):
        return []
    each_turn = cast("Sequence[Any]", turns)
    read = (_read_turn(turn, run_id) for turn in each_turn)
    return [turn for turn in read if turn is not None]


def _read_turn(turn: Any, run_id: str) -> ReadTurn | None:
    if not isinstance(turn, dict):
        return None
    fields = cast("dict[str, Any]", turn)
    is_call = "call" in fields
    names = ("frame", "call", "tool") if is_call else ("frame",)
    place = {name: fields.get(name) for name in (*names, "turn", "fence", "attempt")}
    path, parts, start = fields.get("path"), fields.get("parts"), fields.get("index", 0)
    if not (
        all(isinstance(place[name], str) for name in names)
        and all(map(_is_number, (place["turn"], *_number_of(place), start)))
        and _are_texts(path)
        and _are_texts(parts)
        and all(_is_part(part, is_call=is_call) for part in parts)
    ):
        return None
    return ReadTurn(
        run_id=run_id,
        key=fields["call" if is_call else "frame"],
        number=_number_of(place),
        place={**place, "run_id": run_id, "path": tuple(path)},
        parts=tuple(parts),
        start=start,
    )


def _number_of(place: Mapping[str, Any]) -> tuple[int, int]:
    return place["fence"], place["attempt"]


def _are_texts(value: Any) -> TypeGuard[list[str]]:
    texts = cast("Sequence[Any]", value) if isinstance(value, list) else (None,)
    return all(isinstance(text, str) for text in texts)


def _is_number(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_part(part: str, *, is_call: bool) -> bool:
    if not is_call:
        return part[:1] in {_TEXT, _REASONING}
    try:
        jsontext.parse(part)
    except jsontext.NotJson:
        return False
    return True
