"""The stored and live events of one run, while a worker works on it."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from continuations.core.run_stream_diff import events_between
from continuations.engine.event_reading import Cursor, read_events, with_deciders
from continuations.engine.live_feeds import CallFeed, TurnFeed
from continuations.ledger.versions import Versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from continuations.core.calls import CallRow
    from continuations.core.decisions import Decision
    from continuations.core.frames import FrameRow
    from continuations.core.state import RunState
    from continuations.engine.ports import EventSink, Ports
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import LoadedVersion

_log = logging.getLogger("continuations")


class RunFeed:
    """Makes the events of one run for a sink, while one worker works on the run.

    Each stored event is handed on once, in order: of the versions that the worker
    commits, and of those that other workers committed before or in between.
    """

    def __init__(
        self,
        objects: Objects,
        ports: Ports,
        run_id: str,
        sink: EventSink,
        after: Cursor | None,
    ) -> None:
        self._objects = objects
        self._ports = ports
        self._run_id = run_id
        self._sink = sink
        # Only later events are handed on. `None`: those after the version that the
        # worker finds.
        self._place = after
        self._decisions: dict[str, Decision] = {}
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()

    @property
    def versions(self) -> Versions:
        """The versions of the run; the feed reports each new one."""
        return _ReportedVersions(self._objects, self._run_id, self)

    # Stored events ------------------------------------------------------------

    async def catch_up(self, number: int) -> None:
        """Report the versions of other workers, up to the newest version `number`.

        Raises the errors of `read_events`.
        """
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

    def know(self, decisions: Mapping[str, Decision]) -> None:
        """Keep decisions that were read, for the events of the waits that they end."""
        self._decisions.update(decisions)

    async def report_version(
        self, previous: LoadedVersion | None, version: LoadedVersion
    ) -> None:
        """Report the events of a version that was created.

        An error is logged: the version is stored, and the run goes on.
        """
        number = version.number
        try:
            events = events_between(
                previous.state if previous else None,
                version.state,
                version=number,
                at=version.at,
            )
            for event in await with_deciders(self._objects, events, self._decisions):
                self._sink.put(event)
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            text = "run %s: the events of version %s were not reported"
            _log.exception(text, self._run_id, number)
        self._place = Cursor(number + 1)

    # Live events --------------------------------------------------------------

    def turn(self, state: RunState, frame: FrameRow, fence: int) -> TurnFeed:
        """Return the listener of the parts of one reply."""
        return TurnFeed(self._sink, state, frame, fence)

    def progress(
        self, state: RunState, call: CallRow, fence: int
    ) -> Callable[[object], None]:
        """Return `ctx.progress` of a call; it may be called in any thread."""
        feed = CallFeed(self._sink, state, call, fence)

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


class _ReportedVersions(Versions):
    """The versions of a run, with a feed that reports each new one."""

    def __init__(self, objects: Objects, run_id: str, feed: RunFeed) -> None:
        super().__init__(objects, run_id)
        self._feed = feed

    async def append(
        self,
        previous: LoadedVersion | None,
        state: RunState,
        *,
        at: datetime,
        marker_keys: tuple[str, ...] = (),
        may_be_stored: bool = False,
    ) -> LoadedVersion:
        """Create the next version, as `Versions.append`, and report its events."""
        version = await super().append(
            previous,
            state,
            at=at,
            marker_keys=marker_keys,
            may_be_stored=may_be_stored,
        )
        await self._feed.report_version(previous, version)
        return version
