"""Hand the events of one run to those who listen, while a worker works on it.

Live events are the parts of a reply and the progress of a call. The others follow from
the versions of the run.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.core import jsontext
from continuations.core.reading.live_events import (
    CallProgress,
    ReasoningDelta,
    TextDelta,
)
from continuations.core.rows.state import RunState, call_path, frame_path
from continuations.engine.ports import EventSinks
from continuations.ledger.versions import LoadedVersion, Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from continuations.core.model_protocol import ModelDelta
    from continuations.core.rows.calls import CallRow
    from continuations.core.rows.decisions import Decision
    from continuations.core.rows.frames import FrameRow
    from continuations.engine.event_reading import Cursor
    from continuations.engine.events.word_carrier import RunWords
    from continuations.engine.ports import EventSink, Ports
    from continuations.ledger.claims import Clock
    from continuations.ledger.objects import Objects


class TurnFeed:
    """Hands on the parts of one reply; call it with each."""

    def __init__(
        self, sink: EventSink, state: RunState, frame: FrameRow, fence: int
    ) -> None:
        self._sink = sink
        self._run_id = state.run.id
        self._frame = frame
        self._path = frame_path(state, frame.id)
        self._fence = fence
        self._attempt, self._index = 1, 0

    async def __call__(self, delta: ModelDelta) -> None:
        """Hand a part on, and let those who read the events run."""
        if delta.kind == "restart":
            if self._index:
                self._attempt, self._index = self._attempt + 1, 0
            return
        if not delta.text:
            return
        make = TextDelta if delta.kind == "text" else ReasoningDelta
        event = make(
            run_id=self._run_id,
            frame=self._frame.id,
            path=self._path,
            turn=self._frame.turns + 1,
            fence=self._fence,
            attempt=self._attempt,
            index=self._index,
            text=delta.text,
        )
        self._index += 1
        self._sink.put(event)
        # A model whose next part is there already does not give way to other tasks.
        await asyncio.sleep(0)


class CallFeed:
    """Hands on the progress of one call."""

    def __init__(
        self, sink: EventSink, state: RunState, call: CallRow, fence: int
    ) -> None:
        self._sink = sink
        self._run_id = state.run.id
        self._call = call
        self._path = call_path(state, call)
        self._turn = state.frames[call.frame_id].turns
        self._fence = fence
        self._index = 0

    def text_of(self, value: object) -> str | None:
        """Return a value as JSON text, in any thread; `None` if it is not JSON."""
        try:
            return jsontext.dump(value)
        except jsontext.NotJson as error:
            _log.warning(
                "run %s: a value for ctx.progress of tool %s is left out: %s",
                *(self._run_id, self._call.tool, error),
            )
            return None

    def report(self, text: str) -> None:
        """Hand a JSON text on."""
        event = CallProgress(
            run_id=self._run_id,
            frame=self._call.frame_id,
            path=self._path,
            turn=self._turn,
            fence=self._fence,
            attempt=max(self._call.attempts, 1),
            index=self._index,
            call=self._call.id,
            tool=self._call.tool,
            value_json=text,
        )
        self._index += 1
        self._sink.put(event)


_log = logging.getLogger("continuations")


# Most workers have no listener, and load nothing of events.
# ruff: noqa: PLC0415


def _report_nothing(value: object) -> None:
    """Drop the progress of a call without a follower."""
    del value


class EventFeed:
    """Hands the events of one run to a sink; make it on the loop that works.

    Args:
        run_id: Id of the run.
        sink: Takes all events, or `None`.
        words: Takes the live events for other processes that follow, or `None`.
    """

    def __init__(
        self, run_id: str, sink: EventSink | None, words: RunWords | None = None
    ) -> None:
        self._run_id = run_id
        self._sink = sink
        self._words = words
        self._decisions: dict[str, Decision] = {}
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()

    def know(self, decisions: Mapping[str, Decision]) -> None:
        """Keep decisions that were read, for the events of the waits that they end."""
        self._decisions.update(decisions)

    def _live_sink(self) -> EventSink | None:
        """Return what takes the live events from now on, or `None`."""
        if self._words is None:
            return self._sink
        if self._sink is not None:
            # A process may begin to follow in the middle of a reply.
            return EventSinks((), (self._sink, self._words))
        return self._words if self._words.are_followed() else None

    def turn(self, state: RunState, frame: FrameRow, fence: int) -> TurnFeed | None:
        """Return the listener of the parts of one reply, or `None`."""
        sink = self._live_sink()
        if sink is None:
            return None

        return TurnFeed(sink, state, frame, fence)

    def progress(
        self, state: RunState, call: CallRow, fence: int
    ) -> Callable[[object], None]:
        """Return `ctx.progress` of a call; it may be called in any thread."""
        sink = self._live_sink()
        if sink is None:
            return _report_nothing

        feed = CallFeed(sink, state, call, fence)

        def report(value: object) -> None:
            text = feed.text_of(value)
            if text is None:
                return
            if threading.get_ident() == self._thread_id:
                feed.report(text)
                return
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(feed.report, text)

        return report

    async def _put_version(
        self,
        sink: EventSink,
        before: RunState | None,
        after: RunState,
        number: int,
        at: datetime,
        objects: Objects | None,
    ) -> None:
        """Hand on the events of a version.

        An error is logged: the version exists, and the run goes on.
        """
        from continuations.core.reading.run_stream_diff import events_between
        from continuations.engine.event_reading import with_deciders

        try:
            events = events_between(before, after, version=number, at=at)
            for event in await with_deciders(objects, events, self._decisions):
                sink.put(event)
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            text = "run %s: the events of version %s were not reported"
            _log.exception(text, self._run_id, number)


class RunFeed(EventFeed):
    """Makes the events of one run for a sink, while one worker works on the run.

    Each stored event is handed on once, in order: of the versions that the worker
    commits, and of those that other workers committed before or in between.
    """

    def __init__(
        self,
        objects: Objects,
        ports: Ports,
        run_id: str,
        sink: EventSink | None,
        after: Cursor | None,
        words: RunWords | None = None,
    ) -> None:
        super().__init__(run_id, sink, words)
        self._objects = objects
        self._ports = ports
        # Only later events are handed on. `None`: those after the version that the
        # worker finds.
        self._place = after

    @property
    def versions(self) -> Versions:
        """The versions of the run; the feed reports each new one."""
        return Versions(self._objects, self._run_id, self.report_version)

    async def catch_up(self, number: int) -> None:
        """Report the versions of other workers, up to the newest version `number`.

        Raises the errors of `read_events`.
        """
        if self._sink is None:
            return
        from continuations.engine.event_reading import Cursor, read_events

        place = self._place
        if place is not None and place != Cursor(number + 1):
            found = read_events(
                self._objects, self._ports.sleep, self._run_id, place, follow=False
            )
            async for events in found:
                for event in events:
                    self._sink.put(event)
                number = max(number, int(events[-1].cursor.partition(".")[0]))
        self._place = Cursor(number + 1)

    async def report_version(
        self, previous: LoadedVersion | None, version: LoadedVersion
    ) -> None:
        """Report the events of a version that was created."""
        if self._words is not None:
            self._words.keep_unstored(version.state)
        if self._sink is None:
            return
        from continuations.engine.event_reading import Cursor

        before = previous.state if previous else None
        number, at = version.number, version.at
        await self._put_version(
            self._sink, before, version.state, number, at, self._objects
        )
        if version.state.run.claim is None and isinstance(self._sink, EventSinks):
            self._sink.released(self._run_id)
        self._place = Cursor(number + 1)


class StorelessFeed(EventFeed):
    """Makes the events of one run for a sink: the same ones that a store would have.

    Args:
        state: The state whose events are known. `None`: the run begins.
    """

    def __init__(
        self, run_id: str, sink: EventSink, clock: Clock, state: RunState | None
    ) -> None:
        super().__init__(run_id, sink)
        self._taker = sink
        self._clock = clock
        self._reported = state

    async def report(self, state: RunState, number: int) -> None:
        """Report the events of a version."""
        at = self._clock.now()
        await self._put_version(self._taker, self._reported, state, number, at, None)
        self._reported = state
