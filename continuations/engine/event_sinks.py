"""Hand each event to several sinks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from continuations.core.live_events import RunEvent
    from continuations.engine.ports import EventSink


class EventSinks:
    """Hands each event to the sinks of some work and to the observers of its runner.

    An observer may come while the work goes on, for example while a server sweeps. It
    gets the events of the runs that the work begins after that.
    """

    def __init__(
        self, observers: Sequence[EventSink], sinks: Iterable[EventSink] = ()
    ) -> None:
        self._sinks = tuple(sinks)
        self._observers = observers

    def put(self, event: RunEvent) -> None:
        """Hand an event on."""
        for sink in (*self._sinks, *self._observers):
            sink.put(event)

    def listens(self, run_id: str) -> bool:
        """Return whether one of the sinks takes the events of a run."""
        return any(each.listens(run_id) for each in (*self._sinks, *self._observers))
