"""The events of a thread as server-sent events, with words while they are written.

A response ends after a time, so that no open connection delays the end of a server for
long. A browser connects again by itself, from the last stored event on, and gets the
words of the present reply from their beginning.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from continuations.core.live_events import BaseLiveEvent
from continuations.engine.event_listeners import EventBuffer
from continuations.errors import ContinuationsError
from continuations.present.json_forms import event_json
from continuations.serve.http.event_stream import MEDIA_TYPE, data_line, last_place
from continuations.serve.http.request_response import NO_STORE_HEADERS, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from continuations.core.live_events import RunEvent
    from continuations.core.messages import Detail
    from continuations.engine.batches import Flattened
    from continuations.serve.http.request_context import RequestContext

# A response ends after so many seconds.
STREAM_SECONDS = 25.0
# The time after which a browser connects again, in milliseconds.
_RETRY_LINE = "retry: 250\n\n"
# With this header nginx sends each part at once.
_HEADERS = {"content-type": MEDIA_TYPE, "x-accel-buffering": "no", **NO_STORE_HEADERS}


async def of_thread(context: RequestContext, agent: str, key: str) -> Response:
    """Return the events of a thread after `Last-Event-ID`, as they come.

    A thread without a message has no events yet.
    """
    thread = context.runner.thread(agent, key=key)
    run_id, cursor = last_place(context.request, agent, key)
    after = f"{run_id}/{cursor}" if run_id else ""
    follow = thread.follow(after=after, words=True)
    events = cast("Flattened[RunEvent]", follow)
    return Response(
        status=200, headers=_HEADERS, chunks=_chunks(context, events.batches)
    )


async def _chunks(
    context: RequestContext, batches: AsyncIterator[list[RunEvent]]
) -> AsyncIterator[str]:
    yield _RETRY_LINE
    buffer = EventBuffer()
    reader = asyncio.create_task(_read(buffer, batches))
    details: dict[str, Detail | None] = {}
    try:
        async with asyncio.timeout(STREAM_SECONDS):
            while events := await buffer.read():
                for event in events:
                    if event.run_id not in details:
                        details[event.run_id] = await _detail(context, event.run_id)
                    text = _text(event, details[event.run_id])
                    if text:
                        yield text
    except TimeoutError:
        return
    finally:
        reader.cancel()


async def _read(buffer: EventBuffer, batches: AsyncIterator[list[RunEvent]]) -> None:
    """Read until the response ends; after an error, the browser connects again."""
    try:
        async for events in batches:
            for event in events:
                buffer.put(event)
    except ContinuationsError:
        return
    finally:
        buffer.close()


async def _detail(context: RequestContext, run_id: str) -> Detail | None:
    """Return which texts of a run the client may read; `None`: not even its events."""
    if not await context.may("view", run_id):
        return None
    return await context.detail(run_id)


def _text(event: RunEvent, detail: Detail | None) -> str:
    """Return the lines of an event; none for words that the client may not read."""
    if detail is None:
        return ""
    if isinstance(event, BaseLiveEvent):
        is_readable = detail == "transcript"
        return data_line(event_json(event, detail)) if is_readable else ""
    line = data_line(event_json(event, detail))
    return f"id: {event.run_id}/{event.cursor}\n{line}"
