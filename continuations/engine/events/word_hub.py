"""Hand the words of threads to any number of followers.

They come from the workers of this runner, and through the store from other processes. A
follower that comes late gets the words of the present turn first. A slow follower
misses words, and changes no run: the stored message has them all.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.core.reading import run_stream
from continuations.core.reading.live_events import BaseLiveEvent, CallProgress
from continuations.ledger.layout import is_thread_id

if TYPE_CHECKING:
    from continuations.core.reading.live_events import LiveEvent, RunEvent
    from continuations.engine.events.carried_words import ReadTurn
    from continuations.engine.events.word_carrier import WordCarrier
    from continuations.engine.ports import Sleep

# Above so many events that a follower has not read, words are left out.
MAX_UNREAD = 10_000
# The words of so many runs, and so many of one reply, are kept for late followers.
_MAX_RUNS, _MAX_WORDS = 1_000, 10_000


class WordHub:
    """Takes the events of all threads that the workers of a runner work on.

    It takes events in any thread. Each follower reads them on its own event loop.

    Args:
        carrier: The words of the runner in its store; `None` if the store carries none.
    """

    def __init__(self, carrier: WordCarrier | None = None) -> None:
        self._carrier = carrier
        self._loops: dict[asyncio.AbstractEventLoop, _LoopFollowers] = {}
        self._lock = threading.Lock()
        self._followers: set[WordFollower] = set()
        self._present: dict[str, _PresentTurns] = {}

    def listens(self, run_id: str) -> bool:
        """Return whether a run is that of a thread: a follower may come at any time."""
        return is_thread_id(run_id)

    def put(self, event: RunEvent) -> None:
        """Take an event of a worker."""
        with self._lock:
            self._keep(event)
            # A thread's follower also takes the events of its next run.
            followers = [each for each in self._followers if each.follows(event.run_id)]
        for follower in followers:
            follower.put(event)

    def released(self, run_id: str) -> None:
        """Drop the words of a run: a reply that was not stored is not shown again."""
        with self._lock:
            self._present.pop(run_id, None)

    def join(self, follower: WordFollower) -> None:
        """Give a follower the words of present turns, and all events from now on."""
        with self._lock:
            for run_id, turns in self._present.items():
                if follower.follows(run_id):
                    for event in turns.words():
                        follower.put(event)
            self._followers.add(follower)
        if self._carrier is not None:
            loop = asyncio.get_running_loop()
            if loop not in self._loops:
                self._loops[loop] = _LoopFollowers(self._carrier)
            self._loops[loop].join(follower)

    def leave(self, follower: WordFollower) -> None:
        """Give a follower nothing more."""
        with self._lock:
            self._followers.discard(follower)
        others = self._loops.get(follower.loop)
        if others is not None and others.leave(follower):
            del self._loops[follower.loop]

    def _keep(self, event: RunEvent) -> None:
        run_id = event.run_id
        is_over = isinstance(event, run_stream.ReplyGiven | run_stream.RunEnded)
        turns = self._present.get(run_id)
        if turns is None:
            if is_over or not isinstance(event, BaseLiveEvent):
                return
            if len(self._present) >= _MAX_RUNS:
                del self._present[next(iter(self._present))]
            turns = self._present[run_id] = _PresentTurns()
        turns.add(event)
        if is_over:
            del self._present[run_id]


class _LoopFollowers:
    """The followers of one event loop; they get the words of other processes."""

    def __init__(self, carrier: WordCarrier) -> None:
        from continuations.engine.events.word_reader import WordReader  # noqa: PLC0415 - some stores carry none

        self._followers: set[WordFollower] = set()
        self._reader = WordReader(carrier, self._put, self._ended)

    def join(self, follower: WordFollower) -> None:
        """Give a follower the words that were read, and those from now on."""
        for event in self._reader.words(follower.thread):
            follower.put(event)
        self._followers.add(follower)
        self._reader.join(follower.thread)

    def leave(self, follower: WordFollower) -> bool:
        """Give a follower nothing more; return whether it was the last one."""
        if follower not in self._followers:
            return False
        self._followers.discard(follower)
        return self._reader.leave(follower.thread)

    def _put(self, event: LiveEvent) -> None:
        """Take an event of another process."""
        for follower in self._followers:
            if follower.follows(event.run_id):
                follower.put(event)

    def _ended(self, turn: ReadTurn) -> None:
        """Let the followers look at the store: the reply may be there."""
        for follower in self._followers:
            if follower.follows(turn.run_id):
                follower.look()


class _PresentTurns:
    """The live events of one run that no stored event has replaced."""

    def __init__(self) -> None:
        # By frame or call: the fence and attempt, and the events of that attempt.
        self._attempts: dict[str, tuple[tuple[int, int], list[LiveEvent]]] = {}

    def words(self) -> list[LiveEvent]:
        """Return the live events, those of one reply in their order."""
        return [event for _, events in self._attempts.values() for event in events]

    def add(self, event: RunEvent) -> None:
        """Take an event of the run."""
        match event:
            case CallProgress():
                self._add_live(event.call, event)
            case BaseLiveEvent():
                self._add_live(event.frame, event)
            case run_stream.CallStarted() | run_stream.CallEnded():
                self._attempts.pop(event.call or "", None)
            case run_stream.MessageAdded() | run_stream.FrameEnded():
                self._attempts.pop(event.frame or "", None)
            case _:
                pass

    def _add_live(self, key: str, event: LiveEvent) -> None:
        number = (event.fence, event.attempt)
        known, events = self._attempts.get(key, ((0, 0), []))
        if number > known:
            events = []
            self._attempts[key] = (number, events)
        if number >= known and len(events) < _MAX_WORDS:
            if isinstance(event, CallProgress):
                events.clear()  # only the last progress of a call counts
            events.append(event)


class WordFollower:
    """The unread live events of one follower; make it on the loop that reads it.

    Args:
        thread: The common part of the ids of the runs that it follows.

    Attributes:
        loop: The event loop.
    """

    def __init__(self, thread: str) -> None:
        self.thread = thread
        self._live: deque[LiveEvent] = deque()
        self._is_stored = False
        self._changed = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()

    def follows(self, run_id: str) -> bool:
        """Return whether a run is one of the thread."""
        return run_id.startswith(f"{self.thread}-")

    def put(self, event: RunEvent) -> None:
        """Keep a live event, or that there is something new in the store."""
        if not isinstance(event, BaseLiveEvent):
            self._is_stored = True
        elif len(self._live) < MAX_UNREAD:
            self._live.append(event)
        if threading.get_ident() == self._thread_id:
            self._changed.set()
            return
        with suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self._changed.set)

    def look(self) -> None:
        """Look at the store soon; call it on the follower's loop."""
        self._is_stored = True
        self._changed.set()

    def take(self) -> list[LiveEvent]:
        """Return the unread live events."""
        taken: list[LiveEvent] = []
        while self._live:
            taken.append(self._live.popleft())
        return taken

    async def wait(self, sleep: Sleep, seconds: float) -> bool:
        """Wait for an event; return whether the store is to be looked at.

        That is so after a stored event of this process, or after some time.
        """
        changed = asyncio.ensure_future(self._changed.wait())
        asleep = asyncio.ensure_future(sleep(seconds))
        try:
            await asyncio.wait({changed, asleep}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
            asleep.cancel()
        self._changed.clear()
        looks = self._is_stored or not self._live
        self._is_stored = False
        return looks
