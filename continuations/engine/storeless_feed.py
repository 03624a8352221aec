"""The events of a run without a store, while this process works on it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from continuations.core.run_stream import WaitDecided
from continuations.core.run_stream_diff import events_between
from continuations.core.wait_rules import WAIT_RULES
from continuations.engine.live_feeds import EventFeed
from continuations.ledger import layout
from continuations.value_class import replace

if TYPE_CHECKING:
    from continuations.core.run_stream import StreamEvent
    from continuations.core.state import RunState
    from continuations.engine.ports import EventSink
    from continuations.ledger.claims import Clock

_log = logging.getLogger("continuations")


class StorelessFeed(EventFeed):
    """Makes the events of one run for a sink: the same ones that a store would have.

    Args:
        state: The state whose events are known. `None`: the run begins.
    """

    def __init__(
        self, run_id: str, sink: EventSink, clock: Clock, state: RunState | None
    ) -> None:
        super().__init__(run_id, sink)
        self._clock = clock
        self._reported = state

    def report(self, state: RunState, number: int) -> None:
        """Report the events of a version. An error is logged, and the run goes on."""
        try:
            at = self._clock.now()
            found = events_between(self._reported, state, version=number, at=at)
            for event in found:
                self._sink.put(self._with_decider(event))
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            text = "run %s: the events of version %s were not reported"
            _log.exception(text, self._run_id, number)
        self._reported = state

    def _with_decider(self, event: StreamEvent) -> StreamEvent:
        if not isinstance(event, WaitDecided):
            return event
        decision = self._decisions.get(event.wait_id)
        kind = layout.parse_wait_id(event.wait_id).kind
        if decision is None or not WAIT_RULES[kind].has_object:
            return event
        return replace(event, kind=decision.kind, by=decision.by)
