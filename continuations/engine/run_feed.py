"""The stored and live events of one run, while a worker works on it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from continuations.core.run_stream_diff import events_between
from continuations.engine.event_reading import Cursor, read_events, with_deciders
from continuations.engine.live_feeds import EventFeed
from continuations.ledger.versions import Versions

if TYPE_CHECKING:
    from datetime import datetime

    from continuations.core.state import RunState
    from continuations.engine.ports import EventSink, Ports
    from continuations.ledger.objects import Objects
    from continuations.ledger.versions import LoadedVersion

_log = logging.getLogger("continuations")


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
        sink: EventSink,
        after: Cursor | None,
    ) -> None:
        super().__init__(run_id, sink)
        self._objects = objects
        self._ports = ports
        # Only later events are handed on. `None`: those after the version that the
        # worker finds.
        self._place = after

    @property
    def versions(self) -> Versions:
        """The versions of the run; the feed reports each new one."""
        return _ReportedVersions(self._objects, self._run_id, self)

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
