"""Tell the viewers of runs about changes: one follower for each run of a process.

While a page of a run is open, its follower looks for new versions and arrivals, and
tells every viewer of the run. It reads what the pages show once for all of them. If a
worker writes a reply of a thread meanwhile, viewers get its words too: those of this
process directly, those of other processes through the store.

No viewer, no request: the follower ends with its last viewer.
"""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from continuations.core.reading import run_stream
from continuations.core.reading.live_events import (
    BaseLiveEvent,
    ReasoningDelta,
    TextDelta,
)
from continuations.core.visible_text import escape_invisible
from continuations.engine.events.word_reader import WordReader
from continuations.errors import ContinuationsError, RunErased, RunNotFound, StoreError
from continuations.ledger.layout import is_thread_id, thread_of
from continuations.ledger.objects import Objects
from continuations.ledger.versions import Versions
from continuations.serve.console.live import Away, LiveWaits, look_at_store
from continuations.serve.console.run_snapshot import find_place, read_snapshot
from continuations.value_class import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import datetime

    from continuations.core.reading.live_events import LiveEvent, RunEvent
    from continuations.engine.events.carried_words import ReadTurn
    from continuations.engine.runner.async_runner import AsyncRunner
    from continuations.serve.console.run_snapshot import RunPlace, RunSnapshot


# So many replies are kept while they are written.
_MAX_WRITINGS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WordsPlace:
    """How much of a reply a viewer has.

    Attributes:
        fence: The fence of the worker.
        attempt: The attempt under this fence.
        count: How many parts the viewer has.
    """

    fence: int = 0
    attempt: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The next words of a reply.

    Attributes:
        start: Number of the first part; 0 begins the reply anew.
        place: The end of these words.
        text: The words, as a page shows them.
    """

    start: int
    place: WordsPlace
    text: str

    def json(self) -> dict[str, object]:
        """Return the words as JSON values for the script of the page."""
        place = self.place
        return {
            "fence": place.fence,
            "attempt": place.attempt,
            "from": self.start,
            "to": place.count,
            "text": self.text,
        }


class Writing:
    """The reply of the root agent of one run, while it is written."""

    def __init__(self) -> None:
        self._number = (0, 0)
        self._floor = 0
        self._parts: list[str] = []

    def add(self, event: RunEvent) -> None:
        """Take an event of the run; another agent's words change nothing."""
        if len(event.path) > 1:
            return
        if isinstance(event, TextDelta | ReasoningDelta):
            self._add_part(event)
        elif not isinstance(event, BaseLiveEvent) and replaces_words(event):
            self._floor = int(event.cursor.partition(".")[0])
            if self._number[0] < self._floor:
                self._parts.clear()

    @property
    def is_empty(self) -> bool:
        """Whether no reply is being written."""
        return not self._parts

    def lose(self, number: tuple[int, int]) -> None:
        """Show the words of an attempt no more: their worker has given them up."""
        if number == self._number:
            self._parts.clear()

    def after(self, place: WordsPlace) -> Words | None:
        """Return the words that a viewer does not have, or `None`."""
        fence, attempt = self._number
        is_known = (place.fence, place.attempt) == self._number
        start = place.count if is_known else 0
        if is_known and not self._parts and place.count:
            none = WordsPlace(fence=fence, attempt=attempt)
            return Words(start=0, place=none, text="")
        if start >= len(self._parts):
            return None
        end = WordsPlace(fence=fence, attempt=attempt, count=len(self._parts))
        text = "".join(self._parts[start:])
        return Words(start=start, place=end, text=shown_text(text))

    def _add_part(self, event: TextDelta | ReasoningDelta) -> None:
        number = (event.fence, event.attempt)
        if event.fence < self._floor or number < self._number:
            return
        if number > self._number:
            self._number, self._parts = number, []
        if event.index == len(self._parts):
            # A thought of the model has a number too, and is not shown.
            self._parts.append(event.text if isinstance(event, TextDelta) else "")


class Writings:
    """The replies that the workers of this process write now, by run."""

    def __init__(self) -> None:
        self._runs: dict[str, Writing] = {}

    def add(self, event: RunEvent) -> None:
        """Take an event of any run."""
        run_id, found = event.run_id, self._runs.get(event.run_id)
        if found is None:
            if not isinstance(event, TextDelta | ReasoningDelta):
                return
            if len(self._runs) == _MAX_WRITINGS:
                # A worker that lost its run never stores the end of its reply.
                del self._runs[next(iter(self._runs))]
            found = self._runs[run_id] = Writing()
        found.add(event)
        if found.is_empty:
            del self._runs[run_id]

    def lose(self, run_id: str, number: tuple[int, int]) -> None:
        """Show the words of an attempt no more; a stored message may have them."""
        if run_id in self._runs:
            self._runs[run_id].lose(number)

    def forget(self, run_id: str) -> None:
        """Keep no words of a run."""
        self._runs.pop(run_id, None)

    def after(self, run_id: str, place: WordsPlace) -> Words | None:
        """Return the words of a run that a viewer does not have, or `None`."""
        found = self._runs.get(run_id)
        return None if found is None else found.after(place)


def replaces_words(event: run_stream.StreamEvent) -> bool:
    """Return whether an event of the root agent replaces the words before it."""
    match event:
        case run_stream.MessageAdded():
            return event.message.get("role") == "assistant"
        case (
            run_stream.ReplyGiven()
            | run_stream.RunEnded()
            | run_stream.RunRepaired()
            | run_stream.RunRewound()
        ):
            return True
        case _:
            return False


def shown_text(text: str) -> str:
    """Return a text with its line ends, and other invisible characters escaped."""
    return "\n".join(map(escape_invisible, text.split("\n")))


# Seconds between two looks at a run. A suspended run changes after a decision, which
# the lister of the waits finds, or when a time or an event has come.
INTERVAL_SECONDS, SUSPENDED_SECONDS = 2.0, 10.0
_GROUP_SECONDS = 0.1
# If another process writes words no more, a stored message replaces them within this
# time, or nothing does.
_STORED_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Changed:
    """The run has another cursor."""

    cursor: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The store does not have the run any more."""


RunNews: TypeAlias = Changed | Words | Gone | Away


@dataclasses.dataclass(slots=True, eq=False)
class _Viewer:
    """One open page: what it has, and whether there is more."""

    cursor: str
    words: WordsPlace = field(default_factory=WordsPlace)
    away: Away = field(default_factory=lambda: Away(None))
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class LiveRuns:
    """Follows the runs whose pages are open in one process.

    It is an observer of the runner: it takes the events of threads, and of the runs
    that have viewers.

    Args:
        runner: The runner whose runs are followed.
        waits: The lister of the process.
        interval: Seconds between two looks at a run that works.
    """

    def __init__(
        self,
        runner: AsyncRunner,
        waits: LiveWaits,
        *,
        interval: float,
    ) -> None:
        self._runner = runner
        self._waits = waits
        self._interval = interval
        self._followers: dict[str, _Follower] = {}
        self._writings = Writings()
        self._reader: WordReader | None = None
        self._home: tuple[asyncio.AbstractEventLoop, int] | None = None
        self._is_closed = False

    @property
    def run_ids(self) -> frozenset[str]:
        """The ids of the runs that have viewers."""
        return frozenset(self._followers)

    async def changes(self, run_id: str, after: str) -> AsyncGenerator[RunNews]:
        """Yield the news of a run, from the cursor of an open page on.

        Args:
            run_id: Id of the run.
            after: The cursor that the page has.
        """
        self._home = asyncio.get_running_loop(), threading.get_ident()
        follower = self._followers.get(run_id)
        if follower is None:
            parts = self._runner, self._waits, self._writings, run_id, self._interval
            follower = self._followers[run_id] = _Follower(*parts)
            self._read_words(run_id)
        viewer = _Viewer(after)
        follower.join(viewer)
        try:
            while not self._is_closed:
                await viewer.changed.wait()
                viewer.changed.clear()
                for news in follower.news(viewer):
                    if self._is_closed:
                        return
                    yield news
                if follower.is_over:
                    return
        finally:
            if follower.leave(viewer):
                self._followers.pop(run_id, None)
                self._read_no_words(run_id)

    async def snapshot(self, run_id: str, cursor: str) -> RunSnapshot | None:
        """Return what the pages of a run show at a cursor, if its follower is there.

        It is read once for all viewers.
        """
        follower = self._followers.get(run_id)
        return None if follower is None else await follower.snapshot(cursor)

    def listens(self, run_id: str) -> bool:
        """Return whether a page of a run is open, or may open while it writes."""
        return run_id in self._followers or is_thread_id(run_id)

    def put(self, event: RunEvent) -> None:
        """Take an event of a worker of this process, in any thread."""
        if self._home is None or self._home[1] == threading.get_ident():
            self._take(event)
            return
        with suppress(RuntimeError):  # the loop is closed
            self._home[0].call_soon_threadsafe(self._take, event)

    def _take(self, event: RunEvent) -> None:
        self._writings.add(event)
        follower = self._followers.get(event.run_id)
        if follower is None:
            return
        if isinstance(event, BaseLiveEvent):
            follower.tell()
        else:
            follower.look()

    # The words of other processes -------------------------------------------------

    def _read_words(self, run_id: str) -> None:
        thread, carrier = thread_of(run_id), self._runner.word_carrier
        if thread is None or carrier is None:
            return
        if self._reader is None:
            self._reader = WordReader(carrier, self._take_carried, self._end_carried)
        self._reader.join(thread)

    def _read_no_words(self, run_id: str) -> None:
        thread = thread_of(run_id)
        if thread is None or self._reader is None:
            return
        if self._reader.words(thread):
            # Their end would not be noticed.
            self._writings.forget(run_id)
        if self._reader.leave(thread):
            self._reader = None

    def _take_carried(self, event: LiveEvent) -> None:
        """Take words of another process."""
        self._take(event)
        if event.index == 0 and event.run_id in self._followers:
            # A page shows them below the version under which they began.
            self._followers[event.run_id].look()

    def _end_carried(self, turn: ReadTurn) -> None:
        """Look for the message that replaces words; without one, show them no more."""
        run_id = turn.run_id
        if run_id in self._followers:
            self._followers[run_id].look()
        if not turn.is_of_root:
            return
        loop = asyncio.get_running_loop()
        loop.call_later(_STORED_SECONDS, self._lose, run_id, turn.number)

    def _lose(self, run_id: str, number: tuple[int, int]) -> None:
        self._writings.lose(run_id, number)
        if run_id in self._followers:
            self._followers[run_id].tell()

    def close(self) -> None:
        """End the streams of all viewers, because the server stops."""
        self._is_closed = True
        for follower in self._followers.values():
            follower.tell()


class _Follower:
    """Looks at one run for all of its viewers."""

    def __init__(
        self,
        runner: AsyncRunner,
        waits: LiveWaits,
        writings: Writings,
        run_id: str,
        interval: float,
    ) -> None:
        self.is_over = False
        self._runner, self._waits, self._run_id = runner, waits, run_id
        self._writings, self._interval = writings, interval
        self._objects = Objects(runner.store)
        self._viewers: set[_Viewer] = set()
        self._place: RunPlace | None = None
        self._snapshot: asyncio.Task[RunSnapshot] | None = None
        self._status = ""
        self._away = Away(None)
        self._look_now = asyncio.Event()
        self._task = asyncio.create_task(self._follow())

    # Viewers ------------------------------------------------------------------

    def join(self, viewer: _Viewer) -> None:
        """Tell a viewer from now on; it may have missed something."""
        self._viewers.add(viewer)
        viewer.changed.set()

    def leave(self, viewer: _Viewer) -> bool:
        """Tell a viewer no more; return whether it was the last one."""
        self._viewers.discard(viewer)
        if self._viewers:
            return False
        self._task.cancel()
        self._waits.leave(self._look_now)
        return True

    def look(self) -> None:
        """Look at the run at once: a worker of this process stored something."""
        self._look_now.set()

    def tell(self) -> None:
        """Wake all viewers."""
        for viewer in self._viewers:
            viewer.changed.set()

    def news(self, viewer: _Viewer) -> list[RunNews]:
        """Return what a viewer does not know yet, and remember that it does."""
        found: list[RunNews] = []
        if self._away != viewer.away:
            viewer.away = self._away
            found.append(viewer.away)
        words = self._writings.after(self._run_id, viewer.words)
        if words is not None:
            viewer.words = words.place
            found.append(words)
        if self._place is not None and self._place.cursor != viewer.cursor:
            viewer.cursor = self._place.cursor
            found.append(Changed(viewer.cursor))
        if self.is_over:
            found.append(Gone())
        return found

    async def snapshot(self, cursor: str) -> RunSnapshot | None:
        """Return what the pages show at a cursor; `None` if the run is elsewhere."""
        place = self._place
        if place is None or place.cursor != cursor:
            return None
        if self._snapshot is None:
            reading = read_snapshot(self._runner, place)
            self._snapshot = asyncio.create_task(reading)
        try:
            return await asyncio.shield(self._snapshot)
        except ContinuationsError:
            self._snapshot = None
            raise

    # The store -----------------------------------------------------------------

    async def _follow(self) -> None:
        while not self.is_over:
            began = self._away.since or self._waits.clock.now()
            what = f"look at run {self._run_id}"
            seconds = await look_at_store(self._look(), what, began, self._set_away)
            await self._pause(seconds)

    def _set_away(self, since: datetime | None) -> None:
        if since != self._away.since:
            self._away = Away(since)
            self.tell()

    async def _look(self) -> None:
        try:
            place = await find_place(self._objects, self._run_id)
            if self._place is None or place.version != self._place.version:
                self._status = await self._status_of(place.version)
        except (RunErased, RunNotFound):
            self.is_over = True
            self.tell()
            return
        if self._place is None or place.cursor != self._place.cursor:
            self._place, self._snapshot = place, None
            self.tell()

    async def _status_of(self, version: int) -> str:
        try:
            header = await Versions(self._objects, self._run_id).header(version)
        except (RunErased, RunNotFound, StoreError):
            raise
        except ContinuationsError:
            return ""  # the page of the run says what is wrong
        return header.status

    async def _pause(self, seconds: float) -> None:
        """Wait for the next look; a decision is found by the lister of the waits."""
        seconds = max(seconds, self._interval)
        if self._status == "suspended":
            seconds = max(SUSPENDED_SECONDS, seconds)
            self._waits.join(self._look_now)
        else:
            self._waits.leave(self._look_now)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._look_now.wait()
                # Versions often come in groups: one look finds them all.
                await asyncio.sleep(min(_GROUP_SECONDS, self._interval))
        self._look_now.clear()
