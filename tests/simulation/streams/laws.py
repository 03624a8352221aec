"""The laws of streams: a reader of streams that are cut sees each text once."""

from __future__ import annotations

import asyncio

from continuations.core.reading.live_events import LiveTranscript
from continuations.core.reading.run_stream import StreamEvent
from continuations.core.rows.state import ROOT_FRAME_ID
from continuations.engine.event_reading import Cursor, read_events
from continuations.ledger.objects import Objects
from tests.simulation.evidence import Evidence, ReadOnlyStore, RunHistory

_RUN_ID = "r0"


def streams_go_on_where_they_were_cut(evidence: Evidence) -> str | None:
    """The stored events of all streams are those of the run, each once, in order.

    A stream may end early, so the last ones may be missing.
    """
    screen = evidence.environment.screen
    if screen is None or not screen.cursors:
        return None
    seen = screen.cursors
    expected = [event.cursor for event in _events(evidence)][: len(seen)]
    if seen == expected:
        return None
    at = next(n for n, cursor in enumerate(seen) if cursor not in expected[n : n + 1])
    return f"{_RUN_ID}: event {seen[at]} was shown, not {expected[at : at + 1]}"


def each_text_is_shown_once(evidence: Evidence) -> str | None:
    """A text never mixes two requests to a model; at the end each stands there once.

    A reader that reads the rest of the events sees the messages of the root agent.
    """
    screen = evidence.environment.screen
    history = evidence.runs.get(_RUN_ID)
    if screen is None or history is None or not history.versions:
        return None
    if screen.problem is not None:
        return f"{_RUN_ID}: {screen.problem}"
    transcript = screen.transcript
    for event in _events(evidence):
        transcript.add(event)
    incomplete = [each.text for each in transcript.texts if not each.is_complete]
    if history.newest_state.run.status != "running" and incomplete:
        return f"no process works on {_RUN_ID}, and {incomplete} is being written"
    return _difference(transcript, history)


def _difference(transcript: LiveTranscript, history: RunHistory) -> str | None:
    shown = [
        each.text
        for each in transcript.texts
        if each.is_complete and each.frame == ROOT_FRAME_ID
    ]
    log = history.newest_state.logs[ROOT_FRAME_ID]
    stored = [
        message.content
        for message in log.messages
        if message.role in ("user", "assistant") and message.content
    ]
    return None if shown == stored else f"{_RUN_ID} shows {shown}, not {stored}"


def _events(evidence: Evidence) -> list[StreamEvent]:
    """Return all events of the run, as a process that comes later reads them."""
    found: list[StreamEvent] = []

    async def read() -> None:
        objects = Objects(ReadOnlyStore(evidence.environment.store))
        async for events in read_events(
            objects, _never, _RUN_ID, Cursor(), follow=False
        ):
            found.extend(events)

    asyncio.run(read())  # decisions are read side by side, which needs a loop
    return found


async def _never(seconds: float) -> None:
    raise AssertionError(seconds)
