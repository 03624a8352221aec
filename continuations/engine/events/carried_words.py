"""The words of one thread as the ephemeral value by which processes share them.

A value has the live events of the present turns of one worker. Its reader gets the same
events, with the same numbers, as a reader in the process of the worker. The bytes of a
value may be anything: then there are no words.

A `WordCarrier` puts the words of a worker into the store, if another process follows
the thread. While there is a follower, its thread has a name in the store, which the
carrier looks for. Without a follower, nothing is asked of the store.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import Counter
from contextlib import suppress
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
from continuations_storage.contract import MAX_EPHEMERAL_BYTES, ephemeral

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from continuations.core.reading.live_events import LiveEvent, RunEvent
    from continuations.core.rows.state import RunState
    from continuations_storage.contract import Ephemeral, Store


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


_log = logging.getLogger("continuations")

# How a worker carries them ----------------------------------------------------------

# The words of a worker that was killed end after this time, like its claim.
WORDS_SECONDS = 30.0
# Words are put together for so long, and long ones longer: in seconds, and bytes of
# them for each second.
_PAUSE_SECONDS, _BYTES_PER_SECOND = 0.15, 400_000
# A look at the followers is so old at most: at the start of a worker's session, and
# later. After an error of the store, no look begins for some time.
_FRESH_SECONDS, _TURN_SECONDS, _REST_SECONDS = 0.25, 1.0, 30.0
# A store that does not answer for so long has failed.
_ANSWER_SECONDS = 10.0


class WordCarrier:
    """The words of one runner in its store.

    Attributes:
        values: The ephemeral values of the store.
        process: Names this runner among all of the store.
    """

    def __init__(self, values: Ephemeral) -> None:
        self.values = values
        self.process = os.urandom(8).hex()
        self._followed: frozenset[str] = frozenset()
        self._looked_at, self._is_looking = float("-inf"), False
        self._logged = ""
        # asyncio keeps no task alive.
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def of_store(cls, store: Store) -> WordCarrier | None:
        """Return the carrier of a store; `None` if it has no ephemeral values."""
        values = ephemeral(store)
        return None if values is None else cls(values)

    def words_of(self, run_id: str) -> RunWords | None:
        """Return the words of a run that is worked on from now; `None` unless a thread.

        A look at the followers begins. It is over before the model is asked.
        """
        thread = layout.thread_of(run_id)
        if thread is None:
            return None
        self.is_followed(thread, _FRESH_SECONDS)
        return RunWords(self, thread, run_id)

    def is_followed(self, thread: str, max_age: float = _TURN_SECONDS) -> bool:
        """Return whether another process followed a thread at the last look.

        Args:
            thread: The common part of the ids of its runs.
            max_age: A look begins, in the background, if the last one is as old.
        """
        if not self._is_looking and time.monotonic() - self._looked_at >= max_age:
            self._is_looking = True
            self.begin(self._look())
        return thread in self._followed

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Return a task that is kept until it ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def rest(self, error: Exception) -> None:
        """Carry nothing for some time: the store failed."""
        self.log(error)
        self._followed = frozenset()
        self._looked_at = time.monotonic() + _REST_SECONDS

    def log(self, error: Exception) -> None:
        """Log an error, unless it is the same as the last one."""
        if str(error) != self._logged:
            self._logged = str(error)
            _log.info("words do not reach other processes for now: %s", error)

    async def _look(self) -> None:
        try:
            self._looked_at = time.monotonic()
            async with asyncio.timeout(_ANSWER_SECONDS):
                names = await self.values.names(layout.FOLLOWERS_PREFIX)
            self._followed = frozenset(
                thread
                for thread, process in map(layout.follower_of, names)
                if process != self.process
            )
        except Exception as error:  # noqa: BLE001 - a run does not depend on its words
            self.rest(error)
        finally:
            self._is_looking = False


class RunWords:
    """The words of one run for other processes, while one worker works on it.

    It is the sink of live events; `WrittenWords` has the rules.
    """

    def __init__(self, carrier: WordCarrier, thread: str, run_id: str) -> None:
        self._carrier = carrier
        self._thread = thread
        self._run_id = run_id
        self._written: WrittenWords | None = None
        self._is_new = self._is_stored = False
        self._hurries: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None

    def are_followed(self) -> bool:
        """Return whether another process followed the thread at the last look."""
        return self._carrier.is_followed(self._thread)

    def listens(self, run_id: str) -> bool:
        """Return whether it takes the events of a run."""
        return run_id == self._run_id

    def put(self, event: RunEvent) -> None:
        """Take an event; only live ones change the words."""
        if self._written is None:
            self._written = WrittenWords(self._carrier.process, self._run_id)
        if self._written.add(event):
            self._begin_to_store()

    def keep_unstored(self, state: RunState) -> None:
        """Drop the words that a stored version replaces.

        A look at the followers may begin: versions come before the turns of models.
        """
        self.are_followed()
        if self._written is None or not self._written.keep_unstored(state):
            return
        self._begin_to_store()
        if self._hurries is not None and not self._written.size:
            self._hurries.set()

    def _begin_to_store(self) -> None:
        self._is_new = True
        if self._task is None or self._task.done():
            self._hurries = asyncio.Event()
            self._task = self._carrier.begin(self._store_all(self._hurries))

    async def _store_all(self, hurries: asyncio.Event) -> None:
        """Store the words until there are no new ones."""
        assert self._written is not None  # noqa: S101 - there are words
        while self._is_new:
            with suppress(TimeoutError):
                size = self._written.size
                async with asyncio.timeout(_PAUSE_SECONDS + size / _BYTES_PER_SECOND):
                    await hurries.wait()
            hurries.clear()
            self._is_new = False
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await self._store(self._written)
            except Exception as error:  # noqa: BLE001 - a run does not depend on its words
                self._carrier.rest(error)

    async def _store(self, written: WrittenWords) -> None:
        name, values = layout.words_name(self._thread), self._carrier.values
        if not written.size:
            if self._is_stored:
                await values.remove([name])
                self._is_stored = False
        elif self.are_followed():
            self._is_stored = True
            await values.put({name: written.value()}, WORDS_SECONDS)


# How followers read them ------------------------------------------------------------

# Seconds between two reads: while there are words, and otherwise.
_BUSY_SECONDS, _IDLE_SECONDS = 0.1, 0.25
# The name of a follower lasts so long, and is set again more often.
_FOLLOWER_SECONDS, _RENEWAL_SECONDS = 15.0, 5.0
# After an error of the store, nothing is read for some time.
_QUIET_SECONDS = 3.0


class WordReader:
    """Reads the words of the threads that are followed on one event loop.

    Args:
        carrier: The words of the runner in its store.
        put: Takes the live events of each reply in their order. Those of the runner's
            own workers are left out.
        ended: Takes a turn whose words have gone: it is stored, or given up.
    """

    def __init__(
        self,
        carrier: WordCarrier,
        put: Callable[[LiveEvent], None],
        ended: Callable[[ReadTurn], None],
    ) -> None:
        self._carrier = carrier
        self._put, self._ended = put, ended
        self._followers: Counter[str] = Counter()
        self._values: dict[str, bytes] = {}
        self._turns: dict[str, dict[str, ReadTurn]] = {}
        self._joined = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def join(self, thread: str) -> None:
        """Read the words of a thread, for one follower more."""
        self._followers[thread] += 1
        self._joined.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._read_all())

    def leave(self, thread: str) -> bool:
        """Read for one follower less; return whether it was the last one."""
        self._followers[thread] -= 1
        if self._followers[thread] <= 0:
            del self._followers[thread]
            self._values.pop(thread, None)
            self._turns.pop(thread, None)
        if self._followers:
            return False
        if self._task is not None:
            self._task.cancel()
            self._task = None
        return True

    def words(self, thread: str) -> list[LiveEvent]:
        """Return the words of a thread that were read so far."""
        turns = self._turns.get(thread, {}).values()
        return [event for turn in turns for event in turn.events(0)]

    async def _read_all(self) -> None:
        renew_at, loop = 0.0, asyncio.get_running_loop()
        while True:
            pause = _BUSY_SECONDS if self._turns else _IDLE_SECONDS
            try:
                if self._joined.is_set() or loop.time() >= renew_at:
                    self._joined.clear()
                    renew_at = loop.time() + await self._say_who_follows()
                await self._read()
            except Exception as error:  # noqa: BLE001 - the followers read the stored events
                self._carrier.log(error)
                renew_at, pause = 0.0, _QUIET_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._joined.wait()

    async def _say_who_follows(self) -> float:
        """Put the names of the followers; return after how many seconds to repeat it.

        A process that may only read gets the words for which another one asks.
        """
        process, values = self._carrier.process, self._carrier.values
        names = (layout.follower_name(each, process) for each in self._followers)
        try:
            await values.put(dict.fromkeys(names, b""), _FOLLOWER_SECONDS)
        except Exception as error:  # noqa: BLE001 - as above
            self._carrier.log(error)
            return _QUIET_SECONDS
        return _RENEWAL_SECONDS

    async def _read(self) -> None:
        names = {layout.words_name(thread): thread for thread in self._followers}
        found = await self._carrier.values.get([*names])
        for name, thread in names.items():
            value = found.get(name, b"")
            if thread in self._followers and value != self._values.get(thread, b""):
                self._values[thread] = value
                self._take(thread, value)

    def _take(self, thread: str, value: bytes) -> None:
        known = self._turns.get(thread, {})
        process = self._carrier.process
        turns = {turn.key: turn for turn in read_words(value, thread, process)}
        for key, turn in known.items():
            # A worker that was replaced may still write.
            if key in turns and turns[key].number < turn.number:
                turns[key] = turn
            elif key not in turns:
                self._ended(turn)
        for key, turn in turns.items():
            before = known.get(key)
            is_same = before is not None and before.number == turn.number
            for event in turn.events(before.end if before and is_same else 0):
                self._put(event)
        self._turns[thread] = turns
        if not turns:
            del self._turns[thread]
