"""Bugs of streams: events are lost or come twice, and texts are mixed."""

from __future__ import annotations

from typing import Any

from continuations.core.model_protocol import ModelDelta
from continuations.core.reading.live_events import LiveTranscript
from continuations.engine import event_reading
from continuations.engine.event_reading import Cursor
from continuations.engine.events.event_feeds import RunFeed, TurnFeed
from tests.simulation.families import STREAMS
from tests.simulation.mutants.mutant import Original, Patches, mutants_of, patch, skip

mutant = mutants_of(STREAMS)


@mutant("streams_go_on_where_they_were_cut")
def versions_of_other_workers_are_left_out() -> Patches:
    """A stream leaves out the versions of other workers."""

    async def catch_up(self: RunFeed, number: int) -> None:
        self._place = Cursor(number + 1)

    yield patch(RunFeed.catch_up, catch_up)


@mutant("streams_go_on_where_they_were_cut")
def rest_of_a_version_is_left_out() -> Patches:
    """The other events of the cursor's version are left out."""

    def position(original: Original) -> Any:
        return original()._replace(ordinal=0)

    yield patch(event_reading._position, position)


@mutant("each_text_is_shown_once")
def live_events_have_no_fence() -> Patches:
    """Live events of all workers have the same fence."""

    async def call(original: Original, self: TurnFeed) -> None:
        self._fence = 1_000
        await original()

    yield patch(TurnFeed.__call__, call)


@mutant("each_text_is_shown_once")
def repeated_request_goes_on_with_the_text() -> Patches:
    """A request that is repeated goes on with the text of the one before."""

    async def call(original: Original, delta: ModelDelta) -> None:
        if delta.kind != "restart":
            await original()

    yield patch(TurnFeed.__call__, call)


@mutant("each_text_is_shown_once")
def stored_replies_leave_live_ones() -> Patches:
    """A stored reply does not replace its live events."""
    yield skip(LiveTranscript._void)
